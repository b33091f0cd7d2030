//! Every call is counted, and under a name that was announced.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use serde_json::json;
use stile_chain::CALL_METHODS;
use stile_domain::B256;

use crate::support::*;

/// Keeps counters and the number of values of histograms.
#[derive(Default)]
struct Kept {
    counts: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
}

impl Kept {
    fn count(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.counts.lock().unwrap().entry(name).or_default())
    }

    fn get(&self, name: &str) -> u64 {
        let counts = self.counts.lock().unwrap();
        counts.get(name).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

struct Values(Arc<AtomicU64>);

impl HistogramFn for Values {
    fn record(&self, _value: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.count(key))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Values(self.count(key))))
    }
}

#[tokio::test]
async fn calls_are_counted_one_by_one_also_inside_batches() {
    let kept = Kept::default();
    let _guard = metrics::set_default_local_recorder(&kept);
    let node = Fake::start(|method, params| match (method, params[0].as_str()) {
        ("eth_getTransactionReceipt", Some(hash)) if hash.ends_with("01") => {
            Err(json!({ "code": -32603, "message": "no" }))
        }
        ("eth_getTransactionReceipt", _) => Ok(json!(null)),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let pool = pool([node.url()]);
    let _ = pool.receipts(&[B256::ZERO, B256::repeat_byte(1), B256::repeat_byte(2)]).await;
    let calls = |method: &str, result: &str| {
        kept.get(&format!("stile_chain_calls_total{{method={method},result={result}}}"))
    };
    assert_eq!(calls("eth_getTransactionReceipt", "ok"), 2);
    assert_eq!(calls("eth_getTransactionReceipt", "error"), 1);
    assert_eq!(calls("eth_chainId", "ok"), 1);
    assert_eq!(calls("eth_blockNumber", "ok"), 1);
    assert_eq!(kept.get("stile_chain_call_seconds{method=eth_getTransactionReceipt}"), 3);
    for name in kept.counts.lock().unwrap().keys() {
        let method = name.split("method=").nth(1).unwrap().split([',', '}']).next().unwrap();
        assert!(CALL_METHODS.contains(&method), "{name}");
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_counted_too() {
    let kept = Kept::default();
    let _guard = metrics::set_default_local_recorder(&kept);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool([format!("http://{}", silent.local_addr().unwrap())]);
    {
        let view = pool.view();
        tokio::pin!(view);
        assert!(futures::poll!(&mut view).is_pending());
    }
    drop(pool);
    for method in ["eth_chainId", "eth_getBlockByNumber"] {
        let name = format!("stile_chain_calls_total{{method={method},result=timeout}}");
        assert_eq!(kept.get(&name), 1, "{method}");
    }
}
