//! Chains, for whoever may see them.

use serde_json::{Value, json};

use crate::Solo;
use crate::common::{Answer, CHAIN, SIGNER, StileProcess};

/// A signer of others, on their chain.
const THEIRS: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const THEIR_CHAIN: u64 = 5;

/// A chain without a signer.
const SPARE_CHAIN: u64 = 7;

/// Nobody listens there.
const AWAY: &str = "http://127.0.0.1:1";

/// Makes a key, with another one as soon as there is one.
async fn key(node: &StileProcess, by: Option<&str>, name: &str, signers: &Value) -> String {
    let request = node.request("POST", "/api/v1/keys");
    let request = by.into_iter().fold(request, |request, token| request.bearer_auth(token));
    let operations = if by.is_some() { "read" } else { "admin" };
    let body = json!({ "name": name, "operations": [operations], "signers": signers });
    let made = Answer::of(request.json(&body).send().await.unwrap()).await.unwrap();
    made.json()["token"].as_str().unwrap_or_else(|| panic!("{made:?}")).to_owned()
}

/// A key for some signers sees the chains that they are on, and of another one not even that it is
/// followed.
#[tokio::test]
async fn a_key_for_some_signers_sees_their_chains_and_no_others() {
    let solo = Solo::start_with(&[], |options| {
        options
            .endpoint(AWAY)
            .another_chain_at(THEIR_CHAIN, AWAY)
            .another_chain_at(SPARE_CHAIN, AWAY)
            .signer_entry(&format!("address = \"{SIGNER}\"\nchain = {CHAIN}"))
            .signer_entry(&format!("address = \"{THEIRS}\"\nchain = {THEIR_CHAIN}"))
    })
    .await;
    let node = &solo.node;
    let get = async |token: &str, path: &str| {
        let answer = node.request("GET", path).bearer_auth(token).send().await.unwrap();
        Answer::of(answer).await.unwrap()
    };
    let admin = key(node, None, "admin", &json!("all")).await;
    let all = [THEIR_CHAIN, SPARE_CHAIN, CHAIN];
    for (name, signers, seen) in [
        ("all", json!("all"), &all[..]),
        ("ours", json!([SIGNER]), &[CHAIN]),
        ("theirs", json!([THEIRS]), &[THEIR_CHAIN]),
        ("both", json!([THEIRS, SIGNER]), &[THEIR_CHAIN, CHAIN]),
    ] {
        let token = key(node, Some(&admin), name, &signers).await;
        let list = get(&token, "/api/v1/chains").await.ok();
        let items = list["items"].as_array().unwrap().iter();
        let listed: Vec<u64> = items.map(|item| item["chainId"].as_u64().unwrap()).collect();
        assert_eq!(listed, seen, "{name}");
        for chain in all {
            let shown = get(&token, &format!("/api/v1/chains/{chain}")).await;
            if seen.contains(&chain) {
                assert_eq!(shown.ok()["chainId"], chain, "{name}");
                continue;
            }
            assert_eq!((shown.status, shown.problem().as_str()), (404, "unknown-chain"));
            let unknown = get(&token, "/api/v1/chains/9").await;
            let of_another = unknown.text.replace("chain 9", &format!("chain {chain}"));
            assert_eq!(shown.text, of_another, "{name}");
        }
    }
}
