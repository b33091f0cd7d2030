//! New attempts in place of old ones.
//!
//! A replacement has its transaction's nonce and is signed, written, and only then sent, like the
//! first attempt. All attempts are followed; whichever is mined decides. A transaction has one
//! replacement under way at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_chain::{FeeQuotes, UnsignedTx};
use stile_domain::{
    Address, AttemptKind, Bytes, Ceiling, FeeLimitReached, FeePolicy, FeeQuote, Fees, Lane, Nonce,
    Obstacle, Payload, Step, SubState, TIMES_THE_MARKET, TxId, U256,
};
use stile_store::{NewAttempt, OpenAttempt, Set, TxChange, WishEnd};
use tracing::{info, warn};

use crate::core::Core;
use crate::metrics;
use crate::task;
use crate::tx::abandon::{self, Testimony};
use crate::tx::bind;
use crate::tx::book::{Book, Open};
use crate::tx::cause::Cause;
use crate::tx::limits;
use crate::tx::quotes;
use crate::tx::sign::{self, Signable};
use crate::tx::track::Track;

/// How soon a replacement is tried again that could not be signed.
const SIGN_AGAIN: Duration = Duration::from_secs(2);

/// How long the gas of an empty transaction is asked for.
const ESTIMATED_WITHIN: Duration = Duration::from_secs(3);

/// How soon it is looked again where it is not known what the chain asks for.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The least time between two attempts of one transaction that nobody asked for.
const AT_MOST_EVERY: Duration = Duration::from_secs(2);

/// How soon it is looked again whether a higher offer is possible or needed, where no time is set.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Sees to it that a transaction which is refused for good gets an empty one in its place, if that
/// is so by what was heard of it. It is asked for once more before that is written.
pub(crate) fn give_up(core: &Arc<Core>, track: &Arc<Track>, id: TxId, testimony: &Testimony) {
    let is_final = match track.book().get(id) {
        Some(open) => abandon::is_final(track, open, testimony),
        None => false,
    };
    if is_final {
        replace(core, track, id, Cause::GiveUp);
    }
}

/// Sees to it that a transaction gets a new attempt, unless one is under way.
pub(crate) fn replace(core: &Arc<Core>, track: &Arc<Track>, id: TxId, cause: Cause) {
    match plan(core, track, id, cause) {
        Some(Planned::Sign(tx, kind)) => {
            let (core, track) = (Arc::clone(core), Arc::clone(track));
            let producers = core.producers.clone();
            producers.spawn(task::REPLACE, async move {
                sign(&core, &track, id, cause, tx, kind).await
            });
        }
        Some(Planned::Ask) => quotes::ask_first(core, track, move |core, track| {
            replace(core, track, id, cause);
        }),
        None => {}
    }
}

/// What is to be done about a new attempt.
enum Planned {
    Sign(Signable, AttemptKind),
    /// It is above what is allowed while nobody says what the chain asks for: that is asked first.
    Ask,
}

