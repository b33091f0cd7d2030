//! What the pools of the endpoints say about a lane's cursor.

use std::time::Duration;

use stile_chain::{Pool, Pools as Told};
use stile_domain::Nonce;

/// How long a lane waits for what fewer endpoints than a quorum claim to have in their pools and do not
/// show, and for endpoints that do not say what they have. What is in a pool of a chain that moves is in a block by then, or gone.
pub(crate) const DOUBTED_FOR: Duration = Duration::from_secs(120);

/// How pools stand to a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pools {
    /// Nobody has anything beyond it.
    InStep,
    /// Something is beyond it: a quorum says so, or somebody has shown what the account has signed.
    Ahead(String),
    /// Fewer say so, and show nothing; those that do not say so may not show their pools. Or nobody says
    /// so, and somebody who is in use does not answer.
    Claimed(String),
}

/// Of the endpoints `required` are a quorum. Where there are several, one alone is none: what it claims
/// and does not show stops nobody for good.
pub(crate) fn judge(told: &Told, cursor: Nonce, required: usize) -> Pools {
    let required = required.max(told.all.len().min(2));
    let beyond: Vec<&Pool> = told.all.iter().filter(|pool| pool.below > cursor).collect();
    let shown = beyond.iter().find(|pool| pool.shown.is_some_and(|nonce| nonce >= cursor));
    if let Some(pool) = shown {
        return Pools::Ahead(format!(
            "{} has a transaction in its pool that this account has signed",
            pool.endpoint
        ));
    }
    match beyond.iter().map(|pool| pool.below).min() {
        None if told.silent.is_empty() => Pools::InStep,
        None => Pools::Claimed(format!(
            "{} does not say what it has of this account in its pool",
            told.silent.join(", ")
        )),
        Some(below) if beyond.len() >= required => Pools::Ahead(format!(
            "the endpoints have {below} transactions of this account, with those in their pools"
        )),
        Some(below) => {
            let names: Vec<&str> = beyond.iter().map(|pool| pool.endpoint.as_str()).collect();
            Pools::Claimed(format!(
                "{} claims to have {below} transactions of this account with those in its pool, and nonces below \
                 {cursor} were given out; the others do not say so",
                names.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(below: Nonce, shown: Option<Nonce>) -> Pool {
        Pool { endpoint: "rpc:1".to_owned(), below, shown }
    }

    #[test]
    fn hole_20_what_one_pool_shows_is_not_outvoted_by_those_that_show_none() {
        // What the endpoints say, with a cursor of 5 where two of three have to agree.
        let (hides, claims) = (pool(5, None), pool(6, None));
        let (shows, showed_less) = (pool(6, Some(5)), pool(6, Some(4)));
        for (what, pools, expected) in [
            ("nobody has anything", vec![hides.clone(); 3], "in step"),
            ("one claims", vec![hides.clone(), hides.clone(), claims.clone()], "claimed"),
            ("the first one claims", vec![claims.clone(), hides.clone(), hides.clone()], "claimed"),
            ("two claim", vec![claims.clone(), hides.clone(), claims.clone()], "ahead"),
            ("one shows", vec![hides.clone(), hides.clone(), shows], "ahead"),
            (
                "what was given out since",
                vec![hides.clone(), hides.clone(), showed_less],
                "claimed",
            ),
        ] {
            assert_eq!(judged(pools, &[], 2), expected, "{what}");
        }
        assert_eq!(judged(vec![claims.clone()], &[], 1), "ahead", "the only one");
        assert_eq!(judged(vec![claims, hides], &[], 1), "claimed", "one of two");
    }

    #[test]
    fn hole_20_whoever_does_not_say_what_is_in_its_pool_is_waited_for() {
        let (hides, shows) = (pool(5, None), pool(6, Some(5)));
        for (what, pools, silent, expected) in [
            ("nobody was asked", vec![], &[][..], "in step"),
            ("nobody answers", vec![], &["rpc:1"][..], "claimed"),
            ("one does not answer", vec![hides.clone()], &["rpc:2"][..], "claimed"),
            ("one shows", vec![hides, shows], &["rpc:3"][..], "ahead"),
        ] {
            assert_eq!(judged(pools, silent, 2), expected, "{what}");
        }
    }

    fn judged(all: Vec<Pool>, silent: &[&str], required: usize) -> &'static str {
        let silent = silent.iter().map(ToString::to_string).collect();
        match judge(&Told { all, silent }, 5, required) {
            Pools::InStep => "in step",
            Pools::Ahead(_) => "ahead",
            Pools::Claimed(_) => "claimed",
        }
    }
}
