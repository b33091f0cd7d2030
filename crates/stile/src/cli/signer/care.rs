//! What can be done about a signer that does not move: repair, pause, resume, reconcile.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Which, doctor, show};
use crate::cli::Failure;
use crate::cli::table::{self, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct RepairArgs {
    #[command(flatten)]
    which: Which,
    /// Only say what would be done.
    #[arg(long, required_unless_present = "apply")]
    dry_run: bool,
    /// Do it.
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Nonces of which you know that nothing was sent with them, and nothing will be. If that is
    /// not so, two transactions compete for the nonce.
    #[arg(long, value_name = "NONCE", value_delimiter = ',')]
    attest: Vec<u64>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PauseArgs {
    #[command(flatten)]
    which: Which,
    /// Why, for everybody who is refused and for whoever is to resume it.
    #[arg(long)]
    reason: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResumeArgs {
    #[command(flatten)]
    which: Which,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn repair(
    args: RepairArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let mut body = Map::new();
    // One of the two is given, and the parser of the command line has made sure of it.
    body.insert("apply".to_owned(), json!(args.apply && !args.dry_run));
    body.insert("attest".to_owned(), json!(args.attest));
    let repair = args.which.post("/repair", body, environment).await?;
    table::print(&if args.which.server.json { table::json(&repair) } else { repaired(&repair) })
}

/// Why, then what was done or would be.
fn repaired(repair: &Value) -> String {
    let applied = repair["applied"].as_bool().unwrap_or(false);
    let steps: Vec<&Value> = repair["steps"].as_array().into_iter().flatten().collect();
    let head = match (steps.is_empty(), applied) {
        (true, _) => "There is nothing to mend.",
        (false, true) => "What was done:",
        (false, false) => "What would be done (a dry run: nothing was changed):",
    };
    let mut lines = vec![format!("{}\n", doctor::findings(&repair["diagnosis"])), head.to_owned()];
    lines.extend(steps.into_iter().map(|one| step(one, applied)));
    lines.join("\n")
}

fn step(step: &Value, applied: bool) -> String {
    let mut line = format!("- {}", text(&step["words"]));
    match step["done"].as_bool() {
        Some(true) => line.push_str(": done"),
        Some(false) => line.push_str(": NOT done"),
        None if applied => line.push_str(": yours to do"),
        None => {}
    }
    if let Some(result) = step["result"].as_str() {
        line.push_str(&format!(", {result}"));
    }
    line
}

pub(super) async fn pause(
    args: PauseArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let mut body = Map::new();
    body.insert("reason".to_owned(), json!(args.reason));
    let signer = args.which.post("/pause", body, environment).await?;
    let shown = if args.which.server.json { table::json(&signer) } else { show::shown(&signer) };
    table::print(&shown)
}

pub(super) async fn resume(
    args: ResumeArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let mut body = Map::new();
    body.insert("dryRun".to_owned(), json!(args.dry_run));
    let signer = args.which.post("/resume", body, environment).await?;
    if args.which.server.json {
        return table::print(&table::json(&signer));
    }
    table::print(&resumed(&signer, args.dry_run))
}

fn resumed(signer: &Value, dry_run: bool) -> String {
    let plan: Vec<String> = signer["plan"].as_array().into_iter().flatten().map(text).collect();
    let head = match (dry_run, signer["paused"].is_null()) {
        (true, _) => "What would be done (a dry run: nothing was changed):",
        (false, true) => "The signer goes on.",
        (false, false) => "The signer is still paused.",
    };
    let mut lines = vec![head.to_owned()];
    lines.extend(plan.iter().map(|words| format!("- {words}")));
    lines.push(format!("\n{}", show::shown(signer)));
    lines.join("\n")
}

pub(super) async fn reconcile(
    which: Which,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let found = which.post("/reconcile", Map::new(), environment).await?;
    table::print(&if which.server.json { table::json(&found) } else { compared(&found) })
}

fn compared(found: &Value) -> String {
    let mismatches: Vec<&Value> = found["mismatches"].as_array().into_iter().flatten().collect();
    if mismatches.is_empty() {
        return "Nothing was found that does not agree with the chain.".to_owned();
    }
    let mut lines = vec!["The records do not agree with the chain:".to_owned()];
    lines.extend(mismatches.iter().map(|mismatch| format!("- {}", text(&mismatch["words"]))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_says_what_was_done_and_what_was_not() {
        let diagnosis = json!({ "summary": "nonce 7 is missing", "findings": [] });
        let step = |done: Value, result: Value| {
            json!({ "kind": "fill", "words": "fill nonce 7", "needsAttestation": false,
                    "done": done, "result": result })
        };
        let repair = |applied: bool, steps: Value| {
            repaired(&json!({ "applied": applied, "steps": steps, "diagnosis": diagnosis }))
        };
        let nothing = repair(true, json!([]));
        assert_eq!(nothing, "nonce 7 is missing\n\nThere is nothing to mend.");
        let dry = repair(false, json!([step(Value::Null, Value::Null)]));
        assert!(dry.ends_with("nothing was changed):\n- fill nonce 7"), "{dry}");
        let yours = repair(true, json!([step(Value::Null, Value::Null)]));
        assert!(yours.ends_with("- fill nonce 7: yours to do"), "{yours}");
        let done = repair(true, json!([step(json!(true), json!("1 is on its way"))]));
        assert!(done.ends_with("- fill nonce 7: done, 1 is on its way"), "{done}");
        let not = repair(true, json!([step(json!(false), json!("the chain does not answer"))]));
        assert!(not.ends_with("- fill nonce 7: NOT done, the chain does not answer"), "{not}");
    }

    #[test]
    fn a_signer_that_is_still_paused_is_said_to_be() {
        let signer = json!({ "paused": "outside use", "plan": ["move the cursor from 5 to 7"] });
        assert!(resumed(&signer, true).contains("nothing was changed"));
        assert!(resumed(&signer, false).contains("still paused"));
        let moving = json!({ "paused": null, "plan": ["move the cursor from 5 to 7"] });
        let words = resumed(&moving, false);
        assert!(words.starts_with("The signer goes on.\n- move the cursor from 5 to 7"), "{words}");
    }

    #[test]
    fn what_does_not_agree_is_listed() {
        assert!(compared(&json!({ "mismatches": [] })).starts_with("Nothing was found"));
        let found = json!({ "mismatches": [{ "kind": "k", "words": "nonce 3 is not on record" }] });
        assert!(compared(&found).ends_with("- nonce 3 is not on record"));
    }
}