/// Decides what is to be signed, and takes note that it is.
fn plan(core: &Core, track: &Track, id: TxId, cause: Cause) -> Option<Planned> {
    let quotes = track.quotes(bind::fresh_quote());
    let mut book = track.book();
    let open = book.get_mut(id).filter(|open| open.is_unmined() && !open.replacing)?;
    if let Some(last) = open.replaced.filter(|_| !cause.is_wish())
        && last.elapsed() < AT_MOST_EVERY
    {
        // What is refused for good is not raised: it is given up when it is refused the next time.
        if cause.is_by_clock() {
            open.next_bump = Some(last + AT_MOST_EVERY);
        }
        return None;
    }
    if cause == Cause::TooDear && (quotes.is_none() || open.may_be_had()) {
        // It has just been taken, or nobody says any more that less is enough.
        return None;
    }
    let newest = open.newest()?.clone();
    let kind = cause.kind(newest.kind);
    if cause == Cause::Cancel && newest.kind.successor().is_some() {
        // Withdrawn or given up already.
        let change = TxChange { wish: cause.granted(), ..unchanged(open) };
        core.recorder.write(open.lane, Some(change));
        return None;
    }
    let Some(before) = UnsignedTx::of(&newest.raw) else {
        warn!(txId = %id, "the stored bytes of an attempt cannot be read");
        return None;
    };
    let is_set = core.settings.tx.fee_limit(open.lane.chain).is_some();
    let endpoints = track.pool.endpoint_count();
    let vouches = is_vouched_for(cause, open.deliveries.is_underpriced_to_most(endpoints));
    let ceiling = core.ceiling_by(open.lane.chain, quotes.as_ref(), vouches);
    let limit = limit(open, cause, &ceiling, quotes.as_ref(), is_set);
    // Who refuses an offer as too low knows what is enough. While some endpoint has taken it, that is
    // believed only as far as the chain's limit.
    let too_low = cause == Cause::Underpriced || (open.deliveries.is_underpriced() && is_set);
    let quote = quotes.map(|quotes| if too_low { quotes.highest } else { quotes.offered });
    let fees = match cause {
        Cause::SpeedUp(Some(fees)) => Ok(fees),
        _ => {
            let may_be_taken =
                (open.may_be_taken() && !open.is_unpayable()) || open.deliveries.any_queued();
            let outbids = cause != Cause::TooDear && has_to_outbid(newest.kind, kind, may_be_taken);
            offer(&*core.settings.tx.fees, &before.fees, quote.as_ref(), limit, outbids)
        }
    };
    // Whatever the policy or a caller says.
    match fees.and_then(|fees| ceiling.admit(fees)) {
        Ok(fees) => {
            open.replacing = true;
            let tx = match kind {
                AttemptKind::Cancel | AttemptKind::GiveUp => {
                    before.nothing(open.lane.signer, fees.fees())
                }
                AttemptKind::Send | AttemptKind::Bump => before,
            };
            Some(Planned::Sign(Signable::new(tx, fees), kind))
        }
        // It may be allowed once it is known what the chain asks for.
        Err(_) if !ceiling.is_known() => {
            if cause.is_by_clock() {
                open.next_bump = Some(Instant::now() + ASK_AGAIN);
            }
            Some(Planned::Ask)
        }
        Err(reached) => {
            let lane = open.lane;
            let is_low = is_too_low(&*core.settings.tx.fees, cause, &before.fees, quote.as_ref());
            let again = core.settings.tx.bump_after.unwrap_or(LOOK_AGAIN);
            let change = limit_reached(&mut book, id, cause, reached, is_low, again);
            core.recorder.write(lane, change);
            None
        }
    }
}

/// Whether somebody stands for a price that one endpoint of two calls absurd: its caller has stated it, or
/// most endpoints refuse less.
fn is_vouched_for(cause: Cause, underpriced_to_most: bool) -> bool {
    match cause {
        Cause::SpeedUp(Some(_)) => true,
        Cause::Underpriced => underpriced_to_most,
        _ => false,
    }
}

/// Whether an offer that cannot be raised is what keeps a transaction from being mined. A market that has
/// fallen since it was made has a low limit, too.
fn is_too_low(
    policy: &dyn FeePolicy,
    cause: Cause,
    offer: &Fees,
    quote: Option<&FeeQuote>,
) -> bool {
    let by_quote =
        |quote: &FeeQuote| policy.is_too_low(offer, quote) || offer.most() < quote.price();
    cause == Cause::Underpriced || quote.is_none_or(by_quote)
}

/// Whether an attempt has to offer more than the one before it. Bytes that no endpoint ever took need
/// no outbidding by an empty transaction: nobody has them.
fn has_to_outbid(before: AttemptKind, kind: AttemptKind, may_be_taken: bool) -> bool {
    let is_first_empty = before.successor().is_none() && kind.successor().is_some();
    may_be_taken || !is_first_empty
}

/// What an attempt offers: more than the one before it or, where it need not outbid that one, what
/// the chain asks for by now.
fn offer(
    policy: &dyn FeePolicy,
    before: &Fees,
    quote: Option<&FeeQuote>,
    limit: u128,
    outbids: bool,
) -> Result<Fees, FeeLimitReached> {
    match quote.filter(|_| !outbids) {
        Some(quote) => Ok(policy.first(&Payload::default(), quote, limit)),
        None => policy.next(before, quote, limit),
    }
}

