//! A value as somebody gave it, before it is known to be right.

use std::fmt;

use toml::Spanned;
use toml::de::DeValue;

/// Longer texts are cut when a message repeats them.
const SHOWN_CHARACTERS: usize = 60;

/// A value from a TOML document, which has a type, or from a variable, which is only text.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// Read from TOML.
    Toml(&'a DeValue<'a>),
    /// The text of an environment variable, taken as whatever type the key demands.
    Variable(&'a str),
}

impl<'a> Given<'a> {
    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Variable(text) => Some(text),
        }
    }

    pub(super) fn integer(self) -> Option<i64> {
        match self {
            Self::Toml(value) => value
                .as_integer()
                .and_then(|integer| i64::from_str_radix(integer.as_str(), integer.radix()).ok()),
            Self::Variable(text) => text.parse().ok(),
        }
    }

    pub(super) fn decimal(self) -> Option<f64> {
        match self {
            Self::Toml(DeValue::Float(float)) => float.as_str().parse().ok(),
            // Whole numbers of the sizes asked for here are exact as decimals.
            Self::Toml(_) => self.integer().map(|integer| integer as f64),
            Self::Variable(text) => text.parse().ok(),
        }
    }

    pub(super) fn boolean(self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Variable(text) => text.parse().ok(),
        }
    }

    /// The texts of a list of texts. A variable never holds one by itself, only inside a whole list
    /// of tables, which is read as TOML.
    pub(super) fn texts(self) -> Option<Vec<&'a str>> {
        match self {
            Self::Toml(value) => {
                value.as_array()?.iter().map(Spanned::get_ref).map(DeValue::as_str).collect()
            }
            Self::Variable(_) => None,
        }
    }
}

/// The value as a message repeats it. Not for keys that may hold a secret.
impl fmt::Display for Given<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toml(DeValue::String(text)) => show_text(text, formatter),
            Self::Toml(DeValue::Integer(integer)) => write!(formatter, "{integer}"),
            Self::Toml(DeValue::Float(float)) => write!(formatter, "{float}"),
            Self::Toml(DeValue::Boolean(boolean)) => write!(formatter, "{boolean}"),
            Self::Toml(DeValue::Datetime(_)) => formatter.write_str("a date"),
            Self::Toml(DeValue::Array(_)) => formatter.write_str("a list"),
            Self::Toml(DeValue::Table(_)) => formatter.write_str("a table"),
            Self::Variable(text) => show_text(text, formatter),
        }
    }
}

fn show_text(text: &str, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => write!(formatter, "{:?}", format!("{}…", &text[..end])),
        None => write!(formatter, "{text:?}"),
    }
}
