//! What each endpoint makes of a transaction, and what all of them together come to.
//!
//! Everything here is decided from what it is given: nothing is asked and no clock is read.

use std::time::{Duration, Instant};

use stile_chain::{EndpointSaid, NotAsked, SendClass};
use stile_domain::Obstacle;

/// The pause before an endpoint is asked again that had no answer; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How often in a row an endpoint may have no answer before the others decide without it.
const SILENT_AFTER: u32 = 5;

/// How often an endpoint must refuse a transaction for good before that is believed: it may have
/// been wrong, or behind.
pub(crate) const REJECTIONS: u32 = 3;

/// What an endpoint has to say to a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Voice {
    /// It is asked now, or again soon.
    #[default]
    Awaited,
    /// It is given time, since it said that it is asked too often or has just failed.
    Paused,
    /// It had no answer for long, or has not heard of the chain for long.
    Silent,
    /// It takes no transactions.
    ReadOnly,
    /// It refuses, in words that nobody knows, what may have been taken before. That means nothing.
    Unsure,
    /// It refuses for good, by a rule of its own: another one may take it.
    Barred,
    /// Its last answer.
    Said(SendClass),
}

/// One endpoint and a transaction's newest attempt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delivery {
    /// In the endpoint's queue, or on its way to it.
    pub(crate) queued: bool,
    /// When this endpoint alone is asked again.
    pub(crate) again: Option<Instant>,
    voice: Voice,
    /// Its last words, and whether it was asked at all.
    words: Option<(EndpointSaid, bool)>,
    /// How often in a row it had no answer.
    failures: u32,
    /// How often in a row it has refused.
    refusals: u32,
    /// How often in a row it has refused for good.
    rejections: u32,
}

impl Delivery {
    /// Takes note of its answer. `may_be_taken`: some endpoint may have the transaction already.
    pub(crate) fn hear(&mut self, said: &EndpointSaid, may_be_taken: bool) {
        self.words = Some((said.clone(), true));
        match said.class {
            SendClass::Accepted | SendClass::Known => {
                (self.failures, self.refusals, self.rejections) = (0, 0, 0);
            }
            SendClass::Transient | SendClass::NonceTooHigh => self.failures += 1,
            SendClass::NonceTooLow | SendClass::ReadOnly => self.failures = 0,
            SendClass::Rejected | SendClass::Unrecognised => {
                self.failures = 0;
                self.refusals += 1;
                self.rejections += 1;
            }
            SendClass::Underpriced
            | SendClass::ReplacementUnderpriced
            | SendClass::InsufficientFunds => {
                self.failures = 0;
                self.refusals += 1;
                self.rejections = 0;
            }
        }
        self.voice = match said.class {
            SendClass::Transient if self.failures >= SILENT_AFTER => Voice::Silent,
            SendClass::Transient => Voice::Awaited,
            SendClass::ReadOnly => Voice::ReadOnly,
            // It may judge by a state of long ago.
            class if said.stands_still && !class.is_taken() => Voice::Silent,
            SendClass::Unrecognised if may_be_taken => Voice::Unsure,
            SendClass::Rejected if said.own_rule => Voice::Barred,
            class => Voice::Said(class),
        };
    }

    /// Takes note that it was not asked.
    pub(crate) fn pass_over(&mut self, endpoint: &str, why: &NotAsked) {
        self.words = Some((EndpointSaid::instead(endpoint, why), false));
        self.voice = match why {
            NotAsked::NotInUse(_) => Voice::Silent,
            NotAsked::ReadOnly(_) => Voice::ReadOnly,
            NotAsked::Paused(_) => Voice::Paused,
        };
    }

    pub(crate) fn voice(&self) -> Voice {
        self.voice
    }

    /// How long it is left alone after it had no answer.
    pub(crate) fn pause(&self) -> Duration {
        let times = self.failures.saturating_sub(1).min(8);
        (FIRST_PAUSE * 2u32.pow(times)).min(LONGEST_PAUSE)
    }

    pub(crate) fn rejections(&self) -> u32 {
        self.rejections
    }

    /// Whether it has refused for good often enough to be believed.
    fn refuses(&self) -> bool {
        refuses(self.voice, self.rejections)
    }
}

