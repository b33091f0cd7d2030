//! Keys here and elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use stile_chain::{
    KeystoreError, LocalSigner, RemoteSigner, SendClass, SignError, TxSigner, UnsignedTx,
    address_of_key,
};
use stile_domain::{Address, Bytes, Fees, U256};
use tempfile::TempDir;

use crate::support::*;

fn legacy(nonce: u64) -> UnsignedTx {
    UnsignedTx { fees: Fees::Legacy { gas_price: 20_000_000_000 }, ..transfer(nonce) }
}

fn deployment(nonce: u64) -> UnsignedTx {
    // A contract of one byte, STOP.
    let code = Bytes::from_static(&[0x60, 1, 0x60, 0, 0xf3]);
    UnsignedTx { to: None, value: U256::ZERO, data: code, gas_limit: 100_000, ..transfer(nonce) }
}

#[tokio::test]
async fn a_chain_takes_every_kind_that_is_signed_here() {
    let anvil = anvil().await;
    let pool = pool([anvil.url()]);
    let signer = signer(KEYS[0]);
    assert!(signer.is_local());
    assert_eq!(Ok(signer.address()), address_of_key(KEYS[0]));
    for tx in [transfer(0), legacy(1), deployment(2)] {
        let signed = signer.as_local().unwrap().sign_now(&tx).unwrap();
        assert_eq!(signer.sign(&tx).await, Ok(signed.clone()), "the same every time");
        let answer = pool.send_raw(&[signed.raw]).await.remove(0);
        assert_eq!(answer.verdict, SendClass::Accepted, "{answer:?}");
        let found = anvil.rpc("eth_getTransactionByHash", json!([signed.hash])).await;
        assert_eq!(found["from"].as_str().unwrap().parse(), Ok(signer.address()));
    }
}

fn remote(url: &str, address: Address) -> RemoteSigner {
    RemoteSigner::new(url, address, Duration::from_secs(10)).unwrap()
}

#[tokio::test]
async fn a_key_elsewhere_signs_the_same() {
    let anvil = anvil().await;
    let local = signer(KEYS[0]);
    let remote = remote(anvil.url(), local.address());
    assert!(!remote.is_local() && remote.as_local().is_none());
    for tx in [transfer(0), legacy(1), deployment(2)] {
        assert_eq!(remote.sign(&tx).await, local.sign(&tx).await);
    }
    let stranger = RemoteSigner::new(anvil.url(), Address::repeat_byte(1), Duration::from_secs(9));
    let error = stranger.unwrap().sign(&transfer(0)).await.unwrap_err();
    assert!(matches!(error, SignError::Refused(_)), "{error:?}");
}

/// Answers `eth_signTransaction` with this.
async fn fake(answer: Value) -> Fake {
    Fake::start(move |_, _| Ok(answer.clone())).await
}

#[tokio::test]
async fn what_geth_and_clef_send_back_is_understood() {
    let local = signer(KEYS[0]);
    let signed = local.sign_now(&transfer(0)).unwrap();
    let node = fake(json!({ "raw": signed.raw, "tx": { "nonce": "0x0" } })).await;
    assert_eq!(remote(node.url(), local.address()).sign(&transfer(0)).await, Ok(signed));
}

#[tokio::test]
async fn a_signer_that_signs_something_else_is_refused() {
    let local = signer(KEYS[0]);
    let market = |max_fee_per_gas, max_priority_fee_per_gas| Fees::Market {
        max_fee_per_gas,
        max_priority_fee_per_gas,
    };
    let others = [
        ("chain", UnsignedTx { chain: stile_domain::ChainId::new(1).unwrap(), ..transfer(0) }),
        ("nonce", transfer(1)),
        ("receiver", UnsignedTx { to: Some(Address::repeat_byte(0x66)), ..transfer(0) }),
        ("receiver", UnsignedTx { to: None, ..transfer(0) }),
        ("value", UnsignedTx { value: U256::from(2), ..transfer(0) }),
        ("data", UnsignedTx { data: Bytes::from_static(b"x"), ..transfer(0) }),
        ("gas limit", UnsignedTx { gas_limit: 22_000, ..transfer(0) }),
        ("fees", UnsignedTx { fees: market(30_000_000_000, 1_000_000_000), ..transfer(0) }),
        ("fees", UnsignedTx { fees: market(20_000_000_000, 2_000_000_000), ..transfer(0) }),
        ("fees", legacy(0)),
    ];
    for (what, other) in others {
        let node = fake(json!(local.sign_now(&other).unwrap().raw)).await;
        let error = remote(node.url(), local.address()).sign(&transfer(0)).await.unwrap_err();
        let SignError::Refused(why) = &error else { panic!("{error:?}") };
        assert!(why.contains(&format!("the {what} differ")), "{why}");
    }
}

