//! Who says what became of what a restore has left open. A person looks at what waits and says of each
//! transaction whether it was sent, which the wire and the histories that were lost tell; or, where
//! nothing of a lane can have been sent that the chain does not show, of the whole lane. And of nonces
//! whose callers had given them back in a history that was lost, which nobody else will say again.
//!
//! While faults go on, only what was certainly never sent is said, so that lanes are in use again when
//! the next restore comes. No word is said while the database goes back: it would be about a history
//! that is no more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::stage::Stage;
use super::{HOLD_LANE, QUIET_LANE};
use crate::evidence::{Attempt, Own, Tx};

/// The `subState` of what waits.
const WAITS: &str = "RESTORED";

/// How long bytes of a lost history that wait for a block are left to be mined before the person says
/// that they were sent: it need not say it then.
const UNTIL_MINED: Duration = Duration::from_secs(15);

/// How long the person speaks without a pause: whoever restores the database waits for it.
const BREATH: Duration = Duration::from_secs(3);

/// Words that are said at one time.
const AT_ONCE: usize = 8;

/// What a person may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    NeverSent,
    WasSent,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::NeverSent => "never-sent",
            Self::WasSent => "was-sent",
        }
    }
}

/// Answers whatever is asked, until it is stopped.
pub(super) async fn answer(stage: Arc<Stage>) {
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build();
    let client = client.expect("build an HTTP client");
    let mut over_since = None;
    loop {
        if stage.is_over() {
            over_since.get_or_insert_with(Instant::now);
        }
        let patience = match over_since {
            None => Patience::FaultsGoOn,
            Some(since) if since.elapsed() <= UNTIL_MINED => Patience::UntilMined,
            Some(_) => Patience::Over,
        };
        speak(&stage, &client, patience).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// For what the person waits before it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// For the end of all faults, with what may have been sent.
    FaultsGoOn,
    /// For a block with what waits for one.
    UntilMined,
    /// For nothing.
    Over,
}

/// Looks at what waits and says what is known of it, all in one history of the database.
async fn speak(stage: &Stage, client: &reqwest::Client, patience: Patience) {
    let _same_history = stage.history.read().await;
    let Ok(txs) = stage.witness.txs().await else { return };
    let mut words = words(stage, &txs, patience).await;
    words.extend(unused_nonces(stage, patience).await);
    // Of hundreds that wait each needs a word, and nobody else waits for the last one to be said.
    stage.diary.unsaid.store(words.len(), Ordering::Release);
    let began = Instant::now();
    futures::stream::iter(&words)
        .for_each_concurrent(AT_ONCE, async |word| {
            if patience != Patience::FaultsGoOn || began.elapsed() <= BREATH {
                say(stage, client, word).await;
            }
        })
        .await;
}

/// What is said, and about what.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    path: String,
    body: Value,
    /// The transaction that is closed by it.
    closes: Option<String>,
}

impl Word {
    fn new(path: String, verdict: Verdict) -> Self {
        Self { path, body: json!({ "verdict": verdict.name() }), closes: None }
    }
}

/// Nonces that nobody will use: of callers who have nothing in mind with them, once all of them have had
/// their last word, and of lost histories that had not sent anything at them, or of whose bytes nothing
/// is left.
async fn unused_nonces(stage: &Stage, patience: Patience) -> Vec<Word> {
    let rows = stage.witness.nonces().await.unwrap_or_default();
    let lost = lost_nonces(stage);
    let own = stage.diary.own.lock().unwrap().clone();
    let mut words = Vec::new();
    for row in rows.iter().filter(|row| row.owner_kind == "hold" && row.status == "SUSPECT") {
        let lane = stage.lanes.iter().position(|lane| *lane == row.signer);
        let of_callers = matches!(lane, Some(HOLD_LANE | QUIET_LANE));
        let attempts = lost.get(&(row.signer.clone(), row.nonce)).map_or(&[][..], Vec::as_slice);
        let mut is_there = false;
        let own: Vec<&Own> =
            own.iter().filter(|own| own.signer == row.signer && own.nonce == row.nonce).collect();
        let sent = attempts.iter().filter(|attempt| attempt.was_sent).map(|attempt| &attempt.hash);
        for hash in sent.chain(own.iter().map(|own| &own.hash)) {
            is_there |= stage.chain.waits(hash).await || stage.chain.is_mined(hash).await;
        }
        // A caller sends again what it has signed. An outsider does not.
        let is_kept = own.iter().any(|own| own.hold_id.is_some());
        let is_known = match patience {
            Patience::FaultsGoOn => !of_callers && attempts.is_empty() && own.is_empty(),
            Patience::UntilMined => {
                !of_callers && !attempts.iter().any(|it| it.was_sent) && own.is_empty()
            }
            Patience::Over => !is_there,
        };
        if is_known && !is_kept {
            words.push(Word {
                path: format!("/api/v1/nonces/{}/{}/recyclable", row.signer, row.nonce),
                body: json!({ "holdId": row.owner_id, "reason": "never used" }),
                closes: None,
            });
        }
    }
    words
}

