//! What the chain itself shows.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::{Anvil, Mined};

use super::text;

/// Checks, from every block of the chain, that each signer's transactions are mined exactly once,
/// under the nonce and hash that the node says, and that nothing else is: no nonce is left out.
///
/// A signer's transactions must differ in the wei they carry, so that one mined twice under
/// different nonces does not pass for another.
pub(crate) async fn assert_all_mined_once(anvil: &Anvil, of_signers: &[(&str, Vec<Value>)]) {
    let mined = anvil.transactions().await;
    for (signer, txs) in of_signers {
        let of_signer = mined.iter().filter(|mined| mined.from.eq_ignore_ascii_case(signer));
        assert_once(signer, txs, &of_signer.collect::<Vec<_>>());
        let pending = anvil.nonce(signer, "pending").await;
        assert_eq!(pending, txs.len() as u64, "nothing waits of {signer}");
    }
}

/// [`assert_all_mined_once`] for one signer.
pub(crate) async fn assert_mined_once(anvil: &Anvil, signer: &str, txs: &[Value]) {
    assert_all_mined_once(anvil, &[(signer, txs.to_vec())]).await;
}

fn assert_once(signer: &str, txs: &[Value], mined: &[&Mined]) {
    let told: BTreeMap<u64, (String, String)> = txs
        .iter()
        .map(|tx| {
            let nonce = tx["nonce"].as_u64().unwrap_or_else(|| panic!("no nonce: {tx:#}"));
            let value = text(&tx["payload"]["value"]).to_owned();
            (nonce, (text(&tx["txHash"]).to_owned(), value))
        })
        .collect();
    let nonces: Vec<u64> = mined.iter().map(|mined| mined.nonce).collect();
    assert_eq!(nonces, (0..txs.len() as u64).collect::<Vec<_>>(), "of {signer}");
    let shown: BTreeMap<u64, (String, String)> = mined
        .iter()
        .map(|mined| (mined.nonce, (mined.hash.clone(), mined.value.to_string())))
        .collect();
    assert_eq!(shown, told, "what is mined and what the node says of {signer}");
    let mut values: Vec<&String> = shown.values().map(|(_, value)| value).collect();
    values.sort();
    values.dedup();
    assert_eq!(values.len(), txs.len(), "an amount was carried twice");
}
