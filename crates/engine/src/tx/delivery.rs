//! What each endpoint makes of a transaction, and what all of them together come to.
//!
//! Everything here is decided from what it is given: nothing is asked and no clock is read.

use std::time::{Duration, Instant};

use stile_chain::{EndpointSaid, NotAsked, SendClass};

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
    /// It is set aside, or had no answer for long.
    Silent,
    /// It takes no transactions.
    ReadOnly,
    /// It refuses, in words that nobody knows, what may have been taken before. That means nothing.
    Unsure,
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
            SendClass::Unrecognised if may_be_taken => Voice::Unsure,
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
        for delivery in &mut self.0 {
            delivery.again = None;
            delivery.voice = Voice::Awaited;
            delivery.words = None;
            (delivery.refusals, delivery.rejections) = (0, 0);
        }
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
        let low =
            |class| matches!(class, SendClass::Underpriced | SendClass::ReplacementUnderpriced);
        self.words().iter().any(|said| low(said.class))
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

    /// Whether all who refuse it have done so for good often enough to be believed.
    pub(crate) fn is_rejected(&self) -> bool {
        let mut refuse = self.0.iter().filter(|one| matches!(one.voice, Voice::Said(_))).peekable();
        refuse.peek().is_some() && refuse.all(|one| one.rejections >= REJECTIONS)
    }
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
    /// All who have a say refuse; this is the answer that says most.
    Refused(SendClass),
    /// Nobody has a say.
    Nobody,
}

/// What endpoints say to one transaction, taken together. Those that take no transactions and those
/// that are silent have no say, so that one of them never hides what the others mean.
pub(crate) fn verdict(voices: &[Voice]) -> Verdict {
    let said = voices.iter().filter_map(|voice| match voice {
        Voice::Said(class) => Some(*class),
        _ => None,
    });
    let said: Vec<SendClass> = said.collect();
    if said.iter().any(|class| class.is_taken()) {
        return Verdict::Taken;
    }
    if voices.iter().any(|voice| matches!(voice, Voice::Awaited | Voice::Unsure)) {
        return Verdict::Undecided;
    }
    if said.is_empty() {
        return if voices.contains(&Voice::Paused) { Verdict::Undecided } else { Verdict::Nobody };
    }
    let class = SendClass::of_all(said);
    let for_good = matches!(class, SendClass::Rejected | SendClass::Unrecognised);
    match class {
        // Whoever is paused answers before long, and may take it.
        _ if for_good && voices.contains(&Voice::Paused) => Verdict::Undecided,
        class => Verdict::Refused(class),
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
pub(crate) fn give_up(
    evidence: &[Evidence],
    ever_taken: EverTaken,
    required: usize,
) -> Result<(), Keep> {
    if evidence.iter().any(|one| one.knows == Some(true)) {
        return Err(Keep::IsKnown);
    }
    let refuses = |one: &Evidence| match one.voice {
        Voice::Said(SendClass::Rejected | SendClass::Unrecognised) => one.rejections >= REJECTIONS,
        _ => false,
    };
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
    let gone = |one: &Evidence| one.knows == Some(false);
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
    use Voice::{Awaited, Paused, Said, Silent, Unsure};

    use super::*;

    const READ_ONLY: Voice = Voice::ReadOnly;

    fn said(class: SendClass) -> EndpointSaid {
        EndpointSaid {
            endpoint: "node:8545".to_owned(),
            class,
            text: String::new(),
            answer_lost: false,
        }
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
            // The answer that says most.
            (vec![Said(Rejected), Said(Underpriced)], Verdict::Refused(Underpriced)),
            (vec![Said(Rejected), Said(NonceTooHigh)], Verdict::Refused(NonceTooHigh)),
            (vec![Said(Rejected), Said(Unrecognised)], Verdict::Refused(Unrecognised)),
            (vec![Said(Rejected), Unsure], Verdict::Undecided),
        ] {
            assert_eq!(verdict(&voices), expected, "{voices:?}");
        }
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
