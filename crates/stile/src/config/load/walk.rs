//! Walks a TOML document, keeps what is right and reports the rest.

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::layer::Layer;
use super::{Origin, nearest};
use crate::config::reference::{Key, Known, Preset, Section, lookup};
use crate::config::value::Given;

/// A walk over one document, reporting into a layer.
pub(super) struct Walk<'a> {
    layer: &'a mut Layer,
    /// From a byte offset in the document to where that is.
    locate: &'a dyn Fn(usize) -> Origin,
}

/// Where in the document the walk is.
struct Place {
    /// As the reference knows it: `chain.id`.
    known: String,
    /// As people are told: `chain[0].id`.
    shown: String,
}

impl Place {
    fn root() -> Self {
        Self { known: String::new(), shown: String::new() }
    }

    fn child(&self, name: &str) -> Self {
        let join = |path: &str| {
            if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
        };
        Self { known: join(&self.known), shown: join(&self.shown) }
    }

    fn element(&self, index: usize) -> Self {
        Self { known: self.known.clone(), shown: format!("{}[{index}]", self.shown) }
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(layer: &'a mut Layer, locate: &'a dyn Fn(usize) -> Origin) -> Self {
        Self { layer, locate }
    }

    /// The good values of a whole document.
    pub(super) fn document(&mut self, table: &DeTable<'_>) -> Table {
        self.table(&Place::root(), table)
    }

    /// The good values of a list that stands by itself.
    pub(super) fn lone_list(
        &mut self,
        section: &'static Section,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Value> {
        self.list(&Place::root().child(section.name), section, value)
    }

    fn table(&mut self, place: &Place, table: &DeTable<'_>) -> Table {
        let mut good = Table::new();
        for (name, value) in table {
            let origin = (self.locate)(name.span().start);
            let child = place.child(name.get_ref());
            self.layer.origins.insert(child.shown.clone(), origin.clone());
            if let Some(value) = self.value(&child, origin, value) {
                good.insert(name.get_ref().to_string(), value);
            }
        }
        good
    }

    fn value(
        &mut self,
        place: &Place,
        origin: Origin,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Value> {
        match lookup(&place.known) {
            Known::Key(_, key) => self.single(place, key, value),
            Known::Section => self.section(place, origin, value),
            Known::List(section) => self.list(place, section, value),
            Known::Nothing => {
                let message = nearest::unknown(&place.known, value.get_ref().is_table());
                self.layer.report(origin, &place.shown, message);
                None
            }
        }
    }

    fn single(&mut self, place: &Place, key: &Key, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let checked = key.kind.check(Given::Toml(value.get_ref()));
        checked.map_err(|message| self.report_at(value, place, message)).ok()
    }

    fn section(
        &mut self,
        place: &Place,
        origin: Origin,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Value> {
        match value.get_ref() {
            DeValue::Table(table) => Some(Value::Table(self.table(place, table))),
            _ => {
                self.layer.report(
                    origin,
                    &place.shown,
                    format!("is a section, written [{}]", place.known),
                );
                None
            }
        }
    }

    fn list(
        &mut self,
        place: &Place,
        section: &Section,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Value> {
        let DeValue::Array(elements) = value.get_ref() else {
            self.report_at(
                value,
                place,
                format!("is a list; each entry begins with [[{}]]", section.name),
            );
            return None;
        };
        let mut good = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let place = place.element(index);
            let origin = (self.locate)(element.span().start);
            self.layer.origins.insert(place.shown.clone(), origin.clone());
            match element.get_ref() {
                DeValue::Table(table) => {
                    self.report_missing(&place, &origin, section, table);
                    good.push(Value::Table(self.table(&place, table)));
                }
                _ => self.layer.report(origin, &place.shown, "must be a table"),
            }
        }
        Some(Value::Array(good))
    }

    fn report_missing(
        &mut self,
        place: &Place,
        origin: &Origin,
        section: &Section,
        table: &DeTable<'_>,
    ) {
        for key in section.keys.iter().filter(|key| matches!(key.preset, Preset::Required)) {
            if !table.keys().any(|name| name.get_ref() == key.name) {
                self.layer.report(origin.clone(), &place.shown, format!("must have {}", key.name));
            }
        }
    }

    fn report_at(&mut self, value: &Spanned<DeValue<'_>>, place: &Place, message: String) {
        let origin = (self.locate)(value.span().start);
        self.layer.report(origin, &place.shown, message);
    }
}