fn refuses(voice: Voice, rejections: u32) -> bool {
    let for_good = match voice {
        Voice::Said(class) => obstacle(class) == Some(Obstacle::Rejected),
        voice => voice == Voice::Barred,
    };
    for_good && rejections >= REJECTIONS
}

/// Whether an endpoint's answer says whether the transaction is taken. One about other nonces does
/// not: receipts tell whether a nonce is used, and time whether one is missing.
fn has_a_say(voice: Voice) -> bool {
    match voice {
        Voice::Said(SendClass::NonceTooLow | SendClass::NonceTooHigh) => false,
        Voice::Said(_) | Voice::Barred | Voice::Unsure => true,
        Voice::Awaited | Voice::Paused | Voice::Silent | Voice::ReadOnly => false,
    }
}

/// All endpoints of a chain and a transaction's newest attempt, by their places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deliveries(Vec<Delivery>);

impl Deliveries {
    /// One endpoint's.
    pub(crate) fn at(&mut self, place: usize) -> &mut Delivery {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, Delivery::default);
        }
        &mut self.0[place]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        self.0.iter()
    }

    /// Puts it into an endpoint's hands. `false` if it is there already.
    pub(crate) fn begin(&mut self, place: usize) -> bool {
        let delivery = self.at(place);
        if delivery.queued {
            return false;
        }
        delivery.queued = true;
        delivery.again = None;
        delivery.voice = Voice::Awaited;
        true
    }

    /// There is a new attempt, to which nobody has said anything.
    pub(crate) fn renew(&mut self) {
        self.0.iter_mut().for_each(|delivery| delivery.rejections = 0);
        self.offer_more();
    }

    /// The same, where it only offers more than the one before it: whoever refuses for good what it
    /// does has refused that.
    pub(crate) fn offer_more(&mut self) {
        for delivery in &mut self.0 {
            delivery.again = None;
            delivery.voice = Voice::Awaited;
            delivery.words = None;
            delivery.refusals = 0;
        }
    }

    /// However often endpoints had no answer: the next pause is the shortest.
    pub(crate) fn forget_failures(&mut self) {
        self.0.iter_mut().for_each(|delivery| delivery.failures = 0);
    }

    /// No endpoint is asked again before all of them are.
    pub(crate) fn forget_retries(&mut self) {
        self.0.iter_mut().for_each(|delivery| delivery.again = None);
    }

    pub(crate) fn any_queued(&self) -> bool {
        self.0.iter().any(|delivery| delivery.queued)
    }

    /// Whether it is in every endpoint's hands.
    pub(crate) fn all_queued(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|delivery| delivery.queued)
    }

    /// Whether nobody who can be asked takes transactions: one that is away may, once it is back, and
    /// so may those that did not, so all of them are asked again before long.
    pub(crate) fn nobody_takes(&self) -> bool {
        nobody_takes(self.0.iter().map(Delivery::voice))
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let voices: Vec<Voice> = self.0.iter().map(Delivery::voice).collect();
        verdict(&voices)
    }

    /// What the endpoints said last; of those that were not asked only if none was.
    pub(crate) fn words(&self) -> Vec<&EndpointSaid> {
        let all = || self.0.iter().filter_map(|delivery| delivery.words.as_ref());
        let asked: Vec<&EndpointSaid> =
            all().filter(|(_, asked)| *asked).map(|(said, _)| said).collect();
        if asked.is_empty() { all().map(|(said, _)| said).collect() } else { asked }
    }

    /// Whether an endpoint calls its offer too low.
    pub(crate) fn is_underpriced(&self) -> bool {
        self.words().iter().any(|said| is_low(said.class))
    }

    /// Whether more than half of so many configured endpoints call its offer too low.
    pub(crate) fn is_underpriced_to_most(&self, configured: usize) -> bool {
        let words = self.0.iter().filter_map(|delivery| delivery.words.as_ref());
        let low = |(said, asked): &&(EndpointSaid, bool)| {
            *asked && !said.stands_still && is_low(said.class)
        };
        words.filter(low).count() * 2 > configured
    }

    /// How often in a row it was refused, by the one of those who refuse it that has done so least
    /// often: an endpoint that was away is not waited for as long as the others were asked.
    pub(crate) fn refusals(&self) -> u32 {
        self.0
            .iter()
            .map(|delivery| delivery.refusals)
            .filter(|count| *count > 0)
            .min()
            .unwrap_or(0)
    }

    /// Whether the larger part of those who have a say refuse it for good, often enough to be
    /// believed.
    pub(crate) fn is_rejected(&self) -> bool {
        let has_a_say = self.0.iter().filter(|one| has_a_say(one.voice)).count();
        let refuse = self.0.iter().filter(|one| one.refuses()).count();
        refuse * 2 > has_a_say
    }

    /// Whether the larger part of all endpoints refuse it for good in words that everybody knows,
    /// often enough to be believed, whatever the others say.
    pub(crate) fn is_outvoted(&self) -> bool {
        let refuse =
            |one: &&Delivery| one.refuses() && one.voice == Voice::Said(SendClass::Rejected);
        self.0.iter().filter(refuse).count() * 2 > self.0.len()
    }
}