/// Nonces at which lost histories had signed something, each with its attempts.
fn lost_nonces(stage: &Stage) -> BTreeMap<(String, u64), Vec<LostAttempt>> {
    let lost = stage.diary.lost.lock().unwrap();
    let wire = stage.diary.wire.lock().unwrap();
    let sent: BTreeSet<&str> = wire.iter().map(|sent| sent.hash.as_str()).collect();
    let txs: BTreeMap<&str, &Tx> = lost.txs.iter().map(|tx| (tx.id.as_str(), tx)).collect();
    let mut found: BTreeMap<(String, u64), Vec<LostAttempt>> = BTreeMap::new();
    for attempt in &lost.attempts {
        if let Some((tx, nonce)) = txs.get(&*attempt.tx_id).and_then(|tx| Some((tx, tx.nonce?))) {
            let hash = attempt.hash.clone();
            let was_sent = sent.contains(hash.as_str());
            let of_nonce = found.entry((tx.signer.clone(), nonce)).or_default();
            of_nonce.push(LostAttempt { hash, was_sent });
        }
    }
    found
}

async fn words(stage: &Stage, txs: &[Tx], patience: Patience) -> Vec<Word> {
    let lost = lost_payloads(stage);
    let open = stage.witness.restored_lanes().await.unwrap_or_default();
    let none = Vec::new();
    let mut words = Vec::new();
    for (number, signer) in stage.lanes.iter().enumerate() {
        let of_lane = || txs.iter().filter(|tx| tx.signer == *signer);
        let unbound: Vec<&Tx> = of_lane().filter(|tx| tx.state == "CREATED").collect();
        let waiting = unbound.iter().filter(|tx| tx.sub_state.as_deref() == Some(WAITS));
        let waiting: Vec<&&Tx> = waiting.collect();
        if waiting.is_empty() {
            // Nothing waits and nothing more comes: the restore is over. Before that is said, no gap
            // is filled on this lane.
            if patience == Patience::Over && unbound.is_empty() && open.contains(signer) {
                let path = format!("/api/v1/signers/{signer}/restored");
                words.push(Word::new(path, Verdict::NeverSent));
            }
            continue;
        }
        // The word about a lane is about all that has no nonce there, whether it is known to wait or
        // not, and about what is asked for again later.
        let lost_of_lane = lost.iter().filter(|((of, _), _)| of == signer);
        let may_be_asked_for = lost_of_lane
            .filter(|((_, wei), _)| !of_lane().any(|tx| tx.wei == *wei && tx.state != "CREATED"));
        let mut is_clear = unbound.iter().all(|tx| !lost.contains_key(&tx.payload()));
        for (_, attempts) in may_be_asked_for {
            is_clear = is_clear && stage.any_mined(attempts).await;
        }
        if is_clear && number % 2 == 1 {
            let path = format!("/api/v1/signers/{signer}/restored");
            words.push(Word::new(path, Verdict::NeverSent));
            continue;
        }
        for tx in waiting {
            let attempts = lost.get(&tx.payload()).unwrap_or(&none);
            if patience == Patience::FaultsGoOn && !attempts.is_empty() {
                continue;
            }
            let mut may_be_mined = false;
            for attempt in attempts.iter().filter(|attempt| attempt.was_sent) {
                let hash = &attempt.hash;
                may_be_mined |= stage.chain.waits(hash).await || stage.chain.is_mined(hash).await;
            }
            if may_be_mined && patience != Patience::Over {
                continue;
            }
            let was_sent = attempts.iter().any(|attempt| attempt.was_sent);
            let verdict = if was_sent { Verdict::WasSent } else { Verdict::NeverSent };
            let path = format!("/api/v1/tx/{}/restored", tx.id);
            let closes = was_sent.then(|| tx.id.clone());
            words.push(Word { closes, ..Word::new(path, verdict) });
        }
    }
    words
}

