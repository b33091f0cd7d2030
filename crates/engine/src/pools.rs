//! What the pools of the endpoints say about a lane's cursor.

use std::time::Duration;

use stile_chain::Pool;
use stile_domain::Nonce;

/// How long a lane waits for what fewer endpoints than a quorum claim to have in their pools and do not
/// show. What is in a pool of a chain that moves is in a block by then, or gone.
pub(crate) const DOUBTED_FOR: Duration = Duration::from_secs(120);

/// How pools stand to a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pools {
    /// Nobody has anything beyond it.
    InStep,
    /// Something is beyond it: a quorum says so, or somebody has shown what the account has signed.
    Ahead(String),
    /// Fewer say so, and show nothing. Those that do not say so may not show their pools.
    Claimed(String),
}

/// Of the endpoints `required` are a quorum.
pub(crate) fn judge(pools: &[Pool], cursor: Nonce, required: usize) -> Pools {
    let beyond: Vec<&Pool> = pools.iter().filter(|pool| pool.below > cursor).collect();
    let shown = beyond.iter().find(|pool| pool.shown.is_some_and(|nonce| nonce >= cursor));
    if let Some(pool) = shown {
        return Pools::Ahead(format!(
            "{} has a transaction in its pool that this account has signed",
            pool.endpoint
        ));
    }
    match beyond.iter().map(|pool| pool.below).min() {
        None => Pools::InStep,
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
            ("nobody answers", vec![], "in step"),
            ("nobody has anything", vec![hides.clone(); 3], "in step"),
            ("one claims", vec![hides.clone(), hides.clone(), claims.clone()], "claimed"),
            ("the first one claims", vec![claims.clone(), hides.clone(), hides.clone()], "claimed"),
            ("two claim", vec![claims.clone(), hides.clone(), claims.clone()], "ahead"),
            ("one shows", vec![hides.clone(), hides.clone(), shows], "ahead"),
            ("what was given out since", vec![hides.clone(), hides, showed_less], "claimed"),
        ] {
            let found = match judge(&pools, 5, 2) {
                Pools::InStep => "in step",
                Pools::Ahead(_) => "ahead",
                Pools::Claimed(_) => "claimed",
            };
            assert_eq!(found, expected, "{what}");
        }
        assert!(matches!(judge(&[claims], 5, 1), Pools::Ahead(_)), "where one is a quorum");
    }
}