#[tokio::test]
async fn a_signature_of_another_key_and_rubbish_are_refused() {
    let local = signer(KEYS[0]);
    let mut longer = local.sign_now(&transfer(0)).unwrap().raw.to_vec();
    longer.push(0);
    let stranger = signer(KEYS[1]).sign_now(&transfer(0)).unwrap().raw;
    for answer in [
        json!(stranger),
        json!(Bytes::from(longer)),
        json!("0x"),
        json!("0x02c0"),
        json!("not hex"),
        json!(null),
        json!({ "raw": "0x1234" }),
        json!([1, 2]),
    ] {
        let node = fake(answer.clone()).await;
        let error = remote(node.url(), local.address()).sign(&transfer(0)).await.unwrap_err();
        assert!(matches!(error, SignError::Refused(_)), "{answer}: {error:?}");
    }
}

#[tokio::test]
async fn a_signer_out_of_reach_may_come_back() {
    let remote = remote("http://127.0.0.1:1/canary", Address::ZERO);
    let error = remote.sign(&transfer(0)).await.unwrap_err();
    assert!(matches!(error, SignError::Unavailable(_)), "{error:?}");
    assert!(!error.to_string().contains("canary"), "{error}");
    let denied =
        Fake::start(|_, _| Err(json!({ "code": -32000, "message": "Request denied" }))).await;
    let remote = RemoteSigner::new(denied.url(), Address::ZERO, Duration::from_secs(10)).unwrap();
    let error = remote.sign(&transfer(0)).await.unwrap_err();
    assert!(matches!(error, SignError::Refused(_)), "{error:?}");
}

const PASSWORD: &str = "correct horse";

fn keystore() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let key: stile_domain::B256 = KEYS[0].parse().unwrap();
    let mut random = rand::thread_rng();
    eth_keystore::encrypt_key(&directory, &mut random, key, PASSWORD, Some("key")).unwrap();
    let path = directory.path().join("key");
    (directory, path)
}

#[test]
fn a_key_file_opens_with_its_password_only() {
    let (_directory, path) = keystore();
    let signer = LocalSigner::from_keystore(&path, PASSWORD).unwrap();
    assert_eq!(Ok(signer.address()), address_of_key(KEYS[0]));
    let error = LocalSigner::from_keystore(&path, "canary").unwrap_err();
    assert_eq!(error, KeystoreError::WrongPassword);
    let missing = LocalSigner::from_keystore(&path.with_file_name("none"), PASSWORD).unwrap_err();
    assert!(matches!(missing, KeystoreError::Unreadable { .. }), "{missing:?}");
}

/// The example of the Web3 Secret Storage definition.
#[test]
fn the_published_example_opens() {
    let example = json!({
        "crypto": {
            "cipher": "aes-128-ctr",
            "cipherparams": { "iv": "6087dab2f9fdbbfaddc31a909735c1e6" },
            "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
            "kdf": "pbkdf2",
            "kdfparams": {
                "c": 262144,
                "dklen": 32,
                "prf": "hmac-sha256",
                "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd",
            },
            "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2",
        },
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
        "version": 3,
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    std::fs::write(&path, example.to_string()).unwrap();
    let signer = LocalSigner::from_keystore(&path, "testpassword").unwrap();
    let key = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
    assert_eq!(Ok(signer.address()), address_of_key(key));
}

/// What the decrypting library would panic on, or work at for days, is refused first.
#[test]
fn a_key_file_that_cannot_be_right_is_refused() {
    let (_directory, path) = keystore();
    let sound: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let crypto = &sound["crypto"];
    assert!(crypto.is_object());
    let broken: [fn(&mut Value); 8] = [
        |file| file["version"] = json!(1),
        |file| file["crypto"]["cipher"] = json!("rot13"),
        |file| file["crypto"]["cipherparams"]["iv"] = json!("00"),
        |file| file["crypto"]["ciphertext"] = json!("00"),
        |file| file["crypto"]["kdfparams"]["dklen"] = json!(1),
        |file| file["crypto"]["kdfparams"]["n"] = json!(3),
        |file| file["crypto"]["kdfparams"]["n"] = json!(1u64 << 31),
        |file| *file = json!("canary"),
    ];
    for change in broken {
        let mut file = sound.clone();
        change(&mut file);
        std::fs::write(&path, file.to_string()).unwrap();
        let error = LocalSigner::from_keystore(&path, PASSWORD).unwrap_err();
        assert!(matches!(error, KeystoreError::NotAKeystore(_)), "{error:?}");
        assert!(!error.to_string().contains("canary"));
    }
}
