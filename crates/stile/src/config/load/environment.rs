//! The environment: from `STILE__SECTION__KEY` variables to a layer.

use toml::de::DeValue;

use super::layer::Layer;
use super::walk::Walk;
use super::{Origin, Variables, nearest};
use crate::config::reference::{Known, Section, lookup};
use crate::config::value::Given;

const PREFIX: &str = "STILE__";

/// The variable that overrides a key: `nonce.mode` is `STILE__NONCE__MODE`.
pub(super) fn variable_name(path: &str) -> String {
    format!("{PREFIX}{}", path.to_ascii_uppercase().replace('.', "__"))
}

/// Reads every variable that begins with `STILE__`. One that names no key is a problem: it was
/// meant to change something.
pub(super) fn read(variables: &Variables) -> Layer {
    let mut layer = Layer::default();
    for (variable, text) in variables {
        if let Some(rest) = variable.strip_prefix(PREFIX) {
            let path = rest.to_ascii_lowercase().replace("__", ".");
            read_one(&mut layer, variable, &path, text);
        }
    }
    layer.check_one_finality();
    layer
}

fn read_one(layer: &mut Layer, variable: &str, path: &str, text: &str) {
    let origin = Origin::Variable { name: variable.to_owned() };
    layer.origins.insert(path.to_owned(), origin.clone());
    match lookup(path) {
        Known::Key(section, _) if section.is_list => {
            let list = variable_name(section.name);
            let message = format!("a list is set as a whole: {list} holds a TOML array of tables");
            layer.report(origin, path, message);
        }
        Known::Key(_, key) => match key.kind.check(Given::Variable(text)) {
            Ok(value) => layer.set(path, value),
            Err(message) => layer.report(origin, path, message),
        },
        Known::Section => {
            let message = format!("is a section; its keys are set as {}__…", variable_name(path));
            layer.report(origin, path, message);
        }
        Known::List(section) => read_list(layer, &origin, section, text),
        Known::Nothing => layer.report(origin, path, nearest::unknown_variable(path)),
    }
}

fn read_list(layer: &mut Layer, origin: &Origin, section: &'static Section, text: &str) {
    let value = match DeValue::parse(text) {
        Ok(value) => value,
        Err(error) => {
            // The message alone: the full display repeats the text, which may hold a secret.
            let message = format!("must be a TOML array of tables: {}", error.message());
            return layer.report(origin.clone(), section.name, message);
        }
    };
    let locate = |_| origin.clone();
    if let Some(list) = Walk::new(layer, &locate).lone_list(section, &value) {
        layer.set(section.name, list);
    }
}
