//! From a file and the environment to a [`Config`], or to every problem at once.
//!
//! Each source becomes a [`Layer`]: the values that are right by themselves, where each came from,
//! and the problems of the rest. The layer of the environment is laid over that of the file; what
//! comes out is built into the model, and only then are keys compared with each other.

mod build;
mod environment;
mod file;
mod layer;
mod nearest;
mod node_id;
mod problem;
mod rules;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;

use self::layer::Layer;
pub use self::problem::{ConfigErrors, Origin, Problem};
use super::Config;

/// The environment as it was passed in, by name.
pub(super) type Variables = BTreeMap<String, String>;

/// Loads the file at `path`, or defaults alone, and the environment.
pub(super) fn from_path(
    path: Option<&Path>,
    variables: &Variables,
) -> Result<Config, ConfigErrors> {
    let file = path.map_or_else(Layer::default, file::read);
    finish(file, variables)
}

/// Loads a text that stands for the file, and the environment.
pub(super) fn from_text(
    name: &str,
    text: &str,
    variables: &Variables,
) -> Result<Config, ConfigErrors> {
    finish(file::parse(name, text), variables)
}

fn finish(file: Layer, variables: &Variables) -> Result<Config, ConfigErrors> {
    let mut layer = file.overlaid_with(environment::read(variables));
    let config = build::build(&mut layer, variables);
    match config {
        Some(config) if layer.problems.is_empty() => Ok(config),
        _ => Err(ConfigErrors::new(layer.problems)),
    }
}