fn is_low(class: SendClass) -> bool {
    obstacle(class) == Some(Obstacle::Underpriced)
}

fn nobody_takes(mut voices: impl Iterator<Item = Voice>) -> bool {
    voices.all(|voice| matches!(voice, Voice::ReadOnly | Voice::Silent))
}

/// What the endpoints come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One of them has it. That is enough: nodes pass it on.
    Taken,
    /// One of them may yet take it.
    Undecided,
    /// Those who have a say refuse; this is what the larger part of them mean.
    Refused(SendClass),
    /// Nobody has a say.
    Nobody,
}

/// What endpoints say to one transaction, taken together. Those that take no transactions, those that
/// are silent and those that speak of other nonces have no say, so that none of them hides what the
/// others mean. One against several hides nothing either: what the larger part mean counts.
pub(crate) fn verdict(voices: &[Voice]) -> Verdict {
    let said = voices.iter().filter_map(|voice| match voice {
        Voice::Said(class) => Some(*class),
        // What only it refuses says as little of what others do as words that nobody knows.
        Voice::Barred => Some(SendClass::Unrecognised),
        _ => None,
    });
    let said: Vec<SendClass> = said.collect();
    let (unsure, paused) = (voices.contains(&Voice::Unsure), voices.contains(&Voice::Paused));
    if said.iter().any(|class| class.is_taken()) {
        return Verdict::Taken;
    }
    if voices.contains(&Voice::Awaited) {
        return Verdict::Undecided;
    }
    let part = larger_part(&said);
    let (size, have_a_say) = (part.len(), voices.iter().filter(|one| has_a_say(**one)).count());
    let class = match (part.is_empty(), said.is_empty()) {
        (false, _) => SendClass::of_all(part),
        (true, _) if unsure => return Verdict::Undecided,
        (true, false) => SendClass::of_all(said),
        (true, true) if paused => return Verdict::Undecided,
        (true, true) => return Verdict::Nobody,
    };
    // Whoever is paused answers before long, and may take it, as somebody may have who is not sure.
    let may_be_taken = match class {
        SendClass::Rejected if size * 2 > voices.len() => false,
        SendClass::Rejected | SendClass::Unrecognised if paused => true,
        _ => unsure && size * 2 <= have_a_say,
    };
    if may_be_taken { Verdict::Undecided } else { Verdict::Refused(class) }
}

/// What most of those mean who refuse; of equal parts the one that can be mended soonest. Words that
/// nobody knows count where nobody says anything else.
fn larger_part(said: &[SendClass]) -> Vec<SendClass> {
    let is_known =
        |class: &SendClass| !matches!(class, SendClass::Unrecognised | SendClass::Rejected);
    let knows_better = said.iter().any(is_known);
    let parts = [Obstacle::Underpriced, Obstacle::InsufficientFunds, Obstacle::Rejected];
    let parts = parts.map(|means| {
        let part = said.iter().copied().filter(|class| obstacle(*class) == Some(means));
        part.filter(|class| !knows_better || *class != SendClass::Unrecognised).collect::<Vec<_>>()
    });
    // The last of the largest is taken.
    parts.into_iter().rev().max_by_key(Vec::len).unwrap_or_default()
}

/// What a refusal keeps a transaction from.
pub(crate) fn obstacle(class: SendClass) -> Option<Obstacle> {
    match class {
        SendClass::Underpriced | SendClass::ReplacementUnderpriced => Some(Obstacle::Underpriced),
        SendClass::InsufficientFunds => Some(Obstacle::InsufficientFunds),
        SendClass::Rejected | SendClass::Unrecognised => Some(Obstacle::Rejected),
        SendClass::Accepted
        | SendClass::Known
        | SendClass::NonceTooLow
        | SendClass::NonceTooHigh
        | SendClass::ReadOnly
        | SendClass::Transient => None,
    }
}

