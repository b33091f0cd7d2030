//! How one endpoint is asked for a quote: one way after the other.
//!
//! The history of fees says most. Where it is not to be had, the newest block has the base fee and the
//! node advises a tip; where it advises none, the price that it advises tells the tip; and on a chain
//! without a base fee that price is the quote. Gateways refuse single methods in ways of their own: by
//! an HTTP status, with a web page, or with nothing at all. However a method fails, the next way is
//! tried, and what keeps failing so is not asked for each time.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::json;
use stile_domain::FeeQuote;

use crate::blocks::{With, latest_call, read_block};
use crate::calls::Method;
use crate::capability::Capability;
use crate::classify;
use crate::endpoint::Endpoint;
use crate::fees::{History, Told, price};
use crate::pool::one;
use crate::rpc::{Call, CallError, read_some_checked};
use crate::unreadable::WHOLE;

/// The least that is paid on top of the base fee: nodes do not pass on transactions that offer
/// nothing.
const LEAST_PRIORITY_FEE: u128 = 1;

/// What an endpoint says that its chain asks for, and what failed on the way there.
#[derive(Debug)]
pub(crate) struct Quoted {
    pub(crate) quote: FeeQuote,
    pub(crate) failed: Vec<Failure>,
}

/// A method that did not help.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) method: Method,
    pub(crate) error: CallError,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.method.name(), self.error)
    }
}

/// An endpoint says nothing in any way. What failed, in order.
#[derive(Debug)]
pub(crate) struct NoQuote {
    before: Vec<Failure>,
    last: Failure,
}

impl NoQuote {
    /// Why the last way failed.
    pub(crate) fn last(&self) -> &CallError {
        &self.last.error
    }
}

impl fmt::Display for NoQuote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.before.iter().try_for_each(|failure| write!(f, "{failure}, "))?;
        write!(f, "{}", self.last)
    }
}

/// Asks an endpoint what its chain asks for.
pub(crate) async fn quote(
    endpoint: Arc<Endpoint>,
    history: &Call,
    own: &BTreeSet<u64>,
) -> Result<Quoted, NoQuote> {
    let mut asking = Asking { endpoint: &endpoint, failed: Vec::new() };
    let quote = asking.quote(history, own).await;
    let failed = asking.failed;
    match quote {
        Ok(quote) => {
            // The endpoint answers: it was the method that failed.
            failed.iter().for_each(|failure| note(&endpoint, failure));
            Ok(Quoted { quote, failed })
        }
        Err(last) => Err(NoQuote { before: failed, last }),
    }
}

/// What a method's failure shows of an endpoint that answered something else.
fn note(endpoint: &Endpoint, failure: &Failure) {
    let Some(capability) = failure.capability() else { return };
    match means(&failure.error) {
        Means::NotOffered => endpoint.learn(capability, false),
        Means::MayPass => endpoint.note_failed(capability),
        Means::Nothing => {}
    }
}

impl Failure {
    /// What an endpoint lacks for which this fails; `None` for what every one has.
    pub(crate) fn capability(&self) -> Option<Capability> {
        match self.method {
            Method::FeeHistory => Some(Capability::FeeHistory),
            Method::MaxPriorityFee => Some(Capability::MaxPriorityFee),
            _ => None,
        }
    }
}

/// What a failure of one method means, where the same endpoint answers others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// The endpoint does not offer it.
    NotOffered,
    /// It may be so, if it goes on.
    MayPass,
    Nothing,
}

fn means(error: &CallError) -> Means {
    match error {
        _ if classify::is_unsupported(error) || classify::is_barred(error) => Means::NotOffered,
        CallError::Http(_)
        | CallError::Garbled(_)
        | CallError::Timeout(_)
        | CallError::Unreachable => Means::MayPass,
        // It was answered at once, and costs nobody any time.
        CallError::Said { .. } | CallError::Unreadable(_) => Means::Nothing,
        CallError::Limited(_) | CallError::Crowded(_) | CallError::Resting(_) => Means::Nothing,
    }
}

/// Whether there is no use in asking anything else: nobody was asked, and nobody would be.
fn is_over(error: &CallError) -> bool {
    matches!(error, CallError::Crowded(_) | CallError::Resting(_))
}

struct Asking<'a> {
    endpoint: &'a Endpoint,
    /// What did not help so far.
    failed: Vec<Failure>,
}

