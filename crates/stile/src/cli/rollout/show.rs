//! The list and the shares, for people and for programs.

use serde_json::{Value, json};
use stile_domain::Rollout;

use crate::cli::table::{self, text};

pub(super) fn json(rollout: &Rollout) -> Value {
    let shares = rollout.shares.iter();
    let shares = shares.map(|(chain, share)| json!({ "chainId": chain, "chainIdText": chain.to_string(), "percent": share }));
    let owners = rollout.owners.iter().map(|(lane, owner)| {
        json!({ "chainId": lane.chain, "chainIdText": lane.chain.to_string(), "signer": lane.signer.to_string(), "owner": owner })
    });
    json!({
        "version": rollout.version,
        "shares": shares.collect::<Vec<_>>(),
        "items": owners.collect::<Vec<_>>(),
        "next": null,
    })
}

pub(super) fn shown(rollout: &Value) -> String {
    let list = |name: &str| rollout[name].as_array().cloned().unwrap_or_default();
    let (shares, owners) = (list("shares"), list("items"));
    let mut shown = Vec::new();
    for share in &shares {
        shown.push(format!(
            "chain {}: {} % of the signers that are not on the list are Stile's",
            share["chainId"], share["percent"]
        ));
    }
    if shares.is_empty() {
        shown.push("all signers that are not on the list are Stile's".to_owned());
    }
    if !owners.is_empty() {
        let rows = owners
            .iter()
            .map(|it| vec![text(&it["signer"]), text(&it["chainId"]), text(&it["owner"])]);
        shown.push(table::list(&["SIGNER", "CHAIN", "OWNER"], &[1], rows.collect()));
    }
    shown.join("\n\n")
}

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId, Lane, LaneOwner, Percent};

    use super::*;

    #[test]
    fn a_rollout_is_shown() {
        assert!(shown(&json(&Rollout::default())).starts_with("all signers"));
        let chain = ChainId::new(5).unwrap();
        let mut rollout = Rollout::default();
        rollout.shares.insert(chain, Percent::new(20).unwrap());
        rollout.owners.insert(Lane::new(chain, Address::ZERO), LaneOwner::V1);
        let shown = shown(&json(&rollout));
        assert!(shown.starts_with("chain 5: 20 % of the signers"), "{shown}");
        assert!(shown.ends_with("5 v1") || shown.contains("v1"), "{shown}");
    }
}