/// Whether an endpoint has ever taken one of a transaction's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EverTaken {
    /// Every endpoint that was ever asked has refused.
    Never,
    /// An answer was lost, or another process may have sent it.
    Perhaps,
    /// One has.
    Yes,
}

/// What is known of one endpoint before a transaction is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) voice: Voice,
    /// How often in a row it has refused for good.
    pub(crate) rejections: u32,
    /// It has taken one of the attempts.
    pub(crate) took: bool,
    /// Whether it knows one of the attempts now; `None` if it does not say.
    pub(crate) knows: Option<bool>,
}

/// Why a transaction is not given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// An endpoint knows one of its attempts.
    IsKnown,
    /// Not everybody who has a say refuses it for good, or not often enough.
    NotRefusedByAll,
    /// It may have been taken, and is refused in words that nobody knows.
    UnknownWords,
    /// It may have been taken, and nobody who may have it says that it is gone.
    MayBeThere,
}

/// Whether a transaction is given up: an empty one takes its nonce, and it can never be mined.
///
/// Bytes that nobody took are given up once everybody who has a say has refused them often enough,
/// in whatever words. Bytes that somebody may have taken are given up only if the words are known to
/// be final, no endpoint knows them, and one that took them says that it no longer does; where it is
/// not on record who took them, all who have a say must say so. In any case as many endpoints refuse
/// as have to agree on the chain, those aside that take no transactions at all: the others being away
/// makes nobody's word the last.
///
/// Whoever says otherwise, or says that it has them, is outvoted by the larger part of all endpoints,
/// a quorum at least: each of them refuses often enough in words that are known to be final, and says
/// that it does not know them.
pub(crate) fn give_up(
    evidence: &[Evidence],
    ever_taken: EverTaken,
    required: usize,
) -> Result<(), Keep> {
    let refuses = |one: &Evidence| refuses(one.voice, one.rejections);
    let gone = |one: &Evidence| one.knows == Some(false);
    let is_final =
        |one: &Evidence| refuses(one) && one.voice == Voice::Said(SendClass::Rejected) && gone(one);
    let against = evidence.iter().filter(|one| is_final(one)).count();
    if against * 2 > evidence.len() && against >= required {
        return Ok(());
    }
    if evidence.iter().any(|one| one.knows == Some(true)) {
        return Err(Keep::IsKnown);
    }
    let has_no_say = |one: &Evidence| matches!(one.voice, Voice::ReadOnly | Voice::Silent);
    let takers = evidence.iter().filter(|one| one.voice != Voice::ReadOnly).count();
    let enough = evidence.iter().filter(|one| refuses(one)).count() >= required.min(takers).max(1);
    if evidence.iter().any(|one| one.voice == Voice::Unsure) {
        return Err(Keep::UnknownWords);
    }
    if !enough || !evidence.iter().all(|one| refuses(one) || has_no_say(one)) {
        return Err(Keep::NotRefusedByAll);
    }
    if ever_taken == EverTaken::Never {
        return Ok(());
    }
    if evidence.iter().any(|one| one.voice == Voice::Said(SendClass::Unrecognised)) {
        return Err(Keep::UnknownWords);
    }
    let is_gone = if evidence.iter().any(|one| one.took) {
        evidence.iter().any(|one| one.took && gone(one))
    } else {
        evidence.iter().filter(|one| !has_no_say(one)).all(gone)
    };
    if is_gone { Ok(()) } else { Err(Keep::MayBeThere) }
}

#[cfg(test)]
mod tests {
    use SendClass::*;
    use Voice::{Awaited, Barred, Paused, Said, Silent, Unsure};

    use super::*;

    const READ_ONLY: Voice = Voice::ReadOnly;

    fn said(class: SendClass) -> EndpointSaid {
        EndpointSaid {
            endpoint: "node:8545".to_owned(),
            class,
            text: String::new(),
            answer_lost: false,
            stands_still: false,
            own_rule: false,
        }
    }

