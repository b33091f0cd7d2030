//! The reference page.

use super::{Obstacle, Outcome, Standing, Step, Successor, TxState};

/// The steps, with the words the reference page uses for them.
pub(super) const STEPS: &[(Step, &str)] = &[
    (Step::NotEstimated, "its gas cannot be estimated for now"),
    (Step::Estimated, "its gas is known after all"),
    (Step::Bound, "a nonce is bound, signed, stored"),
    (Step::Refused, "refused before a nonce is bound"),
    (Step::Withdrawn, "withdrawn before a nonce is bound"),
    (Step::Restored, "the database was restored, and it may have been sent before"),
    (Step::Cleared, "a person says that it was never sent"),
    (Step::Recovered, "the chain shows that it was sent before a restore"),
    (Step::Closed, "a person says that it was sent before a restore"),
    (Step::Sent, "a chain node has it"),
    (Step::HeldUp(Obstacle::Underpriced), "chain nodes want a higher fee"),
    (Step::HeldUp(Obstacle::InsufficientFunds), "the account cannot pay"),
    (Step::HeldUp(Obstacle::Rejected), "every chain node refuses it"),
    (Step::WentStale, "not mined for too long"),
    (Step::Bumped, "a new attempt offers more"),
    (Step::CancelRequested, "its caller withdraws it: an empty one at its nonce is signed, stored"),
    (Step::GivenUp, "given up: an empty one at its nonce is signed, stored"),
    (Step::Overtaken(Successor::Cancel), "our cancellation is in a canonical block"),
    (Step::Overtaken(Successor::GiveUp), "our empty transaction is in a canonical block"),
    (Step::Overtaken(Successor::Outsider), "somebody else's at its nonce is in a canonical block"),
    (Step::Mined(Outcome::Success), "in a canonical block, success"),
    (Step::Mined(Outcome::Reverted), "in a canonical block, reverted"),
    (Step::Mined(Outcome::Unknown), "in a canonical block, and no endpoint says how it ended"),
    (Step::Forked { still_final: true }, "blocks above it replaced, still final"),
    (Step::Forked { still_final: false }, "blocks above it replaced, no longer final"),
    (Step::Unmined, "its block is no longer canonical"),
    (Step::Final, "the evidence asked for is there"),
    (Step::Superseded(Successor::Cancel), "our cancellation is final at its nonce"),
    (Step::Superseded(Successor::GiveUp), "our empty transaction is final at its nonce"),
    (Step::Superseded(Successor::Outsider), "somebody else's is final at its nonce"),
];

/// The reference page: the whole rule as a table, made from the rule itself.
pub fn reference_markdown() -> String {
    let columns: Vec<(String, Standing)> = TxState::ALL
        .iter()
        .flat_map(|state| {
            let bound = |bound| Standing { state: *state, sub_state: None, outcome: None, bound };
            match state {
                TxState::Created => vec![(state.to_string(), bound(false))],
                TxState::Failed => vec![
                    ("FAILED, no nonce".to_owned(), bound(false)),
                    ("FAILED, nonce bound".to_owned(), bound(true)),
                ],
                _ => vec![(state.to_string(), bound(true))],
            }
        })
        .collect();
    let mut page = String::from(
        "# The states of a transaction\n\nWhat happens (down), where it stands (across), where it stands then,\n\
         with its `subState`. An empty cell cannot happen.\n\n| what happens | event |",
    );
    for (name, _) in &columns {
        page.push_str(&format!(" {name} |"));
    }
    page.push_str(&format!("\n|---|---|{}\n", "---|".repeat(columns.len())));
    for (step, words) in STEPS {
        let kind = match step {
            Step::Sent => "`SENT`, again `RESENT`".to_owned(),
            step => format!("`{}`", Standing::CREATED.kind_of(*step)),
        };
        page.push_str(&format!("| {words} | {kind} |"));
        for (_, from) in &columns {
            let cell = from.after(*step).map_or_else(
                |_| String::new(),
                |to| match to.sub_state {
                    Some(sub_state) => format!("{} / {sub_state}", to.state),
                    None => to.state.to_string(),
                },
            );
            page.push_str(&format!(" {cell} |"));
        }
        page.push('\n');
    }
    page
}
