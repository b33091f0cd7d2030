//! How each of the node programs is started, and what it keeps.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::NodeKind;
use crate::launch::Launch;
use crate::process::Process;
use crate::programs;

/// The words that the accounts of development chains come from.
const WORDS: &str = "test test test test test test test test test test test junk";

/// Where a node keeps its chain, in its home.
const DATA: &str = "data";

/// What geth keeps of it: its chain, and not the account that the chain begins with.
const GETH_CHAIN: &str = "data/geth";

/// geth, in its home: the package has it as a file that cannot be executed.
const GETH: &str = "geth-1.8.23";

/// Puts into a new home what has to be there before the first start.
pub(super) fn prepare(kind: NodeKind, home: &Path) {
    match kind {
        NodeKind::HardhatOnDemand => hardhat_project(home, "{ auto: true, interval: 0 }"),
        NodeKind::HardhatByTime => hardhat_project(home, "{ auto: false, interval: 1000 }"),
        NodeKind::Geth => {
            let program = home.join(GETH);
            fs::copy(programs::geth(), &program).expect("copy geth");
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&program, mode).expect("make geth executable");
        }
        NodeKind::Anvil(_) | NodeKind::AnvilOptimism | NodeKind::Ganache => {}
    }
}

/// Hardhat insists on a project that it is installed in.
fn hardhat_project(home: &Path, mining: &str) {
    let config = format!(
        "export default {{ networks: {{ node: {{ type: 'edr-simulated', chainType: 'l1', \
         chainId: 31337, mining: {mining} }} }} }};\n"
    );
    fs::write(home.join("hardhat.config.js"), config).expect("write the configuration");
    fs::write(home.join("package.json"), "{\"type\":\"module\"}\n").expect("write package.json");
    symlink(programs::node_modules(), home.join("node_modules")).expect("link node_modules");
}

/// Removes the chain.
pub(super) fn forget(kind: NodeKind, home: &Path) {
    let chain = home.join(if kind == NodeKind::Geth { GETH_CHAIN } else { DATA });
    if chain.exists() {
        fs::remove_dir_all(chain).expect("remove the chain's data");
    }
}

pub(super) fn launch(kind: NodeKind, port: u16, home: &Path) -> Process {
    let data = home.join(DATA);
    let launch = match kind {
        NodeKind::Anvil(hardfork) => anvil(port).arg(format!("--hardfork={hardfork}")),
        NodeKind::AnvilOptimism => anvil(port).arg("--optimism"),
        NodeKind::HardhatOnDemand | NodeKind::HardhatByTime => {
            let modules = programs::node_modules();
            Launch::new(programs::node_22())
                .arg(modules.join("hardhat/dist/src/cli.js"))
                .arg("--config")
                .arg(home.join("hardhat.config.js"))
                .args(["node", "--hostname=127.0.0.1"])
                .arg(format!("--port={port}"))
                // It would ask whether it may send reports home.
                .env("CI", "1")
        }
        NodeKind::Ganache => Launch::new(programs::node())
            .arg(programs::node_modules().join("ganache/dist/node/cli.js"))
            .args(["--host=127.0.0.1", "--chain.chainId=31337", "--miner.blockTime=1"])
            .arg(format!("--port={port}"))
            .arg(format!("--wallet.mnemonic={WORDS}"))
            .arg(format!("--database.dbPath={}", data.display())),
        NodeKind::Geth => Launch::new(home.join(GETH))
            .args(["--dev", "--dev.period=1", "--rpc", "--rpcapi=eth,net,web3,txpool"])
            // Without an archive it writes its state every hour, and is set back by a kill.
            .args(["--gcmode=archive", "--nodiscover", "--maxpeers=0", "--port=0", "--ipcdisable"])
            .args(["--nousb", "--cache=64"])
            .arg(format!("--rpcport={port}"))
            .arg(format!("--datadir={}", data.display())),
    };
    launch.env("HOME", home).scratch(home).start()
}

fn anvil(port: u16) -> Launch {
    Launch::new(programs::anvil())
        .args(["--host=127.0.0.1", "--chain-id=31337", "--block-time=1"])
        .arg(format!("--port={port}"))
}
