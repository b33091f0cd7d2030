//! A V1 database, a database for Stile, a chain, and the commands between them.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Anvil, AnvilOptions, Process};
use tokio_postgres::Client;

use crate::common::{Database, Finished, NodeOptions, stile};
use crate::make::{self, Amount, Chain};

/// How long a command may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Stage {
    pub(crate) v1: Database,
    pub(crate) stile: Database,
    pub(crate) anvil: Anvil,
    pub(crate) amount: Amount,
    directory: TempDir,
}

impl Stage {
    pub(crate) async fn set(amount: Amount) -> Self {
        let stage = Self::bare(amount).await;
        make::make(&stage.v1.connect().await, &stage.chain(), amount).await;
        stage
    }

    /// Without V1's tables.
    pub(crate) async fn bare(amount: Amount) -> Self {
        let arguments = vec!["--gas-limit=30000000000".to_owned()];
        let options = AnvilOptions { no_mining: true, arguments, ..AnvilOptions::default() };
        let (v1, stile, anvil) =
            tokio::join!(Database::new(), Database::new(), Anvil::start(options));
        let stage = Self { v1, stile, anvil, amount, directory: tempfile::tempdir().unwrap() };
        std::fs::write(stage.config_file(), stage.node("cli").to_toml(7420)).unwrap();
        stage
    }

    pub(crate) fn chain(&self) -> Chain {
        Chain::at(self.anvil.url())
    }

    /// A node of Stile's that hands out bare nonces of these signers.
    pub(crate) fn node(&self, id: &str) -> NodeOptions {
        let signers: Vec<String> =
            (0..self.amount.signers).map(|number| make::address(number).to_string()).collect();
        NodeOptions::postgres(id, &self.stile.url, &signers)
            .endpoint(self.anvil.url())
            .lease("60s", "2s")
            // Imported nonces block their lanes, and that is right; nobody is to fill them.
            .set("nonce.state_timeout", "1h")
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory.path().join("stile.toml")
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let file = self.directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn launch(&self, command: &[&str], more: &[&str]) -> Process {
        let launch = stile(command).args(more.iter().copied()).arg("--config");
        launch.arg(self.config_file()).start()
    }

    pub(crate) fn import(&self, more: &[&str]) -> Process {
        self.launch(&["import-v1", "--json", "--from", &self.v1.url], more)
    }

    pub(crate) fn export(&self, more: &[&str]) -> Process {
        self.launch(&["export-v1", "--json", "--to", &self.v1.url], more)
    }

    pub(crate) async fn rollout(&self, more: &[&str]) -> Finished {
        Finished::of(&self.launch(&["rollout"], more)).await
    }

    pub(crate) async fn v1_client(&self) -> Client {
        self.v1.connect().await
    }

    /// What V1's table says, row by row.
    pub(crate) async fn v1_rows(&self) -> Vec<Vec<String>> {
        let sql =
            "SELECT submitter, nonce, status, coalesce(tx_hash, '') FROM submitter_nonce_allocation
                   ORDER BY submitter, nonce";
        self.v1.rows(sql).await
    }

    /// What Stile's ledger says, row by row, without when and under which token.
    pub(crate) async fn ledger(&self) -> Vec<Vec<String>> {
        let sql = "SELECT '0x' || encode(signer, 'hex'), nonce, status, owner_id,
                          coalesce('0x' || encode(tx_hash, 'hex'), '-'), reason
                   FROM nonce ORDER BY signer, nonce";
        self.stile.rows(sql).await
    }

    /// Where Stile's lanes stand.
    pub(crate) async fn lanes(&self) -> Vec<Vec<String>> {
        let sql = "SELECT '0x' || encode(signer, 'hex'), next_nonce, last_chain_nonce, coalesce(elsewhere, '-')
                   FROM lane ORDER BY signer";
        self.stile.rows(sql).await
    }

    /// How many signers V1's database says are in this state.
    pub(crate) async fn moved(&self, state: &str) -> usize {
        let there = self.v1.rows("SELECT to_regclass('stile_cutover') IS NOT NULL").await;
        if there[0][0] != "t" {
            return 0;
        }
        let sql = format!("SELECT count(*) FROM stile_cutover WHERE state = '{state}'");
        self.v1.rows(&sql).await[0][0].parse().unwrap()
    }
}

/// The report of a command that went well.
pub(crate) async fn report(process: Process) -> Vec<Value> {
    let finished = Finished::within(&process, PATIENCE).await;
    items(finished.ok())
}

/// The report of a command that did not, and its last words.
pub(crate) async fn refusals(process: Process) -> (Vec<Value>, String) {
    let finished = Finished::within(&process, PATIENCE).await;
    assert_eq!(finished.code, Some(1), "{finished:#?}");
    (items(&finished.stdout), finished.stderr)
}

fn items(stdout: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"));
    report["items"].as_array().cloned().unwrap()
}

/// How it ended for each, by name.
pub(crate) fn outcomes(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["outcome"].as_str().unwrap()).collect()
}
