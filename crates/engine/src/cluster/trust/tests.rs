use stile_domain::{Holder, Incarnation, NodeId, NodeMode};
use stile_store::NodeRecord;

use super::*;

const WITHIN: Duration = Duration::from_secs(9);

fn node(name: &str, seen_ms: i64) -> LiveNode {
    let number = name.bytes().fold(0, |number, byte| number * 256 + u128::from(byte));
    let holder = Holder {
        node: NodeId(name.into()),
        incarnation: Incarnation(uuid::Uuid::from_u128(number)),
        url: Some(format!("http://{name}")),
    };
    let at = Timestamp::from_millisecond(seen_ms).unwrap();
    LiveNode {
        record: NodeRecord {
            holder,
            mode: NodeMode::WorkerQueue,
            serves: String::new(),
            draining: false,
        },
        started_at: at,
        seen_at: at,
    }
}

fn names(nodes: &[LiveNode]) -> String {
    nodes.iter().map(|node| node.node().0.as_str()).collect()
}

/// Asks once; the store has these nodes.
fn look(trust: &mut Trust, listed: Option<&[LiveNode]>, stored: &str, now: Instant) -> String {
    let nodes = match trust.listed(listed.map(<[LiveNode]>::to_vec), now) {
        Next::Take(nodes) => nodes,
        Next::AskStore { listed } => {
            let stored = stored.chars().map(|name| node(&name.to_string(), 0)).collect();
            trust.stored(stored, listed, now)
        }
    };
    for known in &nodes {
        let told = node(&known.node().0, 0);
        assert_eq!(known.record, told.record, "a node is only ever what the store says of it");
    }
    names(&nodes)
}

#[test]
fn the_registry_saves_the_question_once_it_knows_everybody() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let a = [node("a", 1000)];
    assert_eq!(look(&mut trust, Some(&a), "ab", now), "ab");
    assert_eq!(trust.source(), Source::Store);
    let both = [node("a", 1000), node("b", 1000)];
    assert_eq!(look(&mut trust, Some(&both), "ab", now), "ab");
    assert_eq!(trust.source(), Source::Registry);
    assert_eq!(look(&mut trust, Some(&both), "(not asked)", now), "ab");
}

#[test]
fn when_a_node_was_last_heard_of_is_the_registrys_word() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    for seen in [1000, 2000] {
        let both = [node("a", seen), node("b", seen)];
        let nodes = match trust.listed(Some(both.to_vec()), now) {
            Next::Take(nodes) => nodes,
            Next::AskStore { listed } => {
                trust.stored(vec![node("a", 0), node("b", 0)], listed, now)
            }
        };
        assert_eq!(nodes[1].seen_at, Timestamp::from_millisecond(seen).unwrap());
    }
}

#[test]
fn whoever_is_missing_is_looked_for_in_the_store() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let (a, both) = ([node("a", 1000)], [node("a", 1000), node("b", 1000)]);
    look(&mut trust, Some(&both), "ab", now);
    assert_eq!(look(&mut trust, Some(&a), "ab", now), "ab", "its memory is lost");
    assert_eq!(trust.source(), Source::Store);
    look(&mut trust, Some(&both), "ab", now);
    assert_eq!(look(&mut trust, Some(&a), "a", now), "a", "b has left");
    assert_eq!(trust.source(), Source::Registry);
    assert_eq!(look(&mut trust, Some(&a), "(not asked)", now), "a");
}

#[test]
fn whoever_is_new_is_looked_for_in_the_store() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let (a, both) = ([node("a", 1000)], [node("a", 1000), node("b", 1000)]);
    look(&mut trust, Some(&a), "a", now);
    assert_eq!(look(&mut trust, Some(&both), "ab", now), "ab");
    assert_eq!(look(&mut trust, Some(&both), "(not asked)", now), "ab");
}

