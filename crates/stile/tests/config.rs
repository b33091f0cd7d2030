//! The configuration from the outside: what loads, and what is said about what does not.

#[path = "config/files.rs"]
mod files;
#[path = "config/loads.rs"]
mod loads;
#[path = "config/overrides.rs"]
mod overrides;
#[path = "config/rules.rs"]
mod rules;
#[path = "config/secrets.rs"]
mod secrets;
#[path = "config/values.rs"]
mod values;

use stile::config::{Config, ConfigErrors};

/// The sample of the design, with every section.
const SAMPLE: &str = r#"
[node]
id = "stile-a"
[server]
listen = "127.0.0.1:7420"
require_key = false
shutdown_grace = "20s"
[store]
url = "sqlite://stile.db"
[redis]
url = "redis://127.0.0.1:6379"
[nonce]
mode = "worker-queue"
worker_count = 16
worker_queue_capacity = 1024
reject_policy = "fail-fast"
state_timeout = "30s"
hold_timeout = "60s"
caller_wait = "1s"
held_expiry = "suspect"
[nonce.lease]
duration = "10s"
renew_interval = "3s"
[nonce.chain_query]
enabled = true
mode = "latest"
[lane]
max_in_flight = 500
outside_use = "pause"
[cluster]
advertise_url = "https://10.0.0.5:7420"
not_holder = "accept"
[tx.resubmit]
enabled = true
interval = "60s"
bump_after = "120s"
bump_percent = 12.5
max_attempts = 0
[confirmations]
required = 20
stale_receipt_timeout = "60s"
receipt_workers = 10
fetch_receipt_upon_entry = false
reorg_window = 128
[[chain]]
id = 31337
endpoints = ["http://127.0.0.1:8545"]
[[signer]]
key = "env:STILE_KEY"
"#;

const ADDRESS: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// Known to everybody: the first key of the development chains.
const PRIVATE_KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

fn environment(variables: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    let owned: Vec<_> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    owned.into_iter()
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    parse_with(text, &[])
}

fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    Config::parse("stile.toml", text, environment(variables))
}

/// What is said, line by line, about a text that must not load.
fn complaints(text: &str) -> Vec<String> {
    complaints_with(text, &[])
}

fn complaints_with(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let errors = parse_with(text, variables).expect_err("a configuration with problems");
    errors.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn what_is_shown_loads_as_the_same() {
    for text in
        ["", SAMPLE, "[confirmations]\nfinality = \"safe\"\n[nonce]\ncaller_wait = \"1500ms\""]
    {
        let config = parse(text).expect("a configuration");
        let shown = config.to_toml().expect("TOML");
        assert_eq!(parse(&shown).expect("what is shown"), config, "{shown}");
    }
}
