//! One endpoint of a chain and what is known of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy::primitives::{U64, hex, keccak256};
use serde_json::json;
use stile_domain::{ChainId, Header};

use crate::blocks::{With, latest_call, read_block};
use crate::calls::Method;
use crate::hints::Announcer;
use crate::places::Places;
use crate::rpc::{Answer, Call, CallError, Rpc, read_some};
use crate::target::{EndpointError, Target};

/// For operators: how an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Host and port.
    pub shown: String,
    /// Whether it is asked at all.
    pub usable: bool,
    /// The height of its newest block, when it last said so.
    pub head: Option<u64>,
    /// What is wrong with it.
    pub why: Option<String>,
}

/// The places at an endpoint, for whoever shares them out.
#[derive(Debug, Clone)]
pub struct EndpointPlaces {
    /// A name for its URL, the same in every process and without its secrets: eight bytes of its hash.
    pub digest: String,
    /// Host and port.
    pub shown: String,
    /// How many calls may be under way at one time.
    pub places: Places,
}

/// How much of its newest block an endpoint is asked for in a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Its height, which it could make up.
    Height,
    /// Its header, so that it shows what it claims.
    Header,
}

/// What one look at an endpoint found: its head, with the header where that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) head: u64,
    pub(crate) header: Option<Header>,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) rpc: Rpc,
    chain: ChainId,
    /// A name for its URL.
    digest: String,
    standing: Mutex<Standing>,
    /// It said that it does not offer `eth_getBlockReceipts`.
    pub(crate) lacks_block_receipts: AtomicBool,
}

/// Nothing is known at first, and then it is not usable: an endpoint is verified before use.
#[derive(Debug, Clone, Default)]
struct Standing {
    usable: bool,
    head: Option<u64>,
    why: Option<String>,
    /// Looks in a row in which it was far behind the others.
    behind: u32,
}

impl Endpoint {
    pub(crate) fn new(
        chain: ChainId,
        url: &str,
        timeout: Duration,
        heads: Announcer,
    ) -> Result<Self, EndpointError> {
        let rpc = Rpc::new(Target::parse(url)?, timeout, Some(heads))?;
        let standing = Mutex::default();
        let digest = hex::encode(&keccak256(url.trim())[..8]);
        Ok(Self { rpc, chain, digest, standing, lacks_block_receipts: AtomicBool::new(false) })
    }

    pub(crate) fn shown(&self) -> &str {
        self.rpc.shown()
    }

    /// Asks which chain this is and how far it has come, in one exchange. Both every time: somebody
    /// may have put another node behind the address since.
    pub(crate) async fn look(&self, extent: Extent) -> Result<Look, String> {
        let head = match extent {
            Extent::Height => height_call(),
            Extent::Header => latest_call(With::Hashes),
        };
        let mut answers = self.rpc.batch(&[chain_call(), head]).await;
        let (Some(head), Some(chain)) = (answers.pop(), answers.pop()) else {
            return Err("did not answer".to_owned());
        };
        self.verify(chain)?;
        if extent == Extent::Height {
            return Ok(Look { head: read_height(head)?, header: None });
        }
        let block = read_block(head).map_err(|error| error.to_string())?;
        let block = block.ok_or("has no block at all")?;
        Ok(Look { head: block.header.height, header: Some(block.header) })
    }

    /// Checks that the endpoint serves the chain it is configured for.
    pub(crate) fn verify(&self, chain: Answer) -> Result<(), String> {
        let found = read_some::<U64>(chain).map_err(|error| error.to_string())?.to::<u64>();
        if found == self.chain.get() {
            return Ok(());
        }
        Err(format!("serves chain {found}, not {}", self.chain))
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.standing().usable
    }

    pub(crate) fn head(&self) -> Option<u64> {
        self.standing().head
    }

    /// It answered, and properly. Whether it is far behind is for the pool to say.
    pub(crate) fn seen_well(&self, head: u64, is_behind: bool, tolerated: u32) {
        let mut standing = self.standing();
        standing.head = Some(head);
        standing.behind = if is_behind { standing.behind.saturating_add(1) } else { 0 };
        // An endpoint that was set aside comes back only when it has caught up.
        let lags = is_behind && (standing.behind > tolerated || !standing.usable);
        let was = (standing.usable, standing.why.take());
        standing.usable = !lags;
        standing.why = lags.then(|| "lags behind the other endpoints".to_owned());
        self.report(was, &standing);
    }

    /// It failed: set aside until a look finds it well.
    pub(crate) fn set_aside(&self, why: String) {
        let mut standing = self.standing();
        let was = (standing.usable, standing.why.take());
        standing.usable = false;
        standing.behind = 0;
        standing.why = Some(why);
        self.report(was, &standing);
    }

    /// Sets aside whoever does not answer. An error that was answered is an answer.
    pub(crate) fn note(&self, error: &CallError) {
        if matches!(error, CallError::Timeout(_) | CallError::Unreachable) {
            self.set_aside(error.to_string());
        }
    }

    /// Says what changed, once.
    fn report(&self, (was_usable, why): (bool, Option<String>), now: &Standing) {
        let (chain, endpoint) = (self.chain.get(), self.shown());
        match (&now.why, now.usable) {
            (Some(why_now), false) if was_usable || why.as_ref() != Some(why_now) => {
                tracing::warn!(chain, endpoint, why = why_now, "endpoint set aside");
            }
            (None, true) if !was_usable => {
                tracing::info!(chain, endpoint, head = now.head, "endpoint in use");
            }
            _ => {}
        }
    }

    pub(crate) fn status(&self) -> EndpointStatus {
        let Standing { usable, head, why, .. } = self.standing().clone();
        let why = why.or_else(|| (!usable).then(|| "not asked yet".to_owned()));
        EndpointStatus { shown: self.shown().to_owned(), usable, head, why }
    }

    pub(crate) fn places(&self) -> EndpointPlaces {
        EndpointPlaces {
            digest: self.digest.clone(),
            shown: self.shown().to_owned(),
            places: self.rpc.places.clone(),
        }
    }

    /// `host:port: what is wrong`.
    pub(crate) fn complaint(&self, why: impl std::fmt::Display) -> String {
        format!("{}: {why}", self.shown())
    }

    pub(crate) fn lacks_block_receipts(&self) -> bool {
        self.lacks_block_receipts.load(Ordering::Relaxed)
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks which chain this is.
pub(crate) fn chain_call() -> Call {
    Call::new(Method::ChainId, json!([]))
}

/// Asks how far it has come.
pub(crate) fn height_call() -> Call {
    Call::new(Method::BlockNumber, json!([]))
}

/// Reads a height that a chain can have.
pub(crate) fn read_height(answer: Answer) -> Result<u64, String> {
    match read_some::<U64>(answer).map_err(|error| error.to_string())?.to::<u64>() {
        head if head > i64::MAX as u64 => Err(format!("claims {head} blocks, which no chain has")),
        head => Ok(head),
    }
}
