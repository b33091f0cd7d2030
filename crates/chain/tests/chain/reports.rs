//! What every endpoint says of an account.

use serde_json::json;
use stile_chain::{EndpointReport, TxSigner};
use stile_domain::{Address, B256};
use testkit::{Anvil, AnvilOptions};

use crate::support::*;

/// One that answers everything.
fn well(url: &str) -> EndpointReport {
    EndpointReport {
        endpoint: shown(url),
        usable: true,
        head: Some(0),
        why: None,
        latest: Some(0),
        pending: Some(0),
        knows: None,
        read_only: None,
        contradiction: None,
        impossible: Vec::new(),
    }
}

#[tokio::test]
async fn every_endpoint_is_asked_and_says_what_it_sees() {
    let (first, second) = (quiet_anvil().await, quiet_anvil().await);
    let other = Anvil::start(AnvilOptions { chain_id: 5, ..AnvilOptions::default() }).await;
    let tx = signed(0);
    pool([second.url()]).send_raw(&[tx.raw]).await;
    let dead = "http://127.0.0.1:1";
    // The very first question to this pool: it has not looked at anybody yet.
    let pool = pool([first.url(), second.url(), other.url(), dead]);
    let account = signer(KEYS[0]).address();
    let reports = pool.report(account, Some(tx.hash)).await;
    let nothing = |url: &str, why: &str| EndpointReport {
        usable: false,
        head: None,
        why: Some(why.to_owned()),
        latest: None,
        pending: None,
        ..well(url)
    };
    let expected = [
        EndpointReport { knows: Some(false), ..well(first.url()) },
        EndpointReport { pending: Some(1), knows: Some(true), ..well(second.url()) },
        nothing(other.url(), "serves chain 5, not 31337"),
        nothing(dead, "cannot be reached"),
    ];
    assert_eq!(reports, expected);
    second.mine(1).await;
    let reports = pool.report(account, None).await;
    let mined =
        EndpointReport { head: Some(1), latest: Some(1), pending: Some(1), ..well(second.url()) };
    assert_eq!(reports[1], mined);
}

/// One that lags is set aside, and asked all the same.
#[tokio::test]
async fn who_is_set_aside_is_asked_too() {
    let (first, second) = (anvil().await, anvil().await);
    let pool = pool([first.url(), second.url()]);
    second.mine(5).await;
    testkit::eventually("the first to be set aside", async || {
        pool.view().await.unwrap();
        (!pool.endpoints()[0].usable).then_some(())
    })
    .await;
    let reports = pool.report(Address::ZERO, Some(B256::ZERO)).await;
    let why = Some("lags behind the other endpoints".to_owned());
    let late = EndpointReport { usable: false, why, knows: Some(false), ..well(first.url()) };
    assert_eq!(reports[0], late);
    assert_eq!((reports[1].usable, reports[1].head), (true, Some(5)));
}

/// What one question got no answer to is missing, and said; the rest is there.
#[tokio::test]
async fn a_part_that_is_missing_is_explained() {
    let node = Fake::start(|method, params| match (method, params[1].as_str()) {
        ("eth_getTransactionCount", Some("latest")) => Ok(json!("0x3")),
        ("eth_getTransactionCount", _) => Err(json!({ "code": -32000, "message": "no pool" })),
        ("eth_getTransactionByHash", _) => Ok(json!({ "hash": B256::repeat_byte(9) })),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let report = pool([node.url()]).report(Address::ZERO, Some(B256::ZERO)).await.remove(0);
    let why = Some("error -32000: no pool".to_owned());
    let expected =
        EndpointReport { head: Some(5), why, latest: Some(3), pending: None, ..well(node.url()) };
    assert_eq!(report, expected);
}
