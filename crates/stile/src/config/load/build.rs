//! From the merged layer to the model.

use serde::de::DeserializeOwned;
use toml::Value;

use super::layer::Layer;
use super::{Variables, node_id, rules};
use crate::config::{Config, Signer};

/// Builds the model out of the good values and applies the rules across keys.
///
/// Problems go to the layer. Where a value was bad the model has its default, so that the other
/// rules can still be applied; the caller throws such a model away. `None` when there is too little
/// to apply any rule to.
pub(super) fn build(layer: &mut Layer, variables: &Variables) -> Option<Config> {
    if layer.is_unreadable {
        return None;
    }
    let chains = take_list(layer, "chain");
    let mut signers: Vec<Signer> = take_list(layer, "signer");
    for (index, signer) in signers.iter_mut().enumerate() {
        signer.origin = layer.origin_of(&[&format!("signer[{index}]")]);
    }
    let mut config = read_settings(layer)?;
    config.chains = chains;
    config.signers = signers;
    if let Some(id) = config.node.id.take() {
        match node_id::expand(&id, variables) {
            Ok(id) => config.node.id = Some(id),
            Err(message) => layer.report(layer.origin_of(&["node.id"]), "node.id", message),
        }
    }
    rules::check(&config, layer);
    Some(config)
}

/// Reads a list, or nothing at all if any entry has a problem, so that positions in what is
/// returned are positions in the source.
fn take_list<T: DeserializeOwned>(layer: &mut Layer, name: &str) -> Vec<T> {
    let elements = match layer.table.remove(name) {
        Some(Value::Array(elements)) if !layer.is_bad(name) => elements,
        _ => return Vec::new(),
    };
    let mut list = Vec::new();
    for (index, element) in elements.into_iter().enumerate() {
        match element.try_into::<T>() {
            Ok(entry) => list.push(entry),
            Err(error) => {
                let key = format!("{name}[{index}]");
                layer.report(layer.origin_of(&[&key]), &key, error.message());
            }
        }
    }
    if layer.is_bad(name) { Vec::new() } else { list }
}

/// Every value was checked on the way here, so a failure means that the reference and the model
/// disagree. It is reported like any other problem rather than allowed to stop the process.
fn read_settings(layer: &mut Layer) -> Option<Config> {
    let table = Value::Table(std::mem::take(&mut layer.table));
    match serde_path_to_error::deserialize(table) {
        Ok(config) => Some(config),
        Err(error) => {
            let key = error.path().to_string();
            layer.report(layer.origin_of(&[&key]), &key, error.inner().message());
            None
        }
    }
}
