//! What is said about a value that is wrong by itself.

use super::complaints;

#[track_caller]
fn assert_complaint(text: &str, complaint: &str) {
    assert_eq!(complaints(text), [complaint]);
}

#[test]
fn unknown_keys_and_sections() {
    assert_complaint(
        "[nonce.lease]\nduratoin = \"10s\"",
        "stile.toml:2: nonce.lease.duratoin: unknown key; did you mean nonce.lease.duration?",
    );
    assert_complaint(
        "\n[nonce.leese]\nduration = \"10s\"\nrenew_interval = \"3s\"",
        "stile.toml:2: nonce.leese: unknown section; did you mean nonce.lease?",
    );
    assert_complaint(
        "[log]\ncolour = true",
        "stile.toml:2: log.colour: unknown key; log has level, format",
    );
}

#[test]
fn choices() {
    assert_complaint(
        "[nonce]\nmode = \"fast\"",
        r#"stile.toml:2: nonce.mode: must be "basic" or "worker-queue", not "fast""#,
    );
    assert_complaint(
        "[cluster]\nnot_holder = true",
        r#"stile.toml:2: cluster.not_holder: must be "accept", "forward" or "reject", not true"#,
    );
}

#[test]
fn durations() {
    assert_complaint(
        "[nonce]\nhold_timeout = 60",
        r#"stile.toml:2: nonce.hold_timeout: must be a duration with a unit, such as "500ms", "10s", "2m", "1h" or "30d", not 60"#,
    );
    assert_complaint(
        "[nonce]\nhold_timeout = \"999ms\"",
        r#"stile.toml:2: nonce.hold_timeout: must be a duration from 1s to 24h, not "999ms""#,
    );
}

#[test]
fn numbers_and_switches() {
    assert_complaint(
        "[nonce]\nworker_count = 0",
        "stile.toml:2: nonce.worker_count: must be a whole number from 1 to 1024, not 0",
    );
    assert_complaint(
        "[nonce]\nworker_queue_capacity = 99999999999999999999999",
        "stile.toml:2: nonce.worker_queue_capacity: must be a whole number from 1 to 1000000, not 99999999999999999999999",
    );
    assert_complaint(
        "[lane]\nmax_in_flight = \"500\"",
        r#"stile.toml:2: lane.max_in_flight: must be a whole number from 1 to 1000000, not "500""#,
    );
    assert_complaint(
        "[tx.resubmit]\nbump_percent = 9.9",
        "stile.toml:2: tx.resubmit.bump_percent: must be a number from 10 to 1000, not 9.9",
    );
    assert_complaint(
        "[store]\nmigrate = \"yes\"",
        r#"stile.toml:2: store.migrate: must be true or false, not "yes""#,
    );
}

#[test]
fn addresses_and_urls() {
    assert_complaint(
        "[server]\nlisten = \"localhost:7420\"",
        r#"stile.toml:2: server.listen: must be an IP address and a port, such as "127.0.0.1:7420", not "localhost:7420""#,
    );
    assert_complaint(
        "[store]\nurl = \"mysql://root:hunter2@db\"",
        "stile.toml:2: store.url: must be a URL beginning with sqlite://, postgres:// or postgresql://; this begins otherwise",
    );
    assert_complaint(
        "[[chain]]\nid = 1\nendpoints = [\n  \"http://a\",\n  \"b\",\n]",
        "stile.toml:3: chain[0].endpoints: entry 2 must be a URL beginning with http://, https://, ws:// or wss://; this has no ://",
    );
}

#[test]
fn the_node_id() {
    assert_complaint(
        "[node]\nid = \"${POD_NAME}\"",
        r#"stile.toml:2: node.id: the environment variable "POD_NAME" is not set"#,
    );
}

#[test]
fn the_wrong_shape() {
    assert_complaint("nonce = 3", "stile.toml:1: nonce: is a section, written [nonce]");
    assert_complaint(
        "[chain]\nid = 1",
        "stile.toml:1: chain: is a list; each entry begins with [[chain]]",
    );
    assert_complaint("chain = [1]", "stile.toml:1: chain[0]: must be a table");
    assert_complaint(
        "[nonce.mode]\nfast = true",
        r#"stile.toml:1: nonce.mode: must be "basic" or "worker-queue", not a table"#,
    );
}
