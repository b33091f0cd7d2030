//! The table and the model agree, and the page is up to date.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Key, Preset, SECTIONS, Section, reference_markdown};
use crate::config::value::{Given, HumanDuration, Kind};
use crate::config::{Chain, Config, ConnectionUrl, IntrinsicGas, Origin, Signer, SignerSource};

/// A value the key accepts, other than its default.
fn sample(kind: Kind) -> Value {
    match kind {
        Kind::Boolean => Value::Boolean(true),
        Kind::Integer { max, .. } => Value::Integer(max),
        Kind::Decimal { max, .. } => Value::Float(max),
        Kind::Duration { max, .. } | Kind::Kept { max, .. } => Value::from(max.to_string()),
        Kind::Range { min, max } => Value::from(format!("{min}-{max}")),
        Kind::KeyPrefix => Value::from("a-b:c"),
        Kind::Choice(names) => Value::from(names[names.len() - 1]),
        Kind::Listen => Value::from("[::1]:1"),
        Kind::NodeId => Value::from("stile-a"),
        Kind::Url(schemes) => Value::from(format!("{}://host", schemes[0])),
        Kind::UrlList(schemes) => Value::from(vec![format!("{}://host", schemes[0])]),
        Kind::HostList => Value::from(vec!["stile.example"]),
        Kind::Address => Value::from("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        Kind::Secret => Value::from("env:STILE_KEY"),
        Kind::Path => Value::from("key.json"),
    }
}

fn keys(is_list: bool) -> impl Iterator<Item = (&'static Section, &'static Key)> {
    SECTIONS
        .iter()
        .filter(move |section| section.is_list == is_list)
        .flat_map(|section| section.keys.iter().map(move |key| (*section, key)))
}

fn path(section: &Section, key: &Key) -> String {
    format!("{}.{}", section.name, key.name)
}

fn flatten(prefix: &str, table: &Table, into: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(table) => flatten(&path, table, into),
            Value::Array(list) if list.is_empty() => {}
            value => {
                into.insert(path, value.clone());
            }
        }
    }
}

fn flattened<T: serde::Serialize>(prefix: &str, value: T) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    flatten(prefix, &Table::try_from(value).expect("a table"), &mut flat);
    flat
}

/// A document that sets nothing but this key.
fn document(path: &str, value: Value) -> Table {
    path.rsplit('.')
        .fold(value, |inner, name| Value::Table(Table::from_iter([(name.to_owned(), inner)])))
        .try_into()
        .expect("a table")
}

#[test]
fn defaults_are_those_of_the_model() {
    let table: BTreeMap<String, Value> = keys(false)
        .filter_map(|(section, key)| match key.preset {
            Preset::Value(text) => {
                let value =
                    key.kind.check(Given::Variable(text)).expect("a default its own kind accepts");
                Some((path(section, key), value))
            }
            _ => None,
        })
        .collect();
    assert_eq!(table, flattened("", Config::default()));
}

#[test]
fn the_model_takes_every_key_and_gives_it_back() {
    for (section, key) in keys(false) {
        let path = path(section, key);
        let config: Config = document(&path, sample(key.kind))
            .try_into()
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(flattened("", config).get(&path), Some(&sample(key.kind)), "{path}");
    }
}

#[test]
fn bounds_and_names_fit_the_model() {
    for (section, key) in keys(false) {
        let values: Vec<Value> = match key.kind {
            Kind::Integer { min, max } => vec![min.into(), max.into()],
            Kind::Choice(names) => names.iter().map(|name| Value::from(*name)).collect(),
            _ => continue,
        };
        for value in values {
            let path = path(section, key);
            let outcome = document(&path, value.clone()).try_into::<Config>();
            assert!(outcome.is_ok(), "{path} = {value}: {outcome:?}");
        }
    }
}

#[test]
fn lists_have_the_keys_of_the_model() {
    let url = ConnectionUrl::from("http://host");
    let secret = || "env:STILE_KEY".parse().expect("a reference");
    let address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".to_owned();
    let chain = Chain {
        id: 1,
        endpoints: vec![url.clone()],
        max_fee_gwei: Some(1.5),
        max_concurrency: 8,
        quorum: Some(1),
        answer_timeout: Some(HumanDuration::from_secs(5)),
        intrinsic_gas: IntrinsicGas::Unchecked,
    };
    let mut model: Vec<String> = flattened("chain", chain).into_keys().collect();
    for source in [
        SignerSource::Key { key: secret() },
        SignerSource::Keystore { path: "key.json".into(), password: Some(secret()), address: None },
        SignerSource::Remote { url, address },
    ] {
        let signer = Signer { chain: Some(1), source, origin: Origin::Default };
        model.extend(flattened("signer", signer).into_keys());
    }
    model.sort();
    model.dedup();
    let mut table: Vec<String> = keys(true).map(|(section, key)| path(section, key)).collect();
    table.sort();
    assert_eq!(table, model);
}

#[test]
fn the_page_is_up_to_date() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let committed = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        committed == reference_markdown(),
        "docs/configuration.md is out of date; make it again with: \
         cargo run -- config reference > docs/configuration.md"
    );
}

#[test]
fn the_example_on_the_page_loads() {
    let page = reference_markdown();
    let (_, rest) = page.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    Config::parse("example", example, std::iter::empty()).expect("a good example");
}
