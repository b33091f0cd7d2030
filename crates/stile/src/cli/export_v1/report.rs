//! What was written.

use serde_json::{Value, json};
use stile_domain::Lane;
use stile_domain::v1::V1Status;
use stile_domain::v1::export::LaneExport;
use stile_store::v1::WrittenBack;

use crate::cli::table::{self, cell, text};

/// What is told of a signer.
#[derive(Debug)]
pub(super) struct SignerReport(Value);

impl SignerReport {
    fn new(signer: &str, lane: Option<Lane>, outcome: &str) -> Self {
        Self(json!({
            "signer": signer,
            "address": lane.map(|lane| lane.signer.to_string()),
            "chainId": lane.map(|lane| lane.chain.get()),
            "chainIdText": lane.map(|lane| lane.chain.to_string()),
            "outcome": outcome,
            "why": null,
        }))
    }

    pub(super) fn unknown(signer: &str, why: &str) -> Self {
        let mut report = Self::new(signer, None, "not mapped");
        report.0["why"] = why.into();
        report
    }

    pub(super) fn with_v1(signer: &str, lane: Lane) -> Self {
        Self::new(signer, Some(lane), "with V1")
    }

    pub(super) fn lifted(signer: &str, lane: Lane) -> Self {
        Self::new(signer, Some(lane), "fence lifted")
    }

    pub(super) fn refused(signer: &str, lane: Lane, why: &str) -> Self {
        let mut report = Self::new(signer, Some(lane), "stays with Stile");
        report.0["why"] = why.into();
        report
    }

    pub(super) fn would_go(signer: &str, lane: Lane, export: &LaneExport) -> Self {
        let mut report = Self::new(signer, Some(lane), "would go back");
        report.tell(export);
        report
    }

    pub(super) fn gone(
        signer: &str,
        lane: Lane,
        export: &LaneExport,
        written: WrittenBack,
    ) -> Self {
        let mut report = Self::new(signer, Some(lane), "with V1");
        report.tell(export);
        report.0["rowsChanged"] = written.changed.into();
        report.0["rowsAdded"] = written.added.into();
        report
    }

    fn tell(&mut self, export: &LaneExport) {
        let count = |status| export.nonces.iter().filter(|row| row.status == status).count();
        self.0["used"] = count(V1Status::Used).into();
        self.0["recyclable"] = count(V1Status::Recyclable).into();
        self.0["nextLocalNonce"] = export.next_local_nonce.into();
        self.0["chainNonce"] = export.latest.into();
        self.0["unsettled"] = json!(export.unsettled);
    }

    pub(super) fn is_refused(&self) -> bool {
        self.0["outcome"] == "stays with Stile"
    }
}

pub(super) fn json(reports: &[SignerReport]) -> Value {
    json!({ "items": reports.iter().map(|report| report.0.clone()).collect::<Vec<_>>(), "next": null })
}

const COLUMNS: [(&str, &str); 8] = [
    ("SIGNER", "signer"),
    ("ADDRESS", "address"),
    ("OUTCOME", "outcome"),
    ("USED", "used"),
    ("RECYCLABLE", "recyclable"),
    ("NEXT", "nextLocalNonce"),
    ("ON CHAIN", "chainNonce"),
    ("UNSETTLED", "unsettled"),
];

pub(super) fn shown(reports: &[SignerReport]) -> String {
    let value = |report: &Value, name: &str| match &report[name] {
        Value::Array(list) => list.len().to_string(),
        value => cell(value),
    };
    let rows = reports.iter().map(|it| COLUMNS.map(|(_, name)| value(&it.0, name)).to_vec());
    let mut shown = table::list(&COLUMNS.map(|(title, _)| title), &[3, 4, 5, 6, 7], rows.collect());
    for SignerReport(report) in reports {
        if let Some(why) = report["why"].as_str() {
            shown.push_str(&format!("\n\n{}: {why}", text(&report["signer"])));
        }
    }
    shown
}