/// The most that an attempt may offer. What nobody asks for stays within what the caller allows,
/// and does not run away from the market.
fn limit(
    open: &Open,
    cause: Cause,
    ceiling: &Ceiling,
    quotes: Option<&FeeQuotes>,
    is_set: bool,
) -> u128 {
    let on_chain = ceiling.limit();
    if cause.is_wish() {
        return on_chain;
    }
    let underpriced = cause == Cause::Underpriced || open.deliveries.is_underpriced();
    let sane = quotes.map_or(on_chain, |quotes| sane(quotes, is_set, underpriced));
    let own = open.fee_limit.filter(|_| cause != Cause::GiveUp).unwrap_or(on_chain);
    on_chain.min(sane).min(own)
}

/// How far an offer is raised that nobody asks for. One of two endpoints that quotes next to nothing
/// keeps nothing from being mined: where the chain has a limit of its own, or an endpoint calls the
/// offer too low, it is the higher quote that counts.
fn sane(quotes: &FeeQuotes, is_set: bool, underpriced: bool) -> u128 {
    let market = if is_set || underpriced { quotes.highest } else { quotes.offered };
    Fees::first(&Payload::default(), &market).most().saturating_mul(TIMES_THE_MARKET)
}

/// It costs more than is allowed: said once for each cause in a row, and looked at again later.
fn limit_reached(
    book: &mut Book,
    id: TxId,
    cause: Cause,
    reached: FeeLimitReached,
    is_low: bool,
    again: Duration,
) -> Option<TxChange> {
    let open = book.get_mut(id)?;
    if cause.is_by_clock() {
        open.next_bump = Some(Instant::now() + again);
    }
    // Chain nodes may have called it underpriced before: that is known then, and this is not.
    let known = open.standing.sub_state == Some(SubState::Underpriced);
    let is_told = open.limit_told.replace(cause.name()) == Some(cause.name());
    if !is_told || cause.at_limit() != WishEnd::Keep {
        metrics::fee_limit_reached();
        warn!(txId = %id, signer = %open.lane.signer, nonce = open.nonce, cause = cause.name(), %reached,
              "no new attempt");
    } else if cause == Cause::Cancel {
        // It stays, and is looked at every few seconds.
        return None;
    }
    let mut change = if known {
        unchanged(open)
    } else if !is_low {
        if !cause.is_wish() {
            return None;
        }
        unchanged(open)
    } else {
        let data = json!({
            "cause": cause.name(),
            "wantedFeePerGas": reached.wanted.to_string(),
            "feeLimit": reached.limit.to_string(),
        });
        book.step(id, Step::HeldUp(Obstacle::Underpriced), data)?
    };
    change.error = Set::To(reached.to_string());
    change.wish = cause.at_limit();
    Some(change)
}

fn unchanged(open: &Open) -> TxChange {
    TxChange::new(open.id, open.events, open.standing)
}

async fn sign(
    core: &Arc<Core>,
    track: &Arc<Track>,
    id: TxId,
    cause: Cause,
    tx: Signable,
    kind: AttemptKind,
) {
    let lane = {
        let book = track.book();
        let Some(open) = book.get(id) else { return };
        open.lane
    };
    let tx = match kind.successor() {
        Some(_) => tx.with_gas(gas_for_nothing(track, lane).await),
        None => tx,
    };
    let signed = match core.signers.get(lane) {
        Some(signer) => sign::sign_one(signer, &tx, kind).await,
        None => {
            // It has moved to a process that has its key, or is about to.
            return not_signed(&mut track.book(), id, None);
        }
    };
    core.signing.note(lane, signed.as_ref().err());
    // Signing may have taken long.
    let testimony = match (&signed, cause) {
        (Ok(_), Cause::GiveUp) => abandon::ask(core, track, id).await,
        _ => None,
    };
    let mut book = track.book();
    match signed {
        Ok(_) if cause == Cause::GiveUp && !is_given_up(track, &mut book, id, testimony) => {}
        Ok(attempt) => {
            let change = decided(core, &mut book, id, cause, attempt);
            core.recorder.write(lane, change);
        }
        Err(error) => {
            metrics::sign_failed();
            warn!(txId = %id, signer = %lane.signer, %error, "a new attempt could not be signed; tried again");
            let again = cause.is_by_clock().then(|| Instant::now() + SIGN_AGAIN);
            not_signed(&mut book, id, again);
        }
    }
}

