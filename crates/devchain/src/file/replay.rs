//! Making a chain from its file.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{Address, U256};

use super::record::{Record, VERSION, beginning};
use super::state_file::StateFile;
use crate::chain::build::{Builder, Plan};
use crate::chain::state::Account;
use crate::chain::{Ledger, Rules, Tx};
use crate::error::DevChainError;
use crate::options::Clock;

/// A chain, as its file has it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: StateFile,
    pub(crate) ledger: Ledger,
    /// How many reorganisations there were.
    pub(crate) fork: u64,
}

/// Opens the file of a chain that begins like this, or begins one.
pub(crate) fn open(
    path: &Path,
    rules: Rules,
    clock: Clock,
    accounts: &[(Address, U256)],
) -> Result<Opened, DevChainError> {
    let (mut file, text) = StateFile::open(path)?;
    let (records, whole) = read(path, &text)?;
    let failed = |source| DevChainError::Io { file: path.to_owned(), source };
    if whole < text.len() {
        tracing::warn!(
            file = %path.display(),
            bytes = text.len() - whole,
            "the last record was not written to its end, and is cut off"
        );
        file.cut(whole as u64).map_err(failed)?;
    }
    let mut records = records.into_iter();
    let Some(first) = records.next() else {
        let ledger = Ledger::new(rules, clock.genesis(), accounts);
        let (timestamp, genesis) = (ledger.tip().timestamp, ledger.tip().hash);
        let chain_id = rules.chain_id;
        let record = Record::Chain { version: VERSION, chain_id, timestamp, genesis };
        file.append(&[record]).map_err(failed)?;
        return Ok(Opened { file, ledger, fork: 0 });
    };
    let mut ledger = begin(path, &first, rules, clock, accounts)?;
    let mut fork = 0;
    for (record, line) in records.zip(2..) {
        replay(&mut ledger, &mut fork, record).map_err(|reason| {
            let file = path.to_owned();
            DevChainError::Damaged { file, line, reason }
        })?;
    }
    Ok(Opened { file, ledger, fork })
}

/// The records, and where the last whole one ends.
fn read(path: &Path, text: &str) -> Result<(Vec<Record>, usize), DevChainError> {
    let mut records = Vec::new();
    let mut whole = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        match serde_json::from_str(line) {
            Ok(record) if line.ends_with('\n') => records.push(record),
            Err(error) if whole + line.len() < text.len() => {
                let (file, reason) = (path.to_owned(), error.to_string());
                return Err(DevChainError::Damaged { file, line: number, reason });
            }
            // Only the last one can have been cut short.
            _ => break,
        }
        whole += line.len();
    }
    Ok((records, whole))
}

fn begin(
    path: &Path,
    first: &Record,
    rules: Rules,
    clock: Clock,
    accounts: &[(Address, U256)],
) -> Result<Ledger, DevChainError> {
    let other = |reason: String| DevChainError::OtherChain { file: path.to_owned(), reason };
    let Record::Chain { version, chain_id, timestamp, genesis } = first else {
        return Err(other("it does not begin with one".to_owned()));
    };
    if *version != VERSION {
        return Err(other(format!("its format is {version}, and this program knows {VERSION}")));
    }
    if *chain_id != rules.chain_id {
        return Err(other(format!("its id is {chain_id}, not {}", rules.chain_id)));
    }
    let timestamp = match clock {
        Clock::System => *timestamp,
        Clock::Given { start, .. } => start,
    };
    let ledger = Ledger::new(rules, timestamp, accounts);
    if ledger.tip().hash != *genesis {
        let what = "it began with other accounts, another gas limit, seed or time";
        return Err(other(what.to_owned()));
    }
    Ok(ledger)
}

/// Does again what a record says; else what is wrong with it.
fn replay(ledger: &mut Ledger, fork: &mut u64, record: Record) -> Result<(), String> {
    match record {
        Record::Chain { .. } => return Err("a chain begins twice".to_owned()),
        Record::Empty(timestamp, expected) => {
            let base_fee = ledger.rules.base_fee_after(ledger.tip());
            let plan = Plan { timestamp, base_fee, fork: *fork };
            let (block, changes) = Builder::empty(ledger, plan);
            if beginning(block.hash) != expected {
                return Err(mismatch(ledger));
            }
            ledger.push(block, changes);
        }
        Record::Block { timestamp, base_fee, hash, txs } => {
            let plan = Plan { timestamp, base_fee, fork: *fork };
            let mut builder = Builder::new(ledger, plan);
            for (from, bytes) in txs {
                let tx = Tx::decode_known(&bytes, from).map_err(|refusal| refusal.to_string())?;
                builder.add(&Arc::new(tx)).map_err(|unfit| format!("{unfit:?}"))?;
            }
            let (block, changes) = builder.finish();
            if block.hash != hash {
                return Err(mismatch(ledger));
            }
            ledger.push(block, changes);
        }
        Record::Reorg { to } => {
            if to > ledger.head() {
                return Err(format!("there is no block {to} to go back to"));
            }
            ledger.cut(to);
            *fork += 1;
        }
        Record::Balance(address, balance) => {
            ledger.amend_account(address, |account| Account { balance, ..account });
        }
        Record::Nonce(address, nonce) => {
            ledger.amend_account(address, |account| Account { nonce, ..account });
        }
    }
    Ok(())
}

fn mismatch(ledger: &Ledger) -> String {
    format!("block {} comes out with another hash than the one on record", ledger.head() + 1)
}
