//! Where everybody writes down what they did and saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::evidence::{Attempt, Call, LieTold, Micros, Own, Reorg, Restore, Sent, TokenSample, Tx};
use crate::schedule::Kind;

/// The time, which the database on the same machine shares.
pub(super) fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
}

/// What is written down while a run goes on.
#[derive(Debug, Default)]
pub(super) struct Diary {
    pub(super) calls: Mutex<Vec<Call>>,
    pub(super) own: Mutex<Vec<Own>>,
    pub(super) wire: Mutex<Vec<Sent>>,
    pub(super) samples: Mutex<Vec<TokenSample>>,
    pub(super) reorgs: Mutex<Vec<Reorg>>,
    pub(super) restores: Mutex<Vec<Restore>>,
    /// What was in the database when it went back to what it had been.
    pub(super) lost: Mutex<Lost>,
    /// What only liars know of.
    pub(super) made_up: Mutex<BTreeSet<String>>,
    /// Lies, and who was named.
    pub(super) lies: Mutex<Vec<LieTold>>,
    /// What a person has closed, and how often a person's word was taken.
    pub(super) closed: Mutex<BTreeSet<String>>,
    pub(super) words: Mutex<u64>,
    /// How many words a person had to say when it last looked.
    pub(super) unsaid: AtomicUsize,
    /// Faults by kind, as they were carried out.
    pub(super) faults: Mutex<BTreeMap<Kind, u64>>,
}

/// What a restore has lost.
#[derive(Debug, Default)]
pub(super) struct Lost {
    pub(super) txs: Vec<Tx>,
    pub(super) attempts: Vec<Attempt>,
}

impl Diary {
    pub(super) fn call(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }

    pub(super) fn own(&self, own: Own) {
        self.own.lock().unwrap().push(own);
    }

    pub(super) fn wire(&self, sent: Sent) {
        self.wire.lock().unwrap().push(sent);
    }

    /// A token as it was seen; only the first and the last look at one are worth keeping.
    pub(super) fn sample(&self, sample: TokenSample) {
        let mut samples = self.samples.lock().unwrap();
        let of_lane = samples.iter_mut().rev().filter(|it| it.signer == sample.signer);
        let mut newest = of_lane.take(2);
        let (last, before) = (newest.next(), newest.next());
        match (last, before) {
            (Some(last), Some(before))
                if before.token == sample.token && last.token == sample.token =>
            {
                last.at = sample.at;
                last.owner = sample.owner;
            }
            _ => samples.push(sample),
        }
    }

    pub(super) fn reorg(&self, reorg: Reorg) {
        self.reorgs.lock().unwrap().push(reorg);
    }

    /// Whether a fault of this kind was carried out.
    pub(super) fn has_come(&self, kind: Kind) -> bool {
        self.faults.lock().unwrap().contains_key(&kind)
    }

    pub(super) fn fault(&self, kind: Kind) {
        *self.faults.lock().unwrap().entry(kind).or_default() += 1;
    }
}