/// Nothing comes of a new attempt; the clock may bring it back then.
fn not_signed(book: &mut Book, id: TxId, again: Option<Instant>) {
    if let Some(open) = book.get_mut(id) {
        open.replacing = false;
        open.next_bump = again.or(open.next_bump);
    }
}

/// Whether a transaction is given up still, now that this is about to be written.
fn is_given_up(track: &Track, book: &mut Book, id: TxId, testimony: Option<Testimony>) -> bool {
    let Some(open) = book.get_mut(id) else { return false };
    let is_final = testimony.is_some_and(|testimony| abandon::is_final(track, open, &testimony));
    // It is sent again, and refused or taken.
    open.replacing &= is_final;
    is_final
}

/// What an empty transaction needs, which is not the same on all chains.
pub(crate) async fn gas_for_nothing(track: &Track, lane: Lane) -> Option<u64> {
    let nothing = Payload { to: Some(lane.signer), ..Payload::default() };
    // Nobody who withdraws something waits for an endpoint that is slow to say what most know.
    let estimate = track.pool.estimate_gas(lane.signer, &nothing);
    let estimate = tokio::time::timeout(ESTIMATED_WITHIN, estimate).await.ok()?.ok()?;
    Some(limits::gas_limit(track, estimate).await)
}

/// The change that writes the new attempt, if it is wanted still. It is sent once it is written.
fn decided(
    core: &Core,
    book: &mut Book,
    id: TxId,
    cause: Cause,
    attempt: NewAttempt,
) -> Option<TxChange> {
    let open = book.get_mut(id)?;
    if !open.is_unmined() {
        open.replacing = false;
        return None;
    }
    let now = Instant::now();
    open.next_bump = core.settings.tx.bump_after.map(|after| now + after);
    open.replaced = Some(now);
    match attempt.kind.successor() {
        Some(_) => open.deliveries.renew(),
        None => open.deliveries.offer_more(),
    }
    (open.bid_at, open.stalled) = (None, false);
    if cause.is_wish() {
        // It does not wait as long as what it is made in place of.
        open.deliveries.forget_failures();
        open.hurried = Some(attempt.hash);
    }
    open.limit_told = None;
    if cause == Cause::TooDear {
        open.lowered = Some(attempt.fees.most());
    }
    let (lane, nonce): (Lane, Nonce) = (open.lane, open.nonce);
    let mut data = json!(attempt.fees);
    data["cause"] = cause.name().into();
    data["txHash"] = attempt.hash.to_string().into();
    data["attempt"] = (open.attempts.len() + 1).into();
    metrics::replaced(cause.name());
    info!(txId = %id, signer = %lane.signer, chain = %lane.chain, nonce, cause = cause.name(),
          txHash = %attempt.hash, fees = ?attempt.fees, "new attempt");
    let mut change = book.step(id, cause.step(), data)?;
    change.attempt = Some(attempt);
    change.wish = cause.granted();
    change.error = if cause == Cause::GiveUp { Set::Keep } else { Set::Clear };
    Some(change)
}

/// New attempts that have just been written are sent, on a lane that is stopped for want of funds too,
/// if its lowest one costs less than what could not be paid.
pub(crate) fn written(core: &Core, lane: Lane, changes: &[(TxId, NewAttempt)]) {
    let Some(track) = core.tracks.get(lane.chain) else { return };
    let lowest = {
        let mut book = track.book();
        for (id, attempt) in changes {
            book.add_attempt(*id, bind::written(attempt));
        }
        let lowest = book.unmined_of(lane).next();
        lowest.filter(|open| changes.iter().any(|(id, _)| *id == open.id)).and_then(price)
    };
    if let Some(cost) = lowest {
        track.funds().offered(lane, cost);
    }
    core.submit(track, changes.iter().map(|(id, _)| *id));
}

/// What an attempt may cost at most: what it carries, and all of its gas at its highest price.
pub(crate) fn cost(raw: &Bytes) -> Option<U256> {
    let tx = UnsignedTx::of(raw)?;
    let gas = U256::from(tx.gas_limit).saturating_mul(U256::from(tx.fees.most()));
    Some(gas.saturating_add(tx.value))
}

/// What a transaction's newest attempt may cost at most.
fn price(open: &Open) -> Option<U256> {
    cost(&open.newest()?.raw)
}

