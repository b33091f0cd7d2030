//! What became of each nonce.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stile_domain::v1::hold_id;
use stile_domain::v1::import::{Became, LaneImport};
use stile_domain::{HoldStatus, Lane};

use crate::cli::table::{self, cell, text};

/// How it ended for a signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Imported,
    ImportedBefore,
    WouldImport,
    NotMapped,
    Failed,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::ImportedBefore => "imported before",
            Self::WouldImport => "would be imported",
            Self::NotMapped => "not mapped",
            Self::Failed => "failed",
        }
    }
}

/// What is told of a signer.
#[derive(Debug)]
pub(super) struct SignerReport {
    pub(super) signer: String,
    pub(super) outcome: Outcome,
    lane: Option<Lane>,
    why: Option<String>,
    data: Value,
}

impl SignerReport {
    pub(super) fn new(signer: &str) -> Self {
        let (signer, outcome) = (signer.to_owned(), Outcome::Failed);
        Self { signer, outcome, lane: None, why: None, data: Value::Null }
    }

    pub(super) fn of(self, lane: Lane) -> Self {
        Self { lane: Some(lane), ..self }
    }

    pub(super) fn unmapped(self, why: &str) -> Self {
        Self { outcome: Outcome::NotMapped, why: Some(why.to_owned()), ..self }
    }

    pub(super) fn failed(self, why: &str) -> Self {
        Self { outcome: Outcome::Failed, why: Some(why.to_owned()), ..self }
    }

    pub(super) fn moved(self, data: Value) -> Self {
        Self { outcome: Outcome::Imported, data, ..self }
    }

    pub(super) fn moved_before(self, data: Value) -> Self {
        Self { outcome: Outcome::ImportedBefore, data, ..self }
    }

    pub(super) fn would_move(self, data: Value) -> Self {
        Self { outcome: Outcome::WouldImport, data, ..self }
    }

    fn json(&self) -> Value {
        let lane = self.lane.as_ref();
        let mut json = json!({
            "signer": self.signer,
            "address": lane.map(|lane| lane.signer.to_string()),
            "chainId": lane.map(|lane| lane.chain.get()),
            "chainIdText": lane.map(|lane| lane.chain.to_string()),
            "outcome": self.outcome.name(),
            "why": self.why,
        });
        if let (Some(json), Some(data)) = (json.as_object_mut(), self.data.as_object()) {
            json.extend(data.clone());
        }
        // A history needs no more than the nonces.
        if let (Some(lane), Some(concerns)) = (self.lane, json["needsAPerson"].as_array_mut()) {
            for concern in concerns {
                let nonce = concern["nonce"].as_u64().unwrap_or_default();
                concern["holdId"] = json!(hold_id(lane, nonce));
            }
        }
        json
    }
}

/// What is kept of an import: in the lane's history, and in V1's database.
pub(super) fn data(import: &LaneImport) -> Value {
    let mut counts: BTreeMap<Became, u64> = BTreeMap::new();
    for became in &import.became {
        *counts.entry(*became).or_default() += 1;
    }
    let became = counts.iter().map(|(Became { from, to }, count)| {
        let from = from.map_or_else(|| "no row".to_owned(), |from| from.to_string());
        json!({ "from": from, "to": to, "count": count })
    });
    let concerns = import.concerns.iter();
    let concerns =
        concerns.map(|(nonce, concern)| json!({ "nonce": nonce, "why": concern.words() }));
    json!({
        "nonces": import.nonces.len(),
        "nextNonce": import.cursor,
        "chainNonce": import.latest,
        "became": became.collect::<Vec<_>>(),
        "needsAPerson": concerns.collect::<Vec<_>>(),
    })
}

pub(super) fn json(reports: &[SignerReport]) -> Value {
    json!({ "items": reports.iter().map(SignerReport::json).collect::<Vec<_>>(), "next": null })
}

/// Nonces of a signer that are written out; JSON has them all.
const MOST: usize = 5;

pub(super) fn shown(reports: &[SignerReport]) -> String {
    let items: Vec<Value> = reports.iter().map(SignerReport::json).collect();
    let header = [
        "SIGNER",
        "ADDRESS",
        "OUTCOME",
        "NONCES",
        "CONSUMED",
        "RELEASED",
        "SUSPECT",
        "NEXT",
        "ON CHAIN",
        "FOR A PERSON",
    ];
    let rows = items.iter().map(|item| {
        let count = |status: HoldStatus| became(item, status).to_string();
        let known = !item["became"].is_null();
        let count = |status| if known { count(status) } else { "-".to_owned() };
        vec![
            text(&item["signer"]),
            cell(&item["address"]),
            text(&item["outcome"]),
            cell(&item["nonces"]),
            count(HoldStatus::Consumed),
            count(HoldStatus::Released),
            count(HoldStatus::Suspect),
            cell(&item["nextNonce"]),
            cell(&item["chainNonce"]),
            item["needsAPerson"].as_array().map_or(0, Vec::len).to_string(),
        ]
    });
    let mut shown = table::list(&header, &[3, 4, 5, 6, 7, 8, 9], rows.collect());
    for item in &items {
        let signer = text(&item["signer"]);
        if let Some(why) = item["why"].as_str() {
            shown.push_str(&format!("\n\n{signer}: {why}"));
        }
        let concerns = item["needsAPerson"].as_array().cloned().unwrap_or_default();
        for concern in concerns.iter().take(MOST) {
            let (nonce, hold) = (&concern["nonce"], text(&concern["holdId"]));
            shown.push_str(&format!(
                "\n\n{signer}, nonce {nonce} (hold {hold}): {}",
                text(&concern["why"])
            ));
        }
        if concerns.len() > MOST {
            let more = concerns.len() - MOST;
            shown.push_str(&format!(
                "\n\n{signer}: and {more} more nonces for a person; --json has them all"
            ));
        }
    }
    shown
}

/// How many nonces came to stand so.
fn became(item: &Value, status: HoldStatus) -> u64 {
    let became = item["became"].as_array();
    let counts = became.into_iter().flatten().filter(|it| it["to"] == status.name());
    counts.filter_map(|it| it["count"].as_u64()).sum()
}
