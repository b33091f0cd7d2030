//! A person's word about what waits after a restore.

use std::sync::Arc;

use serde_json::json;
use stile_chain::EndpointReport;
use stile_domain::{Lane, Nonce, Payload, Timestamp, TxId, TxState, first_cursor};
use stile_store::{LaneView, LostTx, RestoreMark, StoreError, Tx};
use tracing::warn;

use crate::core::Core;
use crate::restored::{self, Recovered};
use crate::tx;
use crate::tx::memorise;

/// Nonces that are named at most.
const NAMED: u32 = 100;

/// Transactions that are named, or closed at once, at most.
const MOST: u32 = 10_000;

/// What a person says of transactions that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They were never sent: they are to be sent.
    NeverSent,
    /// They were sent before the database was restored: they are to be closed.
    WasSent,
}

/// What is known of a restore on a lane.
#[derive(Debug, Clone, Default)]
pub struct Restoration {
    /// The mark, if there is one.
    pub mark: Option<RestoreMark>,
    /// Whether the lane has yet to be held against its chain in this history of the database: there may
    /// be another mark then.
    pub unaligned: bool,
    /// Nonces that the lost history may have used and that have not been read from the chain yet, at
    /// most 100.
    pub unread: Vec<Nonce>,
    /// Why the chain does not say how far it has come, if it does not.
    pub silent: Option<String>,
    /// How many transactions of the account the chain has, if it says.
    pub count: Option<Nonce>,
    /// What an endpoint has in its pool and the database does not know.
    pub pooled: Option<Pooled>,
    /// Whether every configured endpoint says what is in its pool.
    pub all_pools_answer: bool,
    /// What was found on chain.
    pub found: Vec<LostTx>,
    /// What waits.
    pub waiting: Vec<Tx>,
}

/// Transactions in no block that the database does not know, as an endpoint counts them. It may be
/// mistaken, so nothing is ever moved because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooled {
    /// Who says so.
    pub endpoint: String,
    /// The first of their nonces.
    pub from: Nonce,
    /// The first nonce above them.
    pub below: Nonce,
}

/// What became of what waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// So many may be sent now.
    pub cleared: u64,
    /// So many are what was found on chain.
    pub recovered: u64,
    /// So many are `FAILED`.
    pub closed: u64,
}

/// Why a word is not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RestoreError {
    /// There is no transaction of that name.
    #[error("there is no such transaction")]
    NotFound,
    /// The transaction does not wait for a word.
    #[error("it does not wait for a person's word: it is {}", .0.standing.state)]
    NotWaiting(Box<Tx>),
    /// The lane is not marked.
    #[error("nothing waits for a person's word on this signer")]
    NotRestored,
    /// Not everything that was stepped over has been read.
    #[error(
        "of nonces that were used before the restore, {} have not been read from the chain yet: what used them may \
         be what waits here", .0.len()
    )]
    Unread(Vec<Nonce>),
    /// What waits is like what was found, and was not meant by a word about everything.
    #[error(
        "{} that wait do the same as transactions that the chain has, so sending them may pay twice: say of each what \
         became of it, with stile tx restored ({})", .0.len(), first_of(.0)
    )]
    Found(Vec<TxId>),
    /// The lane began after the restore, and what its account had sent before is not read.
    #[error(
        "the database had lost this signer, and what it sent below nonce {0} is not read from the chain: it may be \
         what waits here; look at the account's transactions, and say it with force"
    )]
    Begun(Nonce),
    /// The mark is another than the one that the person has seen.
    #[error(
        "the database was restored once more, or more of the chain was found, since this was looked at: look again"
    )]
    LookAgain,
    /// The chain does not say how far it has come.
    #[error("the chain does not say what it has of this signer, which may be what waits here: {0}")]
    Silent(String),
    /// Something is on its way that the database does not know.
    #[error(
        "{} has transactions of this signer in its pool that the database does not know (nonces {} to {}): they may be \
         what waits here. Wait until they are mined or gone", .0.endpoint, .0.from, .0.below - 1
    )]
    Pooled(Pooled),
    /// Another node holds the lane, and only it can make the chain's transaction ours.
    #[error("another node holds this signer, or has just held it: try again")]
    HeldElsewhere,
    /// The store does not say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The first of them, by name.