/// What an attempt carries, in wei.
pub(crate) fn value_of(raw: &Bytes) -> Option<f64> {
    UnsignedTx::of(raw).map(|tx| f64::from(tx.value))
}

/// Whether an attempt calls an account, and makes no contract.
pub(crate) fn is_call(attempt: &OpenAttempt) -> bool {
    UnsignedTx::of(&attempt.raw).is_some_and(|tx| tx.to.is_some())
}

/// Where the contract of an attempt that makes one is: that follows from its sender and its nonce.
pub(crate) fn creates(attempt: &OpenAttempt, sender: Address) -> Option<Address> {
    let tx = UnsignedTx::of(&attempt.raw).filter(|tx| tx.to.is_none())?;
    Some(sender.create(tx.nonce))
}

/// The fees that an attempt offers.
pub(crate) fn fees_of(attempt: &OpenAttempt) -> Option<Fees> {
    UnsignedTx::of(&attempt.raw).map(|tx| tx.fees)
}

#[cfg(test)]
mod tests {
    use stile_domain::Market;
    use stile_store::Wish;

    use super::*;

    #[test]
    fn only_an_empty_one_in_place_of_what_nobody_took_need_not_outbid() {
        use AttemptKind::{Bump, Cancel, GiveUp, Send};
        for (before, kind, may_be_taken, outbids) in [
            (Send, GiveUp, false, false),
            (Send, Cancel, false, false),
            (Bump, GiveUp, false, false),
            (Send, GiveUp, true, true),
            (Send, Cancel, true, true),
            // What the chain's nodes call underpriced is raised, whoever has it.
            (Send, Bump, false, true),
            (GiveUp, GiveUp, false, true),
            (Cancel, Cancel, false, true),
        ] {
            let found = has_to_outbid(before, kind, may_be_taken);
            assert_eq!(found, outbids, "{before:?} {kind:?} {may_be_taken}");
        }
    }

    /// Of two endpoints one quotes next to nothing, and nothing is mined for that.
    #[test]
    fn hole_23_one_low_quote_of_two_does_not_keep_offers_low() {
        let legacy = |gas_price| FeeQuote::Legacy { gas_price };
        let apart = FeeQuotes { offered: legacy(1), highest: legacy(1_000), is_alone: false };
        assert_eq!(sane(&apart, false, true), 10_000, "the other one calls it too low");
        assert_eq!(sane(&apart, true, false), 10_000, "the chain has a limit");
        assert_eq!(sane(&apart, false, false), 10, "nobody wants more, and no limit is set");
        let agreed = FeeQuotes { offered: legacy(7), highest: legacy(7), is_alone: false };
        assert_eq!(sane(&agreed, false, true), 70);
    }

    #[test]
    fn hole_42_only_a_caller_or_most_endpoints_vouch_for_a_high_price() {
        let stated = Fees::Legacy { gas_price: 7 };
        for (cause, most, vouched) in [
            (Cause::Underpriced, true, true),
            // The clock, or one endpoint of several.
            (Cause::Underpriced, false, false),
            (Cause::SpeedUp(Some(stated)), false, true),
            (Cause::SpeedUp(None), true, false),
            (Cause::NotMined, true, false),
            (Cause::Cancel, true, false),
            (Cause::GiveUp, true, false),
            (Cause::TooDear, true, false),
        ] {
            assert_eq!(is_vouched_for(cause, most), vouched, "{cause:?} {most}");
        }
    }

    #[test]
    fn hole_42_a_fallen_market_does_not_make_an_offer_too_low() {
        let offer = Fees::Market { max_fee_per_gas: 180, max_priority_fee_per_gas: 2 };
        let market = |base_fee| FeeQuote::Market { base_fee, priority_fee: 5 };
        for (cause, quote, is_low) in [
            (Cause::NotMined, Some(market(1)), false),
            (Cause::NotMined, Some(market(175)), false),
            (Cause::NotMined, Some(market(176)), true),
            (Cause::NotMined, Some(FeeQuote::Legacy { gas_price: 181 }), true),
            (Cause::NotMined, None, true),
            (Cause::Cancel, Some(market(1)), false),
            (Cause::Underpriced, Some(market(1)), true),
        ] {
            let found = is_too_low(&Market::default(), cause, &offer, quote.as_ref());
            assert_eq!(found, is_low, "{cause:?} {quote:?}");
        }
    }

