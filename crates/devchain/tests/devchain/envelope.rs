//! JSON-RPC: batches, ids, errors.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use stile_devchain::{DevChain, DevChainError, Options};

use crate::common::{Chain, manual};

async fn answer(chain: &Chain, body: Value) -> Value {
    serde_json::from_str(&chain.post(body.to_string()).await.1).unwrap()
}

#[tokio::test]
async fn answers_have_the_ids_of_their_requests() {
    let chain = Chain::start(manual()).await;
    for id in [json!(7), json!("seven"), json!(null), json!(-1), json!(1.5)] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "eth_chainId" });
        let expected = json!({ "jsonrpc": "2.0", "id": id, "result": "0x7a69" });
        assert_eq!(answer(&chain, request).await, expected);
    }
    let batch = json!([
        { "jsonrpc": "2.0", "id": 2, "method": "eth_blockNumber", "params": [] },
        { "jsonrpc": "2.0", "method": "eth_blockNumber", "params": [] },
        { "jsonrpc": "2.0", "id": "x", "method": "eth_nothing", "params": [] },
        7,
    ]);
    let answers = answer(&chain, batch).await;
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 3, "nobody asked for an answer to the second: {answers:?}");
    assert_eq!(answers[0], json!({ "jsonrpc": "2.0", "id": 2, "result": "0x0" }));
    assert_eq!(answers[1]["id"], "x");
    assert_eq!(answers[1]["error"]["code"], -32601);
    assert_eq!(answers[2]["error"]["code"], -32600);
    let notification = json!({ "jsonrpc": "2.0", "method": "eth_chainId" });
    assert_eq!(chain.post(notification.to_string()).await, (204, String::new()));
}

#[tokio::test]
async fn what_is_wrong_is_told_by_code() {
    let chain = Chain::start(manual()).await;
    let (status, text) = chain.post("{".to_owned()).await;
    assert_eq!(status, 200);
    assert!(text.contains("-32700"), "{text}");
    for (request, code) in [
        (json!([]), -32600),
        (json!({ "id": 1 }), -32600),
        (json!({ "id": 1, "jsonrpc": "1.0", "method": "eth_chainId" }), -32600),
        (json!({ "id": {}, "method": "eth_chainId" }), -32600),
        (json!({ "id": 1, "method": "anvil_mine", "params": [] }), -32601),
        (json!({ "id": 1, "method": "eth_getBalance", "params": {} }), -32602),
        (json!({ "id": 1, "method": "eth_getBalance", "params": [] }), -32602),
        (json!({ "id": 1, "method": "eth_getBalance", "params": ["0x12"] }), -32602),
        (json!({ "id": 1, "method": "eth_getBlockByNumber", "params": ["last"] }), -32602),
        (json!({ "id": 1, "method": "dev_reorg", "params": [{ "depth": 1 }] }), -32602),
        (json!({ "id": 1, "method": "dev_reorg", "params": [{ "deep": 1 }] }), -32602),
    ] {
        let answer = answer(&chain, request.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{request}: {answer}");
    }
}

#[tokio::test]
async fn nobody_else_can_reach_it() {
    let options = Options { listen: "0.0.0.0:0".parse().unwrap(), ..Options::default() };
    let refused = DevChain::start(options).await.unwrap_err();
    assert!(matches!(refused, DevChainError::NotLoopback(_)), "{refused}");
    // Not one that somebody's client may get when it is free again.
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, testkit::free_port()));
    let chain = Chain::start(Options { listen, ..manual() }).await;
    let taken = DevChain::start(Options { listen, ..Options::default() }).await.unwrap_err();
    assert!(matches!(taken, DevChainError::Listen { .. }), "{taken}");
    chain.chain.stop().await;
    DevChain::start(Options { listen, ..Options::default() }).await.expect("it is free again");
}
