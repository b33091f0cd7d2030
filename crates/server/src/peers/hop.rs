//! The headers between nodes.

use axum::http::HeaderMap;

use super::ClusterSecret;
use crate::code::Code;
use crate::problem::Problem;

/// Says that a node has passed the call on, and which.
pub(super) const FORWARDED: &str = "stile-forwarded";

/// Proves that it was a node.
pub(super) const SECRET: &str = "stile-cluster-secret";

/// Whether a call was passed on by another node. Marked on every request that is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop(pub(crate) bool);

/// Finds out whether a call was passed on. Refuses one that says so and does not prove it; where no
/// secret is agreed on, only whoever is on this machine anyway is believed.
pub(crate) fn check(
    headers: &HeaderMap,
    secret: Option<&ClusterSecret>,
    open: bool,
) -> Result<Hop, Problem> {
    if !headers.contains_key(FORWARDED) {
        return Ok(Hop(false));
    }
    let mut given = headers.get_all(SECRET).iter();
    let proven = match (secret, given.next(), given.next()) {
        (Some(secret), Some(given), None) => secret.is(given.as_bytes()),
        (Some(_), ..) => false,
        (None, ..) => open,
    };
    if proven {
        return Ok(Hop(true));
    }
    let detail = "a call that was passed on must carry the cluster's secret";
    Err(Problem::new(Code::NotANode, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(secret: Option<&str>, open: bool, given: &[(&'static str, &str)]) -> Option<bool> {
        let secret = secret.map(|text| ClusterSecret::new(text).unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        check(&headers, secret.as_ref(), open).ok().map(|Hop(hop)| hop)
    }

    #[test]
    fn only_nodes_pass_calls_on() {
        const GOOD: &str = "correct-horse-battery";
        let from = (FORWARDED, "a");
        assert_eq!(hop(None, false, &[]), Some(false));
        assert_eq!(hop(Some(GOOD), false, &[(SECRET, "whatever")]), Some(false));
        assert_eq!(hop(Some(GOOD), false, &[from, (SECRET, GOOD)]), Some(true));
        assert_eq!(hop(Some(GOOD), true, &[from, (SECRET, "incorrect-horse-battery")]), None);
        assert_eq!(hop(Some(GOOD), true, &[from]), None);
        assert_eq!(hop(Some(GOOD), true, &[from, (SECRET, GOOD), (SECRET, GOOD)]), None);
        assert_eq!(hop(None, true, &[from]), Some(true));
        assert_eq!(hop(None, false, &[from]), None);
        assert_eq!(hop(None, false, &[from, (SECRET, GOOD)]), None);
    }
}