/// What somebody made up in Redis is a reason to ask the store, and no more.
#[test]
fn hole_40_nobody_becomes_a_node_by_being_in_the_registry() {
    let change = |change: fn(&mut LiveNode)| {
        let mut node = node("b", 1000);
        change(&mut node);
        node
    };
    let cases = [
        ("a stranger", node("x", 1000)),
        ("a stranger from the future", node("x", 1_000_000_000_000)),
        ("another start", change(|b| b.record.holder.incarnation = Incarnation::fresh())),
        ("another place", change(|b| b.record.holder.url = Some("http://x".into()))),
        ("no place", change(|b| b.record.holder.url = None)),
        ("another mode", change(|b| b.record.mode = NodeMode::Basic)),
        ("other signers", change(|b| b.record.serves = "none".into())),
        ("about to end", change(|b| b.record.draining = true)),
        ("from the future", node("b", 1_000_000_000_000)),
        ("silent", node("b", 0)),
    ];
    for (case, made_up) in cases {
        // Beside the two nodes, and in the place of one of them.
        for beside in [true, false] {
            let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
            let both = [node("a", 1000), node("b", 1000)];
            look(&mut trust, Some(&both), "ab", now);
            let mut listed = if beside { both.to_vec() } else { both[..1].to_vec() };
            listed.push(made_up.clone());
            for _ in 0..3 {
                assert_eq!(look(&mut trust, Some(&listed), "ab", now), "ab", "{case} {beside}");
            }
            assert_eq!(look(&mut trust, None, "ab", now), "ab", "{case} {beside}");
        }
    }
    // Nor does it stay one.
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let both = [node("a", 1000), node("b", 1000)];
    look(&mut trust, Some(&both), "ab", now);
    assert_eq!(look(&mut trust, Some(&both), "a", now + WITHIN), "a", "the store has missed b");
}

#[test]
fn while_it_is_away_the_last_known_serve_and_then_the_store_is_asked() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let both = [node("a", 1000), node("b", 1000)];
    look(&mut trust, Some(&both), "ab", now);
    let soon = now + WITHIN - Duration::from_millis(1);
    assert_eq!(look(&mut trust, None, "(not asked)", soon), "ab");
    assert_eq!(trust.source(), Source::LastKnown);
    assert_eq!(look(&mut trust, None, "abc", now + WITHIN), "abc");
    assert_eq!(trust.source(), Source::Store);
    // It comes back without its memory, and learns.
    let a = [node("a", 9000)];
    assert_eq!(look(&mut trust, Some(&a), "abc", now + WITHIN), "abc");
    let all = [node("a", 9000), node("b", 9000), node("c", 9000)];
    assert_eq!(look(&mut trust, Some(&all), "abc", now + WITHIN), "abc");
    assert_eq!(trust.source(), Source::Registry);
}

#[test]
fn a_short_silence_is_forgotten() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let both = [node("a", 1000), node("b", 1000)];
    look(&mut trust, Some(&both), "ab", now);
    look(&mut trust, None, "(not asked)", now + WITHIN / 2);
    assert_eq!(look(&mut trust, Some(&both), "(not asked)", now + WITHIN / 2), "ab");
    assert_eq!(trust.source(), Source::Registry);
    let late = now + WITHIN / 2 + WITHIN - Duration::from_millis(1);
    assert_eq!(look(&mut trust, None, "(not asked)", late), "ab");
}

#[test]
fn a_node_that_the_registry_never_hears_of_is_noticed() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let a = [node("a", 1000)];
    assert_eq!(look(&mut trust, Some(&a), "a", now), "a");
    let soon = now + WITHIN - Duration::from_millis(1);
    assert_eq!(look(&mut trust, Some(&a), "(not asked)", soon), "a");
    assert_eq!(look(&mut trust, Some(&a), "ab", now + WITHIN), "ab");
    assert_eq!(trust.source(), Source::Store);
}

#[test]
fn who_was_silent_for_long_is_not_new() {
    let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
    let nodes = [node("a", 10_000), node("b", 1001), node("c", 1000)];
    assert_eq!(look(&mut trust, Some(&nodes), "ab", now), "ab");
    assert_eq!(trust.source(), Source::Registry);
    assert_eq!(look(&mut trust, Some(&nodes), "(not asked)", now), "ab");
}