    #[test]
    fn hole_42_a_cancellation_stays_while_the_limit_is_all_that_stands_against_it() {
        use crate::tx::book::tests::open;
        let (reached, again) = (FeeLimitReached { wanted: 113, limit: 100 }, LOOK_AGAIN);
        let id = open(1, 0).id;
        let mut book = Book::default();
        book.insert(open(1, 0));
        let told = limit_reached(&mut book, id, Cause::Cancel, reached, true, again).unwrap();
        assert_eq!(
            (told.wish, told.standing.sub_state),
            (WishEnd::Keep, Some(SubState::Underpriced))
        );
        let silent = limit_reached(&mut book, id, Cause::Cancel, reached, true, again);
        assert!(silent.is_none(), "it is looked at every few seconds, and told once");
        assert_eq!(book.get(id).unwrap().next_bump, None, "nobody asked for a higher offer");
        let wish = Cause::SpeedUp(None);
        for _ in 0..2 {
            let told = limit_reached(&mut book, id, wish, reached, true, again).unwrap();
            assert_eq!(told.wish, WishEnd::Granted(Wish::SpeedUp(None)), "its caller is told");
        }
        let told = limit_reached(&mut book, id, Cause::NotMined, reached, true, again);
        assert!(told.is_some() && book.get(id).unwrap().next_bump.is_some());
    }

    #[test]
    fn hole_42_an_offer_above_a_fallen_market_is_not_called_underpriced() {
        use crate::tx::book::tests::open;
        let (reached, again) = (FeeLimitReached { wanted: 203, limit: 100 }, LOOK_AGAIN);
        let id = open(1, 0).id;
        for (cause, is_told) in [(Cause::NotMined, false), (Cause::Cancel, true)] {
            let mut book = Book::default();
            book.insert(open(1, 0));
            let change = limit_reached(&mut book, id, cause, reached, false, again);
            assert_eq!(change.is_some(), is_told, "{cause:?}");
            assert!(change.is_none_or(|change| change.event.is_none()), "{cause:?}");
            let standing = book.get(id).unwrap().standing;
            assert_eq!(standing, open(1, 0).standing, "{cause:?}");
        }
    }

    #[test]
    fn what_could_not_be_signed_can_be_replaced_again() {
        use crate::tx::book::tests::open;
        let (id, later) = (open(1, 0).id, Instant::now() + SIGN_AGAIN);
        let mut book = Book::default();
        book.insert(Open { replacing: true, ..open(1, 0) });
        not_signed(&mut book, id, None);
        assert_eq!(
            (book.get(id).unwrap().replacing, book.get(id).unwrap().next_bump),
            (false, None)
        );
        not_signed(&mut book, id, Some(later));
        not_signed(&mut book, id, None);
        assert_eq!(book.get(id).unwrap().next_bump, Some(later), "the clock is not stopped");
    }

    /// Outsiders had driven the quote up when it was first offered, and no endpoint took it. Ten times
    /// what the chain asks for by now is less than that.
    #[test]
    fn giving_up_what_nobody_took_costs_what_the_chain_asks_for() {
        let dear = Fees::Market { max_fee_per_gas: 10_000, max_priority_fee_per_gas: 500 };
        let (cheap, legacy) = (
            FeeQuote::Market { base_fee: 100, priority_fee: 7 },
            FeeQuote::Legacy { gas_price: 90 },
        );
        let limit = 2_070;
        let market = Fees::Market { max_fee_per_gas: 207, max_priority_fee_per_gas: 7 };
        let most = Fees::Market { max_fee_per_gas: 150, max_priority_fee_per_gas: 7 };
        let reached = Err(FeeLimitReached { wanted: 11_250, limit });
        for (quote, limit, outbids, expected) in [
            (Some(&cheap), limit, true, reached),
            (Some(&cheap), limit, false, Ok(market)),
            (Some(&cheap), 150, false, Ok(most)),
            (Some(&legacy), limit, false, Ok(Fees::Legacy { gas_price: 90 })),
            // What the chain asks for is not known.
            (None, limit, false, reached),
        ] {
            let found = offer(&Market::default(), &dear, quote, limit, outbids);
            assert_eq!(found, expected, "{quote:?} {limit} {outbids}");
        }
    }
}
