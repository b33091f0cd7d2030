//! How the lane stands to its chain.

use stile_domain::{Drift, HeadOwner, HoldStatus, Nonce, drift};

use super::{Finding, Remedy, Severity, finding};
use crate::care::facts::{GoneFacts, HoldFacts, LaneFacts};

/// How the lane stands to its chain.
pub(super) fn out_of_step(facts: &LaneFacts) -> Option<Finding> {
    if !facts.aligned {
        return Some(unaligned());
    }
    if let Some(why) = &facts.uncompared {
        return Some(uncompared(facts, why));
    }
    let (latest, cursor) = (facts.chain_nonce?, facts.next_nonce?);
    let owner = facts.head.as_ref().and_then(|head| {
        let hold = head.hold.as_ref().map(|hold| HeadOwner::Hold(hold.status));
        hold.or(head.tx.as_ref().map(|tx| HeadOwner::Tx(tx.state)))
    });
    match drift(latest, cursor, owner) {
        Drift::InStep => facts.gone.as_ref().map(gone),
        Drift::OutsideUse => {
            let words = format!(
                "the chain has {latest} transactions of this account, but only nonces below {cursor} were given out: \
                 somebody else signs with this key"
            );
            let remedy = Remedy::new(
                "resume",
                format!(
                    "move the cursor from {cursor} to {latest} and give out nonces again; find out who else has the key"
                ),
            );
            Some(finding(Severity::Blocked, "outside-use", words, Some(remedy)))
        }
        Drift::ChainReset => {
            let words = format!(
                "the chain waits for nonce {latest}, which is on record as used and final: it has lost transactions, or \
                 was reset"
            );
            let remedy = Remedy::new(
                "resume",
                format!(
                    "send the stored bytes of the lost transactions from nonce {latest} on once more, and give out nonces again"
                ),
            );
            Some(finding(Severity::Blocked, "chain-reset", words, Some(remedy)))
        }
        Drift::Gap => Some(gap(facts, latest)),
        Drift::HeldUp(_) => {
            let hold = facts.head.as_ref()?.hold.as_ref()?;
            Some(held_up(facts, latest, hold))
        }
    }
}

/// What is on record as mined, in blocks that the chain does not have.
fn gone(gone: &GoneFacts) -> Finding {
    let GoneFacts { transactions, highest_block, chain_head } = gone;
    let words = match highest_block.checked_sub(*chain_head).filter(|blocks| *blocks > 0) {
        Some(blocks) => format!(
            "{transactions} transactions are on record in blocks up to {highest_block}, and the chain is at block \
             {chain_head}, {blocks} blocks short of that: it was reset, or its endpoints are behind"
        ),
        None => format!(
            "{transactions} transactions are on record in blocks up to {highest_block} that the chain does not have: \
             it was reset"
        ),
    };
    let remedy = "send their stored bytes once more, if the endpoints are not only behind";
    finding(Severity::Blocked, "chain-reset", words, Some(Remedy::new("resume", remedy)))
}

/// Whatever does not fit, the database has lost it; nobody else is to blame.
fn unaligned() -> Finding {
    let words = "the database failed over or was restored, and nothing gets a nonce before this signer was compared \
                 with its chain";
    let remedy = "the node that holds it does so as soon as an endpoint of the chain answers";
    let remedy = Remedy::new("wait", remedy).automatic();
    finding(Severity::Blocked, "unaligned", words, Some(remedy))
}

/// The holder has just started, or got the lane, and nobody knows whether the chain is ahead.
fn uncompared(facts: &LaneFacts, why: &str) -> Finding {
    let (severity, what) = match facts.can_sign {
        true => (Severity::Blocked, "nothing gets a nonce before that is known"),
        false => (Severity::Warning, "nonces are given out from its cursor meanwhile"),
    };
    let words = format!(
        "it is not known whether the chain has more transactions of this signer than the database knows of, and \
         {what}: {why}"
    );
    let remedy = "the node that holds it asks again and again; mend the endpoint that does not answer or contradicts";
    let remedy = Remedy::new("mend-endpoints", remedy).automatic();
    finding(severity, "not-compared", words, Some(remedy))
}

