//! Keys, passwords and access keys show nowhere.

use std::time::Duration;

use serde_json::json;
use stile_chain::{BlockTag, Chains, LocalSigner, NonceSource, PoolOptions, RemoteSigner};
use stile_domain::{Address, Bytes, Lane, Payload};

use crate::support::*;

/// A node behind a secret path that answers everything with an error that repeats the path.
async fn indiscreet() -> (Fake, String) {
    let node = Fake::start(|method, _| {
        look(method, 1)
            .ok_or_else(|| json!({ "code": -32000, "message": "bad key canary-canary in /v2/" }))
    })
    .await;
    let url = node.url().replace("http://", "http://canary-user:canary-canary@");
    (node, format!("{url}/v2/canary-canary?key=canary-canary"))
}

fn assert_discreet(what: impl std::fmt::Debug) {
    let text = format!("{what:?}");
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test]
async fn access_keys_in_endpoint_urls_are_never_shown() {
    let (node, url) = indiscreet().await;
    let dead = "http://127.0.0.1:1/canary".to_owned();
    let ws = "ws://127.0.0.1:1/canary".to_owned();
    let chains = Chains::new([(chain(), vec![url, dead, ws])], PoolOptions::default()).unwrap();
    let pool = chains.get(chain()).unwrap();
    let view = pool.view().await.unwrap();
    assert_eq!(view.endpoint(), shown(node.url()));
    let lane = Lane::new(chain(), Address::ZERO);
    let error = chains.transaction_count(lane, BlockTag::Latest).await.unwrap_err();
    assert_discreet((&error, error.to_string()));
    let error = pool.estimate_gas(Address::ZERO, &Payload::default()).await.unwrap_err();
    assert_discreet((&error, error.to_string()));
    assert_discreet(pool.send_raw(&[Bytes::from_static(b"x")]).await);
    assert_discreet(view.receipts_in(view.head(), &[Default::default(); 2]).await);
    assert_discreet((&chains, pool, &view, pool.endpoints()));
    let (_node, url) = indiscreet().await;
    let remote = RemoteSigner::new(&url, Address::ZERO, Duration::from_secs(10)).unwrap();
    assert_discreet(&remote);
    let bad = RemoteSigner::new("ws://h/canary", Address::ZERO, Duration::from_secs(1));
    assert_discreet((bad.as_ref().unwrap_err(), bad.as_ref().unwrap_err().to_string()));
}

#[test]
fn a_key_shows_its_address_only() {
    let signer = signer(KEYS[0]);
    let text = format!("{signer:?}");
    assert!(text.contains("f39F"), "{text}");
    assert!(!text.to_lowercase().contains("ac0974"), "{text}");
    let long = format!("{}00", KEYS[0]);
    for wrong in ["canary", "0x12", &long, &"f".repeat(64), &"0".repeat(64)] {
        let error = LocalSigner::from_key(wrong).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(wrong), "{error}");
    }
}