fn first_of(ids: &[TxId]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = ids.iter().take(SHOWN).map(TxId::to_string).collect();
    if ids.len() > SHOWN {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

pub(crate) async fn restoration(core: &Arc<Core>, lane: Lane) -> Result<Restoration, StoreError> {
    let view = core.store.lanes(&[lane]).await?.pop().flatten();
    let mark = view.as_ref().and_then(|view| view.restored);
    let unaligned = view.as_ref().is_some_and(|view| !view.aligned);
    let found = core.store.lost_txs(lane).await?;
    let mut known = Restoration { mark, unaligned, found, ..Restoration::default() };
    if let Some(view) = view.filter(|_| mark.is_some_and(|mark| mark.is_open())) {
        match core.chain_latest(lane).await {
            Ok(count) => known.count = count,
            Err(error) => known.silent = Some(error.to_string()),
        }
        known.unread = unread(core, &view, known.count, &known.found).await?;
        let reports = match core.tracks.get(lane.chain) {
            Some(track) => track.pool.report(lane.signer, None).await,
            None => Vec::new(),
        };
        known.all_pools_answer = all_pools_answer(&reports);
        known.pooled = pooled(core, &view, reports).await;
    }
    known.waiting = core.store.awaiting_word(lane, MOST).await?;
    Ok(known)
}

/// Whether nothing can be in a pool that nobody has told of. What an endpoint has that is away comes back
/// with it.
fn all_pools_answer(reports: &[EndpointReport]) -> bool {
    !reports.is_empty() && reports.iter().all(|said| said.pending.is_some())
}

/// What is in a pool beyond the cursor, by the word of the endpoint that has most. A count that cannot be
/// right is not believed.
async fn pooled(core: &Core, view: &LaneView, reports: Vec<EndpointReport>) -> Option<Pooled> {
    let cursor = view.next_nonce?;
    // What was stepped over because a node remembers it may be on its way as well.
    let mined = reports.iter().filter_map(|said| said.latest).max()?;
    let suspected = core.store.unread_nonces(view.lane, Nonce::MAX, NAMED).await.ok()?;
    let from =
        suspected.into_iter().find(|nonce| *nonce >= mined).map_or(cursor, |it| it.min(cursor));
    let counts = reports.into_iter().filter_map(|said| {
        let below = first_cursor(said.latest?, said.pending);
        (below > from).then_some(Pooled { endpoint: said.endpoint, from, below })
    });
    counts.max_by_key(|pooled| pooled.below)
}

/// What the lost history may have used and nobody has read. While the chain does not say how far it is,
/// all that was stepped over counts.
async fn unread(
    core: &Core,
    view: &LaneView,
    count: Option<Nonce>,
    found: &[LostTx],
) -> Result<Vec<Nonce>, StoreError> {
    let lane = view.lane;
    let mut unread = core.store.unread_nonces(lane, count.unwrap_or(Nonce::MAX), NAMED).await?;
    if let Some(count) = count {
        let open = core.store.open_txs(&[lane]).await?;
        let unmined = open.iter().map(|open| &open.tx).filter(|tx| is_unmined(tx));
        let bound: Vec<Nonce> = unmined.filter_map(|tx| tx.nonce).collect();
        unread.extend(unseen(count, view.next_nonce, &bound, found));
        unread.sort_unstable();
        unread.dedup();
    }
    Ok(unread)
}

fn is_unmined(tx: &Tx) -> bool {
    matches!(tx.standing.state, TxState::Allocated | TxState::Submitted) && tx.rival.is_none()
}

/// Nonces below the chain's count that were used by nobody knows whom: those that the cursor has not
/// passed, and those of transactions of ours (`bound`) that nobody has seen in a block.
fn unseen(count: Nonce, cursor: Option<Nonce>, bound: &[Nonce], found: &[LostTx]) -> Vec<Nonce> {
    let above = cursor.unwrap_or(count)..count;
    let bound = bound.iter().copied().filter(|nonce| *nonce < count);
    let is_found = |nonce: &Nonce| found.iter().any(|lost| lost.nonce == *nonce);
    above.take(NAMED as usize).chain(bound).filter(|nonce| !is_found(nonce)).collect()
}

/// Refuses a word while what the chain has, and nobody has read, may be what waits.
fn check_read(known: &Restoration, verdict: Verdict, force: bool) -> Result<(), RestoreError> {
    match known {
        _ if force => Ok(()),
        Restoration { silent: Some(why), .. } => Err(RestoreError::Silent(why.clone())),
        Restoration { unread, .. } if !unread.is_empty() => {
            Err(RestoreError::Unread(unread.clone()))
        }
        Restoration { pooled: Some(pooled), .. } => Err(RestoreError::Pooled(pooled.clone())),
        Restoration { mark: Some(mark), .. }
            if verdict == Verdict::NeverSent && mark.is_open() && mark.begun =>
        {
            Err(RestoreError::Begun(mark.from))
        }
        _ => Ok(()),
    }
}

/// A person's word.
#[derive(Debug, Clone, Copy)]
pub struct Word<'w> {
    /// What the person says.
    pub verdict: Verdict,
    /// When the lane was restored, as the person has seen it: after another restore the word says
    /// nothing. `None` if that is not told.
    pub restored_at: Option<Timestamp>,
    /// Also while it is not known what used some of the nonces.
    pub force: bool,
    /// Who says so.
    pub by: &'w str,
}

/// The mark that a word is about.
fn meant(mark: Option<RestoreMark>, word: &Word<'_>) -> Result<RestoreMark, RestoreError> {
    let mark = mark.ok_or(RestoreError::NotRestored)?;
    match word.restored_at {
        Some(seen) if seen != mark.at => Err(RestoreError::LookAgain),
        _ => Ok(mark),
    }
}

pub(super) async fn say_of_lane(
    core: &Arc<Core>,
    lane: Lane,
    word: Word<'_>,
) -> Result<Settled, RestoreError> {
    let Word { verdict, force, by, .. } = word;
    let known = restoration(core, lane).await?;
    let Restoration { unread, waiting, .. } = &known;
    let mark = meant(known.mark, &word)?;
    let open = mark.is_open();
    if !open && waiting.is_empty() {
        return Err(RestoreError::NotRestored);
    }
    check_read(&known, verdict, force)?;
    if !open && verdict == Verdict::NeverSent && !force {
        // A word about the lane was given before; these are like what the chain has.
        return Err(RestoreError::Found(waiting.iter().map(|tx| tx.id).collect()));
    }
    if open && verdict == Verdict::NeverSent && !force {
        let taken = like_taken(waiting, &known.found);
        if !taken.is_empty() {
            return Err(RestoreError::Found(taken));
        }
    }
    warn!(signer = %lane.signer, chain = %lane.chain, by, ?verdict, force, waiting = waiting.len(),
          unread = unread.len(), "a person's word about a restored database");
    let mut settled = Settled::default();
    match verdict {
        Verdict::NeverSent if open => {
            let data = json!({ "verdict": "never-sent", "by": by, "unread": unread });
            let cleared = core.store.settle_restore(&core.holder.node, lane, &mark, &data).await?;
            settled.cleared = cleared.ok_or(RestoreError::LookAgain)?;
        }
        Verdict::NeverSent => {
            for tx in waiting {
                settled.cleared += u64::from(clear(core, tx.id, &mark, by).await?.is_some());
            }
        }
        Verdict::WasSent => {
            settled = close(core, lane, &mark, waiting, by).await?;
        }
    }
    told(core, lane);
    let whole = verdict == Verdict::NeverSent && open;
    if !whole && settled == Settled::default() && !waiting.is_empty() {
        return Err(RestoreError::LookAgain);
    }
    Ok(settled)
}

/// Those that wait and do the same as what was found and taken for another one. Which of them it was sent
/// for is a guess: none of them is meant by a word about everything.
fn like_taken(waiting: &[Tx], found: &[LostTx]) -> Vec<TxId> {
    let taken = found.iter().filter(|lost| lost.claimed_by.is_some());
    let taken: Vec<&Payload> = taken.filter_map(|lost| Some(&lost.signed.as_ref()?.1)).collect();
    let is_like = |tx: &&Tx| taken.iter().any(|payload| payload.does_the_same(&tx.payload));
    waiting.iter().filter(is_like).map(|tx| tx.id).collect()
}

pub(super) async fn say_of_tx(
    core: &Arc<Core>,
    id: TxId,
    word: Word<'_>,
) -> Result<Tx, RestoreError> {
    let Word { verdict, force, by, .. } = word;
    let tx = core.store.txs(&[id]).await?.pop().flatten().ok_or(RestoreError::NotFound)?;
    let known = restoration(core, tx.lane).await?;
    let Some(waits) = known.waiting.iter().find(|waits| waits.id == id) else {
        return Err(RestoreError::NotWaiting(Box::new(tx)));
    };
    let mark = meant(known.mark, &word)?;
    if verdict == Verdict::NeverSent {
        check_read(&known, verdict, force)?;
    }
    warn!(txId = %id, signer = %tx.lane.signer, by, ?verdict, force,
          "a person's word about a transaction of a restored database");
    match verdict {
        Verdict::NeverSent => {
            if clear(core, id, &mark, by).await?.is_none() {
                return Err(not_taken(core, id).await?);
            }
        }
        Verdict::WasSent => {
            let settled = close(core, tx.lane, &mark, std::slice::from_ref(waits), by).await?;
            if settled == Settled::default() {
                return Err(not_taken(core, id).await?);
            }
        }
    }
    told(core, tx.lane);
    core.store.txs(&[id]).await?.pop().flatten().ok_or(RestoreError::NotFound)
}

/// Why a word about a transaction was not taken by the store.
async fn not_taken(core: &Core, id: TxId) -> Result<RestoreError, StoreError> {
    Ok(match core.store.txs(&[id]).await?.pop().flatten() {
        None => RestoreError::NotFound,
        Some(tx) if tx.standing.state == TxState::Created => RestoreError::LookAgain,
        Some(tx) => RestoreError::NotWaiting(Box::new(tx)),
    })
}

async fn clear(
    core: &Arc<Core>,
    id: TxId,
    mark: &RestoreMark,
    by: &str,
) -> Result<Option<Tx>, StoreError> {
    let data = json!({ "verdict": "never-sent", "by": by });
    core.store.clear(&core.holder.node, id, mark, &data).await
}

/// What was found on chain is taken for what was sent; what has no such evidence is `FAILED`.
async fn close(
    core: &Arc<Core>,
    lane: Lane,
    mark: &RestoreMark,
    waiting: &[Tx],
    by: &str,
) -> Result<Settled, RestoreError> {
    let mut settled = Settled::default();
    let matching = restored::matching(core, lane, waiting).await?;
    let slot = core.lanes.slot(lane);
    for tx in waiting {
        let lost = matching.iter().find(|(of, _)| of.id == tx.id).map(|(_, lost)| lost);
        if let Some(lost) = lost {
            // A pause raises the token of a lane that is held.
            let Some(claim) = slot.claim() else { return Err(RestoreError::HeldElsewhere) };
            match restored::recover(core, claim, tx, lost).await? {
                Recovered::Done => {
                    settled.recovered += 1;
                    continue;
                }
                Recovered::TooLate => {}
                // What the chain has is not called failed because somebody else holds the lane.
                Recovered::NotHeld => return Err(RestoreError::HeldElsewhere),
            }
        }
        // The nonce of what was found may be on record as somebody else's.
        let which = match lost {
            Some(lost) => {
                format!("the chain has {} at nonce {}, which does the same", lost.hash, lost.nonce)
            }
            None => "the chain does not show by which transaction".to_owned(),
        };
        let words =
            format!("{by} says that this was sent before the database was restored; {which}");
        let data = json!({ "verdict": "was-sent", "by": by, "reason": words });
        memorise::closes(&slot, tx.id);
        let closed =
            core.store.close_as_sent(&core.holder.node, tx.id, mark, &words, &data).await?;
        settled.closed += u64::from(closed.is_some());
    }
    if settled.recovered > 0 {
        tx::adopt(core, vec![lane]);
    }
    Ok(settled)
}

fn told(core: &Arc<Core>, lane: Lane) {
    core.events.send_modify(|count| *count += 1);
    let slot = core.lanes.slot(lane);
    slot.set_waiting(true);
    tx::wake(core, &slot);
    crate::cluster::ring(core, lane);
}

#[cfg(test)]
mod tests {
    use stile_domain::B256;

    use super::*;

    fn found(nonce: Nonce) -> LostTx {
        LostTx { nonce, hash: B256::ZERO, block_number: 1, signed: None, claimed_by: None }
    }

    #[test]
    fn hole_20_what_the_chain_has_above_the_cursor_is_not_read_yet() {
        // The chain's count, the cursor, nonces of ours that nobody has seen mined, what was found.
        for (what, count, cursor, bound, seen, expected) in [
            ("nothing is mined", 5, Some(5), &[][..], &[][..], &[][..]),
            ("a lane that has no cursor", 5, None, &[], &[], &[]),
            ("mined above the cursor: a paused lane", 8, Some(5), &[], &[], &[5, 6, 7]),
            ("and read since", 8, Some(5), &[], &[6], &[5, 7]),
            ("the lane is ahead of the chain", 5, Some(9), &[5, 6, 7, 8], &[], &[]),
            ("a nonce of ours is used, nobody knows by whom", 6, Some(9), &[5, 6], &[], &[5]),
            ("by what was lost", 6, Some(9), &[5, 6], &[5], &[]),
        ] {
            let seen: Vec<LostTx> = seen.iter().copied().map(found).collect();
            assert_eq!(unseen(count, cursor, bound, &seen), expected, "{what}");
        }
        assert_eq!(unseen(u64::MAX, Some(0), &[], &[]).len(), NAMED as usize, "no more are named");
    }

    /// What the lost history sent to one endpoint is in the pool of no other, maybe.
    #[test]
    fn hole_20_one_pool_does_not_answer_for_another() {
        let says = |pending| EndpointReport {
            endpoint: "rpc:1".to_owned(),
            usable: true,
            head: Some(5),
            why: None,
            latest: Some(3),
            pending,
            knows: None,
            read_only: None,
            contradiction: None,
            impossible: Vec::new(),
            unreadable: Vec::new(),
        };
        for (pools, all) in [
            (&[][..], false),
            (&[Some(3)], true),
            (&[None], false),
            (&[Some(3), None], false),
            (&[None, Some(3)], false),
            (&[Some(3), Some(4)], true),
        ] {
            let reports: Vec<EndpointReport> = pools.iter().copied().map(says).collect();
            assert_eq!(all_pools_answer(&reports), all, "{pools:?}");
        }
    }

    #[test]
    fn hole_20_a_word_is_not_taken_while_the_chain_may_know_better() {
        use Verdict::{NeverSent, WasSent};
        let known = |unread: &[Nonce], silent: Option<&str>| Restoration {
            unread: unread.to_vec(),
            silent: silent.map(str::to_owned),
            ..Restoration::default()
        };
        assert!(check_read(&known(&[], None), NeverSent, false).is_ok());
        let unread = check_read(&known(&[7], None), NeverSent, false);
        assert!(
            matches!(&unread, Err(RestoreError::Unread(nonces)) if *nonces == [7]),
            "{unread:?}"
        );
        for unread in [&[][..], &[7]] {
            let silent = check_read(&known(unread, Some("no answer")), NeverSent, false);
            assert!(matches!(silent, Err(RestoreError::Silent(_))), "{silent:?}");
            assert!(check_read(&known(unread, Some("no answer")), NeverSent, true).is_ok());
        }
        let pooled = Pooled { endpoint: "rpc:1".to_owned(), from: 3, below: 5 };
        let on_its_way = Restoration { pooled: Some(pooled), ..Restoration::default() };
        let refused = check_read(&on_its_way, NeverSent, false);
        assert!(
            matches!(&refused, Err(error) if error.to_string().contains("nonces 3 to 4")),
            "{refused:?}"
        );
        assert!(check_read(&on_its_way, NeverSent, true).is_ok());
        // What the account of a lane that only seems to be new had sent is not read at all.
        let begun = Restoration { mark: Some(mark(3)), ..known(&[], None) };
        let refused = check_read(&begun, NeverSent, false);
        assert!(matches!(refused, Err(RestoreError::Begun(3))), "{refused:?}");
        assert!(check_read(&begun, NeverSent, true).is_ok());
        assert!(check_read(&begun, WasSent, false).is_ok());
        let grown = Restoration { mark: Some(RestoreMark { begun: false, ..mark(3) }), ..begun };
        assert!(check_read(&grown, NeverSent, false).is_ok());
    }

    fn mark(from: Nonce) -> RestoreMark {
        let at = Timestamp::UNIX_EPOCH;
        RestoreMark { number: 1, at, from, to: from, begun: true, settled_at: None }
    }

    #[test]
    fn hole_20_a_word_is_about_the_mark_that_was_seen() {
        let word =
            |restored_at| Word { verdict: Verdict::NeverSent, restored_at, force: true, by: "ann" };
        let mark = mark(3);
        let later = Timestamp::from_microsecond(1).unwrap();
        for seen in [None, Some(mark.at)] {
            assert_eq!(meant(Some(mark), &word(seen)).unwrap(), mark);
        }
        let refused = meant(Some(mark), &word(Some(later)));
        assert!(matches!(refused, Err(RestoreError::LookAgain)), "{refused:?}");
        let refused = meant(None, &word(Some(later)));
        assert!(matches!(refused, Err(RestoreError::NotRestored)), "{refused:?}");
    }
}
