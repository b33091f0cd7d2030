//! What a node says about a signer that does not move, and what is done about it.

use serde_json::{Value, json};
use testkit::eventually;

use crate::common::StileProcess;

impl StileProcess {
    /// What is the matter with a signer.
    pub(crate) async fn doctor(&self, signer: &str) -> Value {
        self.get(&doctor_path(signer)).await.ok()
    }

    /// Waits until this keeps a signer from moving and is said before everything else, in words
    /// among which are these, and returns the finding.
    pub(crate) async fn blocked_by(&self, signer: &str, code: &str, words: &[&str]) -> Value {
        let what = format!("the doctor of {signer} to find {code} and to say {words:?}");
        let diagnosis = eventually(&what, async || {
            let answer = self.get(&doctor_path(signer)).await;
            if answer.status == 409 {
                // What it was handed has not got a nonce yet.
                assert_eq!(answer.problem(), "lane-not-started");
                return None;
            }
            let diagnosis = answer.ok();
            let finding = &diagnosis["findings"][0];
            let said = finding["words"].as_str().unwrap_or_default();
            let found = finding["code"] == code && words.iter().all(|part| said.contains(part));
            found.then_some(diagnosis)
        });
        let diagnosis = diagnosis.await;
        let finding = diagnosis["findings"][0].clone();
        assert_eq!(finding["severity"], "blocked", "{diagnosis:#}");
        assert_eq!(diagnosis["healthy"], false, "{diagnosis:#}");
        assert_eq!(diagnosis["summary"], finding["words"], "{diagnosis:#}");
        finding
    }

    /// Has done what the findings ask for.
    pub(crate) async fn repair(&self, signer: &str) -> Value {
        self.post(&format!("/api/v1/signers/{signer}/repair"), json!({ "apply": true })).await.ok()
    }
}

fn doctor_path(signer: &str) -> String {
    format!("/api/v1/signers/{signer}/doctor")
}

/// Checks what a finding proposes, and whether that is done without anybody's help.
#[track_caller]
pub(crate) fn assert_remedy(finding: &Value, kind: &str, automatic: bool) {
    let remedy = &finding["remedy"];
    assert_eq!(
        (&remedy["kind"], &remedy["automatic"]),
        (&json!(kind), &json!(automatic)),
        "{finding:#}"
    );
}