/// Bytes that a lost history had signed, and whether anybody sent them.
#[derive(Debug, PartialEq, Eq)]
struct LostAttempt {
    hash: String,
    was_sent: bool,
}

impl Stage {
    async fn any_mined(&self, attempts: &[LostAttempt]) -> bool {
        for attempt in attempts {
            if self.chain.is_mined(&attempt.hash).await {
                return true;
            }
        }
        false
    }
}

/// By account and amount.
type Payload = (String, String);

impl Tx {
    fn payload(&self) -> Payload {
        (self.signer.clone(), self.wei.clone())
    }
}

/// Payloads that lost histories had signed, each with its attempts.
fn lost_payloads(stage: &Stage) -> BTreeMap<Payload, Vec<LostAttempt>> {
    let lost = stage.diary.lost.lock().unwrap();
    let wire = stage.diary.wire.lock().unwrap();
    let sent: BTreeSet<&str> = wire.iter().map(|sent| sent.hash.as_str()).collect();
    payloads(&lost.txs, &lost.attempts, &sent)
}

fn payloads(
    txs: &[Tx],
    attempts: &[Attempt],
    sent: &BTreeSet<&str>,
) -> BTreeMap<Payload, Vec<LostAttempt>> {
    let txs: BTreeMap<&str, &Tx> = txs.iter().map(|tx| (tx.id.as_str(), tx)).collect();
    let mut found: BTreeMap<Payload, Vec<LostAttempt>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.carries_payload()) {
        if let Some(tx) = txs.get(attempt.tx_id.as_str()) {
            let hash = attempt.hash.clone();
            let was_sent = sent.contains(hash.as_str());
            found.entry(tx.payload()).or_default().push(LostAttempt { hash, was_sent });
        }
    }
    found
}

/// Says it to one node after the other, until one takes it.
async fn say(stage: &Stage, client: &reqwest::Client, word: &Word) {
    // Before it is said: an answer that gets lost does not undo it.
    stage.diary.closed.lock().unwrap().extend(word.closes.clone());
    for node in &stage.nodes {
        let url = format!("{}{}", node.url, word.path);
        let Ok(answer) = client.post(url).json(&word.body).send().await else { continue };
        let status = answer.status();
        if status.is_success() {
            *stage.diary.words.lock().unwrap() += 1;
            return;
        }
        let said = answer.text().await.unwrap_or_default();
        eprintln!("{} {} was answered with {status}: {said}", word.path, word.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(id: &str, wei: &str) -> Tx {
        Tx {
            id: id.to_owned(),
            tenant: String::new(),
            signer: "0xlane".to_owned(),
            request_id: None,
            wei: wei.to_owned(),
            nonce: None,
            state: "CREATED".to_owned(),
            sub_state: Some(WAITS.to_owned()),
            tx_hash: None,
            block_number: None,
            block_hash: None,
            finality: "3".to_owned(),
            events: 1,
            created_at: 0,
        }
    }

    fn attempt(tx_id: &str, kind: &str, hash: &str) -> Attempt {
        Attempt {
            tx_id: tx_id.to_owned(),
            number: 1,
            kind: kind.to_owned(),
            hash: hash.to_owned(),
            token: 1,
            created_at: 0,
        }
    }

    #[test]
    fn only_what_was_on_the_wire_and_pays_was_sent() {
        let txs = [tx("a", "1"), tx("b", "2"), tx("c", "3")];
        let attempts = [
            attempt("a", "SEND", "0xa"),
            attempt("b", "SEND", "0xb"),
            attempt("c", "CANCEL", "0xc"),
        ];
        let found = payloads(&txs, &attempts, &BTreeSet::from(["0xa", "0xc"]));
        let lost = |hash: &str, was_sent| vec![LostAttempt { hash: hash.to_owned(), was_sent }];
        let payload = |wei: &str| ("0xlane".to_owned(), wei.to_owned());
        let expected = [(payload("1"), lost("0xa", true)), (payload("2"), lost("0xb", false))];
        assert_eq!(found, BTreeMap::from(expected));
    }
}
