//! When blocks come, and how they are taken back.

use serde_json::json;

use super::Anvil;

impl Anvil {
    /// Makes so many blocks at once.
    pub async fn mine(&self, blocks: u64) {
        self.rpc("anvil_mine", json!([format!("{blocks:#x}")])).await;
    }

    /// A block every so many seconds from now on; none by itself for 0.
    pub async fn set_interval_mining(&self, seconds: u64) {
        self.rpc("evm_setIntervalMining", json!([seconds])).await;
    }

    /// A block for each transaction at once, or not.
    pub async fn set_automine(&self, automine: bool) {
        self.rpc("evm_setAutomine", json!([automine])).await;
    }

    /// Replaces the newest `depth` blocks by as many others. Their transactions are gone, also
    /// from the pool, but for those given as signed bytes with the new block they go into, counted
    /// from 0.
    ///
    /// Panics if the chain has no more than `depth` blocks on top of its first.
    pub async fn reorg(&self, depth: u64, keep: &[(&str, u64)]) {
        self.rpc("anvil_reorg", json!([depth, keep])).await;
    }

    /// Takes the newest `depth` blocks away, so that the chain is shorter than it was.
    pub async fn rollback(&self, depth: u64) {
        self.rpc("anvil_rollback", json!([depth])).await;
    }

    /// Forgets every transaction that waits for a block.
    pub async fn drop_all_transactions(&self) {
        self.rpc("anvil_dropAllTransactions", json!([])).await;
    }

    /// What the next block asks for each unit of gas. The blocks after it go on from there.
    pub async fn set_next_base_fee(&self, wei: u64) {
        self.rpc("anvil_setNextBlockBaseFeePerGas", json!([format!("{wei:#x}")])).await;
    }
}