    #[test]
    fn hole_42_one_endpoint_of_two_is_not_most_of_them() {
        type Case<'a> = (&'a [Option<SendClass>], usize, bool);
        let cases: [Case<'_>; 8] = [
            (&[Some(Underpriced)], 1, true),
            (&[Some(Underpriced)], 2, false),
            (&[Some(Underpriced), None], 2, false),
            (&[Some(Underpriced), Some(InsufficientFunds)], 2, false),
            (&[Some(Underpriced), Some(ReplacementUnderpriced)], 2, true),
            (&[Some(Underpriced), Some(Accepted)], 2, false),
            (&[Some(Underpriced), None, Some(Underpriced)], 3, true),
            (&[Some(Underpriced), Some(NonceTooHigh), Some(NonceTooHigh)], 3, false),
        ];
        for (classes, configured, most) in cases {
            let mut deliveries = Deliveries::default();
            for (place, class) in classes.iter().enumerate() {
                match class {
                    Some(class) => deliveries.at(place).hear(&said(*class), false),
                    None => {
                        let away = NotAsked::NotInUse("is away".to_owned());
                        deliveries.at(place).pass_over("node:8545", &away);
                    }
                }
            }
            let found = deliveries.is_underpriced_to_most(configured);
            assert_eq!(found, most, "{classes:?} of {configured}");
        }
        let mut late = Deliveries::default();
        late.at(0).hear(&EndpointSaid { stands_still: true, ..said(Underpriced) }, false);
        assert!(!late.is_underpriced_to_most(1), "it judges by a state of long ago");
    }

    #[test]
    fn hole_25_no_endpoint_hides_what_the_others_say() {
        for (voices, expected) in [
            (vec![], Verdict::Nobody),
            (vec![READ_ONLY, Silent], Verdict::Nobody),
            (vec![Said(Accepted), Said(Rejected), Awaited], Verdict::Taken),
            (vec![Said(Known), READ_ONLY], Verdict::Taken),
            // One that may yet take it is waited for, and one that takes none is not.
            (vec![Said(Rejected), Awaited], Verdict::Undecided),
            (vec![Said(Rejected), READ_ONLY], Verdict::Refused(Rejected)),
            (vec![Said(Rejected), Silent], Verdict::Refused(Rejected)),
            (vec![Said(Unrecognised), READ_ONLY], Verdict::Refused(Unrecognised)),
            // A pause ends: nothing is given up meanwhile, and all else goes on.
            (vec![Said(Rejected), Paused], Verdict::Undecided),
            (vec![Said(Unrecognised), Paused], Verdict::Undecided),
            (vec![Said(Underpriced), Paused], Verdict::Refused(Underpriced)),
            (vec![Paused, READ_ONLY], Verdict::Undecided),
            // What can be mended soonest, where none outvotes the other.
            (vec![Said(Rejected), Said(Underpriced)], Verdict::Refused(Underpriced)),
            (vec![Said(InsufficientFunds), Said(Underpriced)], Verdict::Refused(Underpriced)),
            (vec![Said(Rejected), Said(InsufficientFunds)], Verdict::Refused(InsufficientFunds)),
            (vec![Said(Rejected), Said(Unrecognised)], Verdict::Refused(Unrecognised)),
            (vec![Said(Rejected), Unsure], Verdict::Undecided),
            (vec![Said(Underpriced), Unsure], Verdict::Undecided),
        ] {
            assert_eq!(verdict(&voices), expected, "{voices:?}");
        }
    }

    #[test]
    fn hole_25_the_larger_part_is_heard_whatever_one_says() {
        for (voices, expected) in [
            // Words about other nonces are no word about this transaction.
            (vec![Underpriced, Underpriced, NonceTooLow], Underpriced),
            (vec![NonceTooLow, Rejected, Rejected], Rejected),
            (vec![Rejected, NonceTooHigh, Rejected], Rejected),
            (vec![NonceTooLow, Underpriced], Underpriced),
            (vec![NonceTooLow, NonceTooHigh], NonceTooLow),
            // One against two.
            (vec![InsufficientFunds, Underpriced, Underpriced], Underpriced),
            (vec![InsufficientFunds, Underpriced, ReplacementUnderpriced], Underpriced),
            (vec![Underpriced, InsufficientFunds, InsufficientFunds], InsufficientFunds),
            (vec![Underpriced, Rejected, Rejected], Rejected),
            (vec![Rejected, ReplacementUnderpriced, Underpriced], Underpriced),
            (vec![Rejected, InsufficientFunds, Underpriced], Underpriced),
            // Words that nobody knows may mean what another one says in known ones.
            (vec![Unrecognised, Unrecognised, Underpriced], Underpriced),
            (vec![Unrecognised, Unrecognised, NonceTooHigh], NonceTooHigh),
            (vec![Unrecognised, Rejected, Rejected], Unrecognised),
        ] {
            let said: Vec<Voice> = voices.iter().copied().map(Said).collect();
            assert_eq!(verdict(&said), Verdict::Refused(expected), "{voices:?}");
        }
        for (third, class, expected) in [
            // Neither a pause that never ends nor words that mean nothing hide what two say.
            (Paused, Rejected, Verdict::Refused(Rejected)),
            (Paused, Unrecognised, Verdict::Undecided),
            (Unsure, Rejected, Verdict::Refused(Rejected)),
            (Unsure, Underpriced, Verdict::Refused(Underpriced)),
            (Unsure, InsufficientFunds, Verdict::Refused(InsufficientFunds)),
            (Awaited, Rejected, Verdict::Undecided),
            (Said(Accepted), Rejected, Verdict::Taken),
            (Barred, Rejected, Verdict::Refused(Unrecognised)),
        ] {
            assert_eq!(
                verdict(&[Said(class), Said(class), third]),
                expected,
                "{third:?} {class:?}"
            );
        }
    }

    /// A node that is set to take no dear transactions, and others that are not.
    #[test]
    fn hole_25_a_rule_of_its_own_outvotes_nobody() {
        let mut delivery = Delivery::default();
        delivery.hear(&EndpointSaid { own_rule: true, ..said(Rejected) }, true);
        assert_eq!(delivery.voice(), Barred);
        for (voices, expected) in [
            (vec![Barred, Barred, Said(Underpriced)], Verdict::Refused(Underpriced)),
            (vec![Barred, Barred, Paused], Verdict::Undecided),
            (vec![Barred, Barred, Said(Accepted)], Verdict::Taken),
            (vec![Barred], Verdict::Refused(Unrecognised)),
        ] {
            assert_eq!(verdict(&voices), expected, "{voices:?}");
        }
        let barred = evidence(Barred, 3, false, Some(false));
        let has = evidence(Said(Known), 0, true, Some(true));
        let away = evidence(Silent, 0, true, None);
        for (all, expected) in [
            (vec![barred, barred, has], Err(Keep::IsKnown)),
            (vec![barred, barred, away], Err(Keep::MayBeThere)),
            (vec![barred, barred, Evidence { took: true, ..barred }], Ok(())),
        ] {
            assert_eq!(give_up(&all, EverTaken::Yes, 2), expected, "{all:#?}");
        }
    }

    /// What one says that has stood still for long is worth nothing, unless it takes the transaction.
    #[test]
    fn hole_25_one_that_stands_still_refuses_nothing() {
        for (class, expected) in [
            (InsufficientFunds, Silent),
            (Rejected, Silent),
            (NonceTooLow, Silent),
            (ReadOnly, READ_ONLY),
            (Accepted, Said(Accepted)),
        ] {
            let mut delivery = Delivery::default();
            delivery.hear(&EndpointSaid { stands_still: true, ..said(class) }, false);
            assert_eq!(delivery.voice(), expected, "{class:?}");
        }
    }

    /// Fails if one that takes everything keeps what the others refuse for good.
    #[test]
    fn hole_25_rejections_are_counted_although_one_took_it_and_offered_more_or_not() {
        let mut deliveries = Deliveries::default();
        let hear = |deliveries: &mut Deliveries, classes: [SendClass; 3]| {
            for (place, class) in classes.into_iter().enumerate() {
                deliveries.begin(place);
                deliveries.at(place).hear(&said(class), true);
                deliveries.at(place).queued = false;
            }
            (deliveries.is_outvoted(), deliveries.is_rejected())
        };
        assert_eq!(hear(&mut deliveries, [Rejected, Rejected, Accepted]), (false, false));
        assert_eq!(hear(&mut deliveries, [Rejected, Rejected, Known]), (false, false));
        deliveries.offer_more();
        assert_eq!(hear(&mut deliveries, [Rejected, Rejected, Accepted]), (true, true));
        assert_eq!(hear(&mut deliveries, [Underpriced, Rejected, Accepted]), (false, false));
        for _ in 0..3 {
            hear(&mut deliveries, [Rejected, Rejected, NonceTooLow]);
        }
        assert_eq!(hear(&mut deliveries, [Rejected, Rejected, NonceTooLow]), (true, true));
        deliveries.renew();
        assert_eq!(hear(&mut deliveries, [Rejected, Rejected, NonceTooLow]), (false, false));
    }

    #[test]
    fn hole_25_an_endpoint_that_fails_for_long_has_no_say_until_it_answers() {
        let mut delivery = Delivery::default();
        for (expected, pause_ms) in [
            (Awaited, 500),
            (Awaited, 1000),
            (Awaited, 2000),
            (Awaited, 4000),
            (Silent, 8000),
            (Silent, 8000),
        ] {
            delivery.hear(&said(Transient), false);
            assert_eq!(delivery.voice(), expected);
            assert_eq!(delivery.pause(), Duration::from_millis(pause_ms));
        }
        delivery.hear(&said(Underpriced), false);
        assert_eq!(delivery.voice(), Said(Underpriced));
        delivery.hear(&said(Transient), false);
        assert_eq!(delivery.voice(), Awaited);
    }

    #[test]
    fn hole_22_unknown_words_about_a_repeat_are_no_verdict() {
        let mut delivery = Delivery::default();
        delivery.hear(&said(Unrecognised), false);
        assert_eq!(delivery.voice(), Said(Unrecognised), "nobody has taken it");
        delivery.hear(&said(Unrecognised), true);
        assert_eq!(delivery.voice(), Unsure);
        delivery.hear(&said(Rejected), true);
        assert_eq!(delivery.voice(), Said(Rejected), "words that everybody knows");
    }

    fn evidence(voice: Voice, rejections: u32, took: bool, knows: Option<bool>) -> Evidence {
        Evidence { voice, rejections, took, knows }
    }

    #[test]
    fn hole_22_what_was_once_taken_is_given_up_only_once_it_is_gone_for_good() {
        use EverTaken::{Never, Perhaps, Yes};
        let refused = evidence(Said(Rejected), 3, false, None);
        let strange = evidence(Said(Unrecognised), 3, false, None);
        let gone = Evidence { knows: Some(false), ..refused };
        let took_and_lost = Evidence { took: true, ..gone };
        let took_and_has = Evidence { took: true, knows: Some(true), ..refused };
        let took_and_is_away = evidence(Silent, 0, true, None);
        let read_only = evidence(READ_ONLY, 0, false, Some(false));
        for (all, ever_taken, expected) in [
            // Nobody has taken it: whatever the words are.
            (vec![refused], Never, Ok(())),
            (vec![strange], Never, Ok(())),
            (vec![refused, strange], Never, Ok(())),
            (vec![refused, read_only], Never, Ok(())),
            (vec![refused, evidence(Silent, 0, false, None)], Never, Ok(())),
            (vec![Evidence { rejections: 2, ..refused }], Never, Err(Keep::NotRefusedByAll)),
            (vec![refused, evidence(Awaited, 0, false, None)], Never, Err(Keep::NotRefusedByAll)),
            (vec![refused, evidence(Paused, 0, false, None)], Never, Err(Keep::NotRefusedByAll)),
            (
                vec![refused, evidence(Said(Underpriced), 0, false, None)],
                Never,
                Err(Keep::NotRefusedByAll),
            ),
            // Nobody takes transactions at all.
            (vec![read_only], Never, Err(Keep::NotRefusedByAll)),
            (vec![], Never, Err(Keep::NotRefusedByAll)),
            // It is there after all.
            (vec![refused, took_and_has], Never, Err(Keep::IsKnown)),
            (vec![refused, took_and_has], Yes, Err(Keep::IsKnown)),
            // It was taken, and whoever took it has lost it.
            (vec![took_and_lost], Yes, Ok(())),
            (vec![took_and_lost, refused, read_only], Yes, Ok(())),
            (vec![Evidence { took: true, ..refused }], Yes, Err(Keep::MayBeThere)),
            (vec![gone, took_and_is_away], Yes, Err(Keep::MayBeThere)),
            (
                vec![Evidence { voice: Said(Unrecognised), ..took_and_lost }],
                Yes,
                Err(Keep::UnknownWords),
            ),
            (vec![Evidence { voice: Unsure, ..took_and_lost }], Yes, Err(Keep::UnknownWords)),
            // It may have been taken, nobody knows by whom: all must say that it is gone.
            (vec![gone, gone, read_only], Perhaps, Ok(())),
            (vec![gone, gone], Yes, Ok(())),
            (vec![gone, refused], Perhaps, Err(Keep::MayBeThere)),
            (vec![strange], Perhaps, Err(Keep::UnknownWords)),
        ] {
            assert_eq!(give_up(&all, ever_taken, 1), expected, "{ever_taken:?}: {all:#?}");
        }
    }

    /// Fails if one endpoint's word keeps what the larger part refuse for good, or if less than that
    /// gives up what one has.
    #[test]
    fn hole_22_the_larger_part_of_all_outvotes_whoever_says_that_it_has_it() {
        let refused = evidence(Said(Rejected), 3, false, Some(false));
        let strange = evidence(Said(Unrecognised), 3, false, Some(false));
        let has = evidence(Said(Known), 0, true, Some(true));
        let away = evidence(Silent, 0, true, None);
        for (all, required, expected) in [
            (vec![refused, refused, has], 2, Ok(())),
            (vec![refused, refused, away], 2, Ok(())),
            (vec![refused, refused, evidence(Unsure, 5, true, Some(true))], 2, Ok(())),
            (vec![refused, refused, evidence(Said(NonceTooLow), 0, false, Some(true))], 2, Ok(())),
            (vec![refused, refused, evidence(Said(Underpriced), 0, false, None)], 2, Ok(())),
            (vec![refused, refused, evidence(Paused, 0, false, None)], 2, Ok(())),
            // Not often enough, not in words that are known, or by one that has it itself.
            (vec![refused, Evidence { rejections: 2, ..refused }, has], 2, Err(Keep::IsKnown)),
            (vec![refused, strange, has], 2, Err(Keep::IsKnown)),
            (vec![refused, Evidence { knows: Some(true), ..refused }, has], 2, Err(Keep::IsKnown)),
            (vec![refused, Evidence { knows: None, ..refused }, has], 2, Err(Keep::IsKnown)),
            // Fewer than the larger part, or than a quorum.
            (vec![refused, has], 1, Err(Keep::IsKnown)),
            (
                vec![refused, evidence(Said(NonceTooHigh), 0, false, Some(false))],
                1,
                Err(Keep::NotRefusedByAll),
            ),
            (vec![refused, refused, has, has], 3, Err(Keep::IsKnown)),
            (vec![refused, refused, has], 3, Err(Keep::IsKnown)),
            (vec![refused, refused, refused, has, has], 3, Ok(())),
        ] {
            assert_eq!(give_up(&all, EverTaken::Yes, required), expected, "{required}: {all:#?}");
        }
    }

    #[test]
    fn hole_25_while_nobody_takes_it_everybody_is_asked_again() {
        for (voices, expected) in [
            (vec![READ_ONLY], true),
            (vec![READ_ONLY, Silent, READ_ONLY], true),
            (vec![READ_ONLY, Awaited], false),
            (vec![READ_ONLY, Said(Rejected)], false),
        ] {
            assert_eq!(nobody_takes(voices.iter().copied()), expected, "{voices:?}");
        }
    }

    /// Where several have to agree, the others being away makes nobody's word the last.
    #[test]
    fn hole_25_a_transaction_is_given_up_by_as_many_as_have_to_agree() {
        let refused = evidence(Said(Rejected), 3, false, None);
        let away = evidence(Silent, 0, false, None);
        let read_only = evidence(READ_ONLY, 0, false, None);
        for (all, required, expected) in [
            (vec![refused, away, away], 2, Err(Keep::NotRefusedByAll)),
            (vec![refused, refused, away], 2, Ok(())),
            (vec![refused, read_only, read_only], 2, Ok(())),
            (vec![refused, away, read_only], 2, Err(Keep::NotRefusedByAll)),
            (vec![refused, away], 1, Ok(())),
        ] {
            assert_eq!(give_up(&all, EverTaken::Never, required), expected, "{required}: {all:#?}");
        }
    }
}
