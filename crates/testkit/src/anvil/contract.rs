//! A contract to call, assembled by hand, since no compiler is at hand.
//!
//! It has no functions: the first word of the call's data is all it looks at. A word other than
//! zero is stored in slot 0; zero, and therefore an empty call too, reverts with `Error("zero")`,
//! as Solidity's `require(word != 0, "zero")` would.

use alloy_primitives::U256;
use serde_json::json;

use super::{Anvil, amount, text};
use crate::wait::eventually;

/// Copies what follows these nine bytes and returns it: that becomes the contract.
const CREATION: &str = concat!(
    "6031", // PUSH1 49: how long the contract is
    "80",   // DUP1
    "6009", // PUSH1 9: where it begins
    "3d",   // RETURNDATASIZE: 0, where it goes in memory
    "39",   // CODECOPY
    "3d",   // RETURNDATASIZE: 0
    "f3",   // RETURN
);

/// The contract.
const RUNTIME: &str = concat!(
    "6000",
    "35", // PUSH1 0, CALLDATALOAD: the word
    "80",
    "602c",
    "57", // DUP1, PUSH1 44, JUMPI: store it unless it is zero
    "6308c379a0",
    "60e0",
    "1b",
    "6000",
    "52", // at 0: the selector of Error(string)
    "6020",
    "6004",
    "52", // at 4: where the text begins, as the ABI has it
    "6004",
    "6024",
    "52", // at 36: the text has 4 bytes
    "637a65726f",
    "60e0",
    "1b",
    "6044",
    "52", // at 68: "zero"
    "6064",
    "6000",
    "fd", // PUSH1 100, PUSH1 0, REVERT
    "5b",
    "6000",
    "55",
    "00", // 44: JUMPDEST, PUSH1 0, SSTORE, STOP
);

impl Anvil {
    /// What to send, to nobody, to have the contract made.
    pub fn contract_creation() -> String {
        format!("0x{CREATION}{RUNTIME}")
    }

    /// The data of a call that stores a number, or that reverts for 0.
    pub fn contract_call(number: u64) -> String {
        format!("0x{number:064x}")
    }

    /// Has an unlocked account make the contract, and returns its address. Blocks have to come.
    pub async fn deploy_contract(&self, from: &str) -> String {
        let creation = json!([{ "from": from, "data": Self::contract_creation() }]);
        let hash = text(&self.rpc("eth_sendTransaction", creation).await);
        let receipt = eventually("the contract to be made", async || self.receipt(&hash).await);
        text(&receipt.await["contractAddress"])
    }

    /// The number that the contract has stored last.
    pub async fn contract_value(&self, contract: &str) -> U256 {
        amount(&self.rpc("eth_getStorageAt", json!([contract, "0x0", "latest"])).await)
    }
}
