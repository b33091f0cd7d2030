//! Refusals, as Stile's own client understands them.

use alloy::consensus::{TxEip1559, TxLegacy};
use alloy_primitives::{Bytes, TxKind, U256, hex};
use serde_json::json;
use stile_chain::SendClass::{
    Accepted, InsufficientFunds, Known, NonceTooLow, Rejected, ReplacementUnderpriced, Transient,
    Underpriced,
};
use stile_chain::{Chains, PoolOptions, SendClass};
use stile_domain::ChainId;

use crate::common::{Chain, GWEI, base, manual, priced, sign, transfer};

struct Client {
    chains: Chains,
    id: ChainId,
}

impl Client {
    async fn sends(&self, raw: &str) -> (SendClass, String) {
        let raw = Bytes::from(hex::decode(raw).unwrap());
        let mut answers = self.chains.get(self.id).unwrap().send_raw(&[raw]).await;
        let answer = answers.remove(0);
        (answer.verdict, answer.said[0].text.clone())
    }
}

#[tokio::test]
async fn every_refusal_is_understood() {
    let chain = Chain::start(manual()).await;
    let id = ChainId::new(31337).unwrap();
    let chains = Chains::new([(id, vec![chain.chain.url()])], PoolOptions::default()).unwrap();
    let client = Client { chains, id };
    assert_eq!(client.sends(&transfer(0, 0)).await.0, Accepted);
    chain.mine(1).await;
    assert_eq!(client.sends(&sign(0, priced(1, 20, 2))).await.0, Accepted);
    let ether = U256::from(10).pow(U256::from(18));
    let rich = |ethers: u64, nonce| TxEip1559 { value: ether * U256::from(ethers), ..base(nonce) };
    let data =
        |gas_limit, size| TxEip1559 { gas_limit, input: Bytes::from(vec![1; size]), ..base(0) };
    let too_long = TxEip1559 { to: TxKind::Create, ..data(5_000_000, 50_000) };
    let unprotected = TxLegacy { gas_limit: 21_000, gas_price: GWEI, ..TxLegacy::default() };
    assert_eq!(client.sends(&sign(3, rich(9_000, 0))).await.0, Accepted);
    for (raw, expected) in [
        (sign(0, priced(1, 20, 2)), Known),
        (transfer(0, 0), NonceTooLow),
        (sign(0, priced(1, 21, 2)), ReplacementUnderpriced),
        (sign(1, rich(10_000, 0)), InsufficientFunds),
        (sign(3, rich(9_000, 1)), InsufficientFunds),
        (sign(1, TxEip1559 { gas_limit: 20_000, ..base(0) }), Rejected),
        (sign(1, data(30_000, 500)), Rejected),
        (sign(1, too_long), Rejected),
        (sign(1, TxEip1559 { gas_limit: 60_000_001, ..base(0) }), Rejected),
        (sign(1, TxEip1559 { nonce: u64::MAX, ..base(0) }), Rejected),
        (sign(1, priced(0, 1, 2)), Rejected),
        (sign(1, TxEip1559 { chain_id: 1, ..base(0) }), Rejected),
        (sign(1, unprotected), Rejected),
        ("0x03c0".to_owned(), Rejected),
        ("0x04c0".to_owned(), Rejected),
        ("0x02c0".to_owned(), Rejected),
    ] {
        let (class, text) = client.sends(&raw).await;
        assert_eq!(class, expected, "{text}");
    }
}

#[tokio::test]
async fn what_other_nodes_say_can_be_said_on_demand() {
    let chain = Chain::start(manual()).await;
    let id = ChainId::new(31337).unwrap();
    let chains = Chains::new([(id, vec![chain.chain.url()])], PoolOptions::default()).unwrap();
    let client = Client { chains, id };
    for (message, expected) in [
        ("max fee per gas less than block base fee: address 0x0, maxFeePerGas: 1", Underpriced),
        ("txpool is full", Transient),
    ] {
        let error = json!({ "code": -32000, "message": message });
        let lie = json!([{ "method": "eth_sendRawTransaction", "error": error, "times": 1 }]);
        chain.rpc("dev_lie", lie).await;
        assert_eq!(client.sends(&transfer(0, 0)).await.0, expected, "{message}");
    }
    let call = json!([{ "from": stile_devchain::accounts::ALL[0].address, "to": null,
        "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x1" }, "latest"]);
    let refused = chain.refused("eth_estimateGas", call).await;
    assert!(refused.starts_with("max fee per gas less than block base fee"), "{refused}");
}
