//! What the doctor says, as callers see it.

use serde::Serialize;
use stile_engine::{Diagnosis, Finding, LaneFacts, Remedy, Repair, RepairStep, Severity};
use utoipa::ToSchema;

use crate::schema;

/// What is wrong with a signer, and what it is judged by.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Diagnosis)]
pub(crate) struct DiagnosisView {
    /// Whether nothing keeps it from moving.
    healthy: bool,
    /// How it stands, in a sentence.
    summary: String,
    /// What was found, the worst first.
    findings: Vec<FindingView>,
    /// What was looked at: who holds the lane, where its cursor and the chain's counts are, what it
    /// can pay, what stands first in it, and what each endpoint says. More may be added.
    #[schema(value_type = Object)]
    facts: LaneFacts,
}

impl From<Diagnosis> for DiagnosisView {
    fn from(diagnosis: Diagnosis) -> Self {
        Self {
            healthy: diagnosis.healthy,
            summary: diagnosis.summary,
            findings: diagnosis.findings.into_iter().map(FindingView::from).collect(),
            facts: diagnosis.facts,
        }
    }
}

/// One thing that was found.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Finding)]
struct FindingView {
    /// A stable name for it.
    code: String,
    /// Whether the signer moves all the same.
    #[schema(value_type = schema::SeverityName)]
    severity: &'static str,
    /// What it is, in words.
    words: String,
    /// What can be done about it; null if nothing needs to be, or only time helps.
    remedy: Option<RemedyView>,
}

impl From<Finding> for FindingView {
    fn from(finding: Finding) -> Self {
        Self {
            code: finding.code,
            severity: severity(finding.severity),
            words: finding.words,
            remedy: finding.remedy.map(RemedyView::from),
        }
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Blocked => "blocked",
    }
}

/// What can be done about a finding.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Remedy)]
struct RemedyView {
    /// A stable name for it.
    kind: String,
    /// What it is, in words.
    words: String,
    /// Whether somebody must say first that nothing was sent with the nonce: `attest` of a repair.
    needs_attestation: bool,
    /// Whether Stile does it by itself before long.
    automatic: bool,
}

impl From<Remedy> for RemedyView {
    fn from(remedy: Remedy) -> Self {
        Self {
            kind: remedy.kind,
            words: remedy.words,
            needs_attestation: remedy.needs_attestation,
            automatic: remedy.automatic,
        }
    }
}

/// What a repair did, or would do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Repair)]
pub(crate) struct RepairView {
    /// Whether anything was done; false for a dry run.
    applied: bool,
    /// What it was made from: how the signer stood before.
    diagnosis: DiagnosisView,
    /// What there is to do, in order.
    steps: Vec<StepView>,
}

impl From<Repair> for RepairView {
    fn from(repair: Repair) -> Self {
        Self {
            applied: repair.applied,
            diagnosis: repair.diagnosis.into(),
            steps: repair.steps.into_iter().map(StepView::from).collect(),
        }
    }
}

/// One step of a repair.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RepairStep)]
struct StepView {
    /// A stable name for it.
    kind: String,
    /// What it is, in words.
    words: String,
    /// Whether it is done only for nonces that `attest` names.
    needs_attestation: bool,
    /// Whether it was done; null for a dry run, and for what Stile cannot do.
    done: Option<bool>,
    /// What came of it, in words.
    result: Option<String>,
}

impl From<RepairStep> for StepView {
    fn from(step: RepairStep) -> Self {
        Self {
            kind: step.kind,
            words: step.words,
            needs_attestation: step.needs_attestation,
            done: step.done,
            result: step.result,
        }
    }
}