fn gap(facts: &LaneFacts, nonce: Nonce) -> Finding {
    let words =
        format!("nonce {nonce} is missing: nobody will send it, and later ones wait behind it");
    if let Some((endpoint, pending)) = claimed(facts) {
        let words = format!(
            "nonce {nonce} is missing: Stile has nothing for it, and later ones wait behind it, but {endpoint} counts \
             {pending} transactions with those in its pool"
        );
        let remedy = format!(
            "somebody else may have sent it: wait until it is mined; if nobody has, say so (repair --attest {nonce}), and \
             an empty transaction takes its place"
        );
        let remedy = Remedy { needs_attestation: true, ..Remedy::new("fill", remedy) };
        return finding(Severity::Blocked, "gap", words, Some(remedy));
    }
    let remedy = if facts.restored.as_ref().is_some_and(|restored| restored.open) {
        Remedy::new(
            "restored",
            "an empty transaction is made once everything from before the restore is read and no endpoint has \
             anything at this nonce; else once somebody says what became of the restore (stile signer restored)",
        )
    } else if facts.can_sign {
        Remedy::new("fill", format!("an empty transaction is made for nonce {nonce}")).automatic()
    } else {
        Remedy::new(
            "allocate",
            format!("Stile has no key here: the next caller who asks for a nonce gets {nonce}"),
        )
    };
    finding(Severity::Blocked, "gap", words, Some(remedy))
}

/// An endpoint that says it has a transaction for the nonce that the chain waits for and that nobody
/// was given, and what it says.
pub(in crate::care) fn claimed(facts: &LaneFacts) -> Option<(&str, Nonce)> {
    let latest = facts.chain_nonce?;
    let nobodys = facts.head.as_ref().is_some_and(|head| head.hold.is_none() && head.tx.is_none());
    let claims =
        facts.endpoints.iter().filter_map(|said| Some((said.endpoint.as_str(), said.pending?)));
    claims.filter(|(_, pending)| nobodys && *pending > latest).max_by_key(|(_, pending)| *pending)
}

/// A caller has the nonce that the chain waits for.
fn held_up(facts: &LaneFacts, nonce: Nonce, hold: &HoldFacts) -> Finding {
    let attest = |words: String| Remedy { needs_attestation: true, ..Remedy::new("attest", words) };
    match hold.status {
        HoldStatus::Suspect => {
            let words = format!(
                "nonce {nonce} was given to a caller (hold {}) whose time ran out and who has not said whether it was sent",
                hold.hold_id
            );
            let remedy = format!(
                "find out from the caller; if it was never sent, say so (repair --attest {nonce}), and {}",
                if facts.can_sign {
                    "an empty transaction takes its place"
                } else {
                    "it is given out again"
                }
            );
            finding(Severity::Blocked, "suspect-hold", words, Some(attest(remedy)))
        }
        HoldStatus::Consumed => {
            let known = facts.endpoints.iter().any(|endpoint| endpoint.knows == Some(true));
            let hash = hold.tx_hash.map_or("a transaction".to_owned(), |hash| hash.to_string());
            let words = if known {
                format!(
                    "nonce {nonce} waits to be mined: its caller sent {hash}, and the endpoints have it"
                )
            } else {
                format!(
                    "nonce {nonce} is not mined: its caller says that {hash} was sent, but no endpoint knows it"
                )
            };
            let remedy = Remedy::new(
                "ask-the-caller",
                "the caller must send it again; only it has the signed bytes",
            );
            finding(Severity::Blocked, "silent-hold", words, Some(remedy))
        }
        _ => {
            let words = format!(
                "nonce {nonce} is with a caller (hold {}) who has not sent it yet",
                hold.hold_id
            );
            finding(Severity::Warning, "held", words, None)
        }
    }
}