impl Asking<'_> {
    async fn quote(&mut self, history: &Call, own: &BTreeSet<u64>) -> Result<FeeQuote, Failure> {
        let told = self.told(history, own).await?;
        let (base_fee, newest) = match told.next_base_fee {
            Some(base_fee) => (base_fee, told.newest_base_fee.unwrap_or(base_fee)),
            // Zero all along, or not told: old chains and those whose gas is free look the same here.
            None => match self.newest_base_fee().await? {
                Some(newest) => (newest.saturating_add(newest / 8), newest),
                None => {
                    let gas_price = self.amount(Method::GasPrice).await?;
                    return Ok(FeeQuote::Legacy { gas_price });
                }
            },
        };
        let priority_fee = match told.priority_fee {
            Some(fee) => fee,
            // Nobody else paid anything lately; the node knows what its kind insists on. It may take
            // that from the same blocks.
            None => {
                let advised = self.advised_tip(newest).await?;
                told.least_of_own.map_or(advised, |least| advised.min(least))
            }
        };
        Ok(FeeQuote::Market { base_fee, priority_fee: priority_fee.max(LEAST_PRIORITY_FEE) })
    }

    /// Nothing where the history of fees is not to be had: the long way may still work.
    async fn told(&mut self, history: &Call, own: &BTreeSet<u64>) -> Result<Told, Failure> {
        if self.lacks(Capability::FeeHistory) {
            return Ok(Told::default());
        }
        let read = |history: History| history.told(own);
        let told = read_some_checked(one(self.endpoint, history).await, read);
        Ok(self.had(Method::FeeHistory, told)?.unwrap_or_default())
    }

    async fn newest_base_fee(&self) -> Result<Option<u128>, Failure> {
        let block = read_block(one(self.endpoint, &latest_call(With::Hashes)).await);
        let none = CallError::Garbled("that it has no block at all");
        match block.and_then(|block| block.ok_or(none)) {
            Ok(block) => Ok(block.base_fee),
            Err(error) => Err(Failure { method: Method::BlockByNumber, error }),
        }
    }

    /// What the node advises to pay on top of the newest block's base fee: by the method that says so,
    /// else by the price that it advises for transactions that have one. An answer that does not come
    /// is no tip.
    async fn advised_tip(&mut self, base_fee: u128) -> Result<u128, Failure> {
        if !self.lacks(Capability::MaxPriorityFee) {
            let tip = self.amount(Method::MaxPriorityFee).await.map_err(|failure| failure.error);
            if let Some(tip) = self.had(Method::MaxPriorityFee, tip)? {
                return Ok(tip);
            }
        }
        let price = self.amount(Method::GasPrice).await.map_err(|failure| failure.error);
        let price = self.had(Method::GasPrice, price)?;
        Ok(price.map_or(0, |price| price.saturating_sub(base_fee)).max(LEAST_PRIORITY_FEE))
    }

    async fn amount(&self, method: Method) -> Result<u128, Failure> {
        let answer = one(self.endpoint, &Call::new(method, json!([]))).await;
        read_some_checked(answer, |amount| price(amount, WHOLE))
            .map_err(|error| Failure { method, error })
    }

    /// It is not asked each time for what it does not have.
    fn lacks(&self, capability: Capability) -> bool {
        self.endpoint.knows(capability) == Some(false)
    }

    /// What an answer says; nothing if the next way is to be tried.
    fn had<T>(
        &mut self,
        method: Method,
        answer: Result<T, CallError>,
    ) -> Result<Option<T>, Failure> {
        match answer.map_err(|error| Failure { method, error }) {
            Ok(told) => {
                if method == Method::FeeHistory {
                    self.endpoint.learn(Capability::FeeHistory, true);
                }
                Ok(Some(told))
            }
            Err(failure) if is_over(&failure.error) => Err(failure),
            Err(failure) => {
                self.failed.push(failure);
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn hole_37_what_a_failure_of_one_method_means() {
        let said =
            |code, message: &str| CallError::Said { code, message: message.to_owned(), data: None };
        let time = Duration::from_secs(3).into();
        for (error, expected) in [
            (said(-32601, "method not found"), Means::NotOffered),
            (said(-32000, "method not supported"), Means::NotOffered),
            (CallError::Http(401), Means::NotOffered),
            (CallError::Http(403), Means::NotOffered),
            (CallError::Http(404), Means::NotOffered),
            (CallError::Http(405), Means::NotOffered),
            (CallError::Http(501), Means::NotOffered),
            (CallError::Http(500), Means::MayPass),
            (CallError::Http(502), Means::MayPass),
            (CallError::Garbled("something that is not JSON-RPC"), Means::MayPass),
            (CallError::Timeout(time), Means::MayPass),
            (CallError::Unreachable, Means::MayPass),
            (said(-32603, "Internal error"), Means::Nothing),
            (said(-32005, "limit exceeded"), Means::Nothing),
            (CallError::Limited(None), Means::Nothing),
            (CallError::Crowded(time), Means::Nothing),
        ] {
            assert_eq!(means(&error), expected, "{error}");
            assert_eq!(is_over(&error), matches!(error, CallError::Crowded(_)), "{error}");
        }
    }

    #[test]
    fn all_that_failed_is_told_with_its_method() {
        let failure = |method, status| Failure { method, error: CallError::Http(status) };
        let none = NoQuote {
            before: vec![failure(Method::FeeHistory, 403)],
            last: failure(Method::GasPrice, 500),
        };
        assert_eq!(
            none.to_string(),
            "eth_feeHistory: answered with HTTP status 403, eth_gasPrice: answered with HTTP status 500"
        );
    }
}
