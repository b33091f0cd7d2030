//! Giving a transaction up: what there is to know before an empty one takes its nonce.

use std::sync::Arc;

use stile_chain::SendClass;
use stile_domain::{B256, TxId, TxState};
use stile_store::TxEvent;
use tracing::{info, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx::book::Open;
use crate::tx::delivery::{self, EverTaken, Evidence, Keep};
use crate::tx::track::Track;

/// What the endpoints and the record say of a transaction, besides what is in the book.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Testimony {
    /// The endpoints that took one of its attempts, by the record.
    took: Vec<String>,
    /// Whether each endpoint knows one of its attempts; `None` for those that do not say.
    knows: Vec<Option<bool>>,
}

/// Asks the endpoints whether they know one of its attempts and, where this process did not send it
/// first, the record who took it. `None` if that cannot be read, or it is open no more.
pub(crate) async fn ask(core: &Arc<Core>, track: &Track, id: TxId) -> Option<Testimony> {
    let (hashes, is_taken_over) = {
        let book = track.book();
        let open = book.get(id)?;
        let hashes: Vec<B256> = open.attempts.iter().map(|attempt| attempt.hash).collect();
        (hashes, open.is_taken_over())
    };
    let mut took = Vec::new();
    if is_taken_over {
        match core.store.history(id).await {
            Ok(history) => took = takers_on_record(&history),
            Err(error) => {
                metrics::store_failed("history");
                warn!(%error, txId = %id, "who took it could not be read; not given up for now");
                return None;
            }
        }
    }
    let known = track.pool.known_by_each(&hashes).await;
    let knows = known.into_iter().map(|known| known.map(|known| known.contains(&true))).collect();
    Some(Testimony { took, knows })
}

/// Whether a transaction that is refused for good is given up, as it stands in the book now. Asking
/// takes its time, and signing too: meanwhile an endpoint may have taken it after all. So this is
/// decided under the book's lock, in the moment in which it is written down.
pub(crate) fn is_final(track: &Track, open: &Open, testimony: &Testimony) -> bool {
    let names: Vec<&str> =
        (0..track.pool.endpoint_count()).map(|place| track.pool.endpoint_name(place)).collect();
    match decide(open, &names, track.pool.quorum().required(), testimony) {
        Ok(()) => true,
        Err(keep) => {
            info!(txId = %open.id, signer = %open.lane.signer, chain = %open.lane.chain, ?keep,
                  "refused for good, and not given up");
            false
        }
    }
}

fn decide(open: &Open, names: &[&str], required: usize, testimony: &Testimony) -> Result<(), Keep> {
    let took: Vec<&String> = open.takers.iter().chain(&testimony.took).collect();
    let deliveries = open.deliveries.iter().zip(&testimony.knows).zip(names);
    let each = deliveries.map(|((delivery, knows), name)| Evidence {
        voice: delivery.voice(),
        rejections: delivery.rejections(),
        took: took.iter().any(|taker| taker == name),
        knows: *knows,
    });
    let evidence: Vec<Evidence> = each.collect();
    delivery::give_up(&evidence, ever_taken(open, took.is_empty()), required)
}

fn ever_taken(open: &Open, nobody_took: bool) -> EverTaken {
    if !nobody_took || open.standing.state == TxState::Submitted {
        EverTaken::Yes
    } else if open.may_be_taken() {
        EverTaken::Perhaps
    } else {
        EverTaken::Never
    }
}

/// The endpoints that have taken one of its attempts, by its history.
fn takers_on_record(history: &[TxEvent]) -> Vec<String> {
    let said = history.iter().filter_map(|event| event.data.get("endpoints")?.as_array()).flatten();
    let took = said.filter(|said| {
        let class = said.get("class").and_then(|class| class.as_str());
        [SendClass::Accepted, SendClass::Known].iter().any(|taken| class == Some(taken.name()))
    });
    took.filter_map(|said| Some(said.get("endpoint")?.as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use stile_chain::EndpointSaid;
    use stile_domain::{Standing, Step};

    use super::*;
    use crate::tx::book::tests::open;

    fn said(endpoint: &str, class: SendClass) -> EndpointSaid {
        EndpointSaid {
            endpoint: endpoint.to_owned(),
            class,
            text: String::new(),
            answer_lost: false,
            stands_still: false,
            own_rule: false,
        }
    }

    /// One that both endpoints have refused often enough, and what they said when they were asked.
    fn refused_by_both() -> (Open, Testimony) {
        let mut open = open(1, 0);
        open.standing.state = TxState::Allocated;
        open.accepted = Some(Instant::now());
        for place in 0..2 {
            for _ in 0..delivery::REJECTIONS {
                open.deliveries.at(place).hear(&said("", SendClass::Rejected), false);
            }
        }
        let testimony = Testimony { took: Vec::new(), knows: vec![Some(false); 2] };
        (open, testimony)
    }

    /// What happens between asking and writing it down.
    type Meanwhile = fn(&mut Open);

    #[test]
    fn hole_22_what_happens_while_it_is_decided_counts() {
        let table: [(Meanwhile, Result<(), Keep>); 6] = [
            (|_| {}, Ok(())),
            (
                |open| {
                    open.deliveries.at(1).hear(&said("two", SendClass::Accepted), false);
                    open.takers.push("two".to_owned());
                },
                Err(Keep::NotRefusedByAll),
            ),
            // An endpoint is being asked again.
            (|open| assert!(open.deliveries.begin(0)), Err(Keep::NotRefusedByAll)),
            // It has a new attempt, to which nobody has said anything.
            (|open| open.deliveries.renew(), Err(Keep::NotRefusedByAll)),
            // It was taken, and refused again since: nobody says that the taker has lost it.
            (
                |open| {
                    open.takers.push("two".to_owned());
                    open.deliveries.at(1).hear(&said("two", SendClass::Unrecognised), true);
                },
                Err(Keep::UnknownWords),
            ),
            (
                |open| {
                    let standing: Standing = open.standing.after(Step::Sent).unwrap();
                    open.standing = standing;
                    open.deliveries.at(0).hear(&said("one", SendClass::Transient), true);
                },
                Err(Keep::NotRefusedByAll),
            ),
        ];
        for (number, (meanwhile, expected)) in table.into_iter().enumerate() {
            let (mut open, testimony) = refused_by_both();
            meanwhile(&mut open);
            assert_eq!(decide(&open, &["one", "two"], 1, &testimony), expected, "row {number}");
        }
    }
}
