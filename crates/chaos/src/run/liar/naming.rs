//! Whether operators are told who lies: the doctor names the endpoint, and so do the metrics.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::run::node::Node;
use crate::run::stage::Stage;

const CONTRADICTED: &str = "stile_endpoint_contradicted_total";

/// How often nodes are asked.
const PAUSE: Duration = Duration::from_millis(700);

/// Who was named during a lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Nodes whose doctor named the liar.
    pub(super) doctors: usize,
    /// Nodes whose metrics named the liar.
    pub(super) metrics: usize,
    /// Nodes whose metrics named somebody else.
    pub(super) others: usize,
}

/// Asks all nodes until this time. What counts is what is new: a doctor remembers older lies.
pub(super) async fn watch(stage: &Stage, liar: usize, until: Instant) -> Named {
    let nodes = stage.nodes.iter().map(|node| watch_node(stage, node, liar, until));
    let mut named = Named::default();
    for (doctor, liars, others) in futures::future::join_all(nodes).await {
        named.doctors += usize::from(doctor);
        named.metrics += usize::from(liars);
        named.others += usize::from(others);
    }
    named
}

async fn watch_node(stage: &Stage, node: &Node, liar: usize, until: Instant) -> (bool, bool, bool) {
    let names: Vec<String> =
        node.endpoints.iter().map(|endpoint| endpoint.url().replace("http://", "")).collect();
    let before = counts(node, &names).await;
    let (mut doctor, mut liars, mut others) = (false, false, false);
    loop {
        // A node that was started anew has counted nothing yet.
        let now = counts(node, &names).await;
        for (place, (before, now)) in before.iter().zip(&now).enumerate() {
            let named = now > before;
            liars |= named && place == liar;
            others |= named && place != liar;
        }
        // Asked for last: by then the words are those of this lie.
        doctor |= liars && is_named_by_doctor(stage, node, &names[liar]).await;
        if Instant::now() >= until {
            return (doctor, liars, others);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// How often each endpoint was named; nothing while the node does not answer.
async fn counts(node: &Node, names: &[String]) -> Vec<f64> {
    let page = node.page("/metrics").await.unwrap_or_default();
    names.iter().map(|name| count(&page, name)).collect()
}

fn count(page: &str, endpoint: &str) -> f64 {
    let lines = page.lines().filter(|line| line.starts_with(CONTRADICTED));
    let own = lines.filter(|line| line.contains(endpoint));
    own.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

async fn is_named_by_doctor(stage: &Stage, node: &Node, endpoint: &str) -> bool {
    let path = format!("/api/v1/signers/{}/doctor", stage.lanes[0]);
    let page = node.page(&path).await.unwrap_or_default();
    let diagnosis: Value = serde_json::from_str(&page).unwrap_or_default();
    let findings = diagnosis["findings"].as_array().into_iter().flatten();
    findings
        .filter(|finding| finding["code"] == "endpoint-contradicts")
        .any(|finding| finding["words"].as_str().is_some_and(|words| words.contains(endpoint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_found_by_its_name() {
        let page = "# TYPE stile_endpoint_contradicted_total counter\n\
                    stile_endpoint_contradicted_total{chain=\"1\",endpoint=\"127.0.0.1:80\"} 2\n\
                    stile_endpoint_contradicted_total{chain=\"1\",endpoint=\"127.0.0.1:81\"} 3\n\
                    stile_other{endpoint=\"127.0.0.1:81\"} 9\n";
        assert_eq!((count(page, "127.0.0.1:80"), count(page, "127.0.0.1:81")), (2.0, 3.0));
        assert_eq!(count(page, "127.0.0.1:82"), 0.0);
    }
}
