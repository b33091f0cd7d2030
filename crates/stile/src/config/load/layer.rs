//! The values of one source, with where each came from.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Origin, Problem};

/// The two ways to say when a transaction is done, of which a source gives at most one.
const REQUIRED: &str = "confirmations.required";
const FINALITY: &str = "confirmations.finality";

/// What one source says: values that are right by themselves, and the problems of the others.
#[derive(Default)]
pub(super) struct Layer {
    /// The good values, in the shape of the file.
    pub(super) table: Table,
    /// Where each key came from, good or bad, by its shown path (`chain[0].id`).
    pub(super) origins: BTreeMap<String, Origin>,
    /// What was wrong so far.
    pub(super) problems: Vec<Problem>,
    /// The source could not be read as a whole, so that nothing can be said about missing values.
    pub(super) is_unreadable: bool,
}

impl Layer {
    /// A source that could not be read, and why.
    pub(super) fn unreadable(problems: Vec<Problem>) -> Self {
        Self { problems, is_unreadable: true, ..Self::default() }
    }

    /// Records what is wrong with `key`.
    pub(super) fn report(&mut self, origin: Origin, key: &str, message: impl Into<String>) {
        self.problems.push(Problem { origin, key: Some(key.to_owned()), message: message.into() });
    }

    /// Where the first of `keys` that was given came from.
    pub(super) fn origin_of(&self, keys: &[&str]) -> Origin {
        let given = keys.iter().find_map(|key| self.origins.get(*key));
        given.cloned().unwrap_or(Origin::Default)
    }

    /// Whether `key`, or anything inside it or around it, has a problem.
    pub(super) fn is_bad(&self, key: &str) -> bool {
        let keys = self.problems.iter().filter_map(|problem| problem.key.as_deref());
        keys.into_iter().any(|bad| bad == key || is_inside(bad, key) || is_inside(key, bad))
    }

    /// Whether the value the model has for `key` may not be the one that was meant: it has a
    /// problem of its own, or it was not given and its section has a problem, perhaps this key
    /// misspelt.
    pub(super) fn is_in_doubt(&self, key: &str) -> bool {
        let section = key.rsplit_once('.').map_or(key, |(section, _)| section);
        self.problems.iter().any(|problem| problem.key.as_deref() == Some(key))
            || (!self.origins.contains_key(key) && self.is_bad(section))
    }

    /// The good value at a dotted path.
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        let (first, rest) = split_first(path);
        let value = self.table.get(first)?;
        rest.split('.')
            .filter(|name| !name.is_empty())
            .try_fold(value, |value, name| value.get(name))
    }

    /// Sets the value at a dotted path of tables.
    pub(super) fn set(&mut self, path: &str, value: Value) {
        set_in(&mut self.table, path, value);
    }

    /// Says so if the source gives both kinds of finality.
    pub(super) fn check_one_finality(&mut self) {
        if self.get(REQUIRED).is_some() && self.get(FINALITY).is_some() {
            let origin = self.origin_of(&[FINALITY]);
            self.report(origin, FINALITY, format!("cannot be given together with {REQUIRED}"));
            self.remove(REQUIRED);
        }
    }

    /// This layer with what `upper` gives in its place. A list is replaced as a whole, and so is
    /// one kind of finality by the other.
    pub(super) fn overlaid_with(mut self, upper: Self) -> Self {
        for (mine, other) in [(REQUIRED, FINALITY), (FINALITY, REQUIRED)] {
            if upper.get(mine).is_some() {
                self.remove(other);
            }
        }
        for list in upper.table.iter().filter(|(_, value)| value.is_array()).map(|(name, _)| name) {
            self.origins.retain(|key, _| !is_inside(key, list));
        }
        overlay(&mut self.table, upper.table);
        self.origins.extend(upper.origins);
        self.problems.extend(upper.problems);
        self.is_unreadable |= upper.is_unreadable;
        self
    }

    fn remove(&mut self, path: &str) {
        self.origins.remove(path);
        if let Some((section, name)) = path.rsplit_once('.')
            && let Some(Value::Table(table)) = self.table.get_mut(section)
        {
            table.remove(name);
        }
    }
}

/// Whether `key` lies inside `outer`, a section or a list.
fn is_inside(key: &str, outer: &str) -> bool {
    key.strip_prefix(outer).is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn split_first(path: &str) -> (&str, &str) {
    path.split_once('.').unwrap_or((path, ""))
}

fn set_in(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                set_in(inner, rest, value);
            }
        }
    }
}

fn overlay(lower: &mut Table, upper: Table) {
    for (name, value) in upper {
        match (lower.get_mut(&name), value) {
            (Some(Value::Table(lower)), Value::Table(upper)) => overlay(lower, upper),
            (_, value) => {
                lower.insert(name, value);
            }
        }
    }
}
