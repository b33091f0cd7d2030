//! A result as it came, with where it came from: what of it cannot be read is written down there.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::CallError;
use crate::calls::Method;
use crate::unreadable::{Ledger, WHOLE};

/// A result as it came.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    text: Box<RawValue>,
    source: Option<Source>,
}

/// Which question it answers, and where it is written down if it cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    method: Method,
    ledger: Arc<Ledger>,
}

/// Why an answer that can be parsed cannot be: the field, and in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) field: &'static str,
    pub(crate) words: &'static str,
}

/// What cannot be read of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    method: Option<&'static str>,
    field: String,
    words: String,
}

#[cfg(test)]
impl Unread {
    pub(crate) fn field(&self) -> &str {
        &self.field
    }
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, field, words } = self;
        f.write_str(words)?;
        match method {
            Some(method) if field == WHOLE => write!(f, " to {method}"),
            Some(method) => write!(f, " to {method} (field {field})"),
            None => Ok(()),
        }
    }
}

impl From<Box<RawValue>> for Raw {
    fn from(text: Box<RawValue>) -> Self {
        Self { text, source: None }
    }
}

impl Raw {
    /// The same, as the answer to a question at the endpoint that this ledger is about.
    pub(crate) fn of(self, method: Method, ledger: &Arc<Ledger>) -> Self {
        Self { source: Some(Source { method, ledger: Arc::clone(ledger) }), ..self }
    }

    /// A part of an answer, which comes from where all of it does.
    pub(crate) fn part(text: Box<RawValue>, source: Option<Source>) -> Self {
        Self { text, source }
    }

    pub(crate) fn source(&self) -> Option<Source> {
        self.source.clone()
    }

    /// Its text.
    pub(crate) fn get(&self) -> &str {
        self.text.get()
    }

    /// Reads it as a `T`; `None` for `null`.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<Option<T>, CallError> {
        serde_json::from_str(self.get()).map_err(|_| {
            let (field, why) = fault_of::<T>(self.get());
            self.unreadable(&field, &format!("something that cannot be understood: {why}"))
        })
    }

    /// It can be parsed, and cannot be.
    pub(crate) fn refuse(&self, bad: Bad) -> CallError {
        self.unreadable(bad.field, bad.words)
    }

    /// Something of it cannot be read, and is done without: it is written down.
    pub(crate) fn mention(&self, bad: Bad) {
        if let Some(Source { method, ledger }) = &self.source {
            ledger.note(*method, bad.field, bad.words, self.get());
        }
    }

    fn unreadable(&self, field: &str, words: &str) -> CallError {
        let unread = match &self.source {
            Some(Source { method, ledger }) => {
                let words = ledger.note(*method, field, words, self.get());
                Unread { method: Some(method.name()), field: field.to_owned(), words }
            }
            None => Unread { method: None, field: field.to_owned(), words: words.to_owned() },
        };
        CallError::Unreadable(Box::new(unread))
    }
}

/// Which field cannot be read, and why. What is read is read once more, since only what cannot be is
/// worth the time that it takes to remember the way.
fn fault_of<T: DeserializeOwned>(text: &str) -> (String, String) {
    let mut json = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, Option<T>>(&mut json) else {
        return (WHOLE.to_owned(), "it has no end".to_owned());
    };
    let path = path(&error.path().to_string());
    let why = error.inner().to_string();
    // Where it is in the text tells nobody anything.
    let why = why.split(" at line ").next().unwrap_or_default().to_owned();
    let missing = why.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let field = match (path.as_str(), missing) {
        ("", None) => WHOLE.to_owned(),
        ("", Some(missing)) => missing.to_owned(),
        (path, Some(missing)) => format!("{path}.{missing}"),
        (path, None) => path.to_owned(),
    };
    (field, why)
}

/// The way to a field without the places in lists, which would make it another field each time.
fn path(told: &str) -> String {
    let mut path = String::with_capacity(told.len());
    let mut in_list = false;
    for c in told.chars() {
        match c {
            '[' => in_list = true,
            ']' => {
                in_list = false;
                path.push_str("[]");
            }
            _ if in_list => {}
            c => path.push(c),
        }
    }
    path.trim_matches(['.', '?']).to_owned()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only how it is read matters")]
    struct Told {
        gas_used: u64,
        #[serde(default)]
        logs: Vec<Log>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only how it is read matters")]
    struct Log {
        data: String,
    }

    #[test]
    fn hole_37_the_field_that_cannot_be_read_is_named() {
        for (text, field) in [
            (r#"{"status":"0x1"}"#, "gasUsed"),
            (r#"{"gasUsed":"much"}"#, "gasUsed"),
            (r#"{"gasUsed":1,"logs":[{"data":"0x"},{}]}"#, "logs[].data"),
            (r#"{"gasUsed":1,"logs":[{"data":7}]}"#, "logs[].data"),
            (r#"{"gasUsed":1,"logs":7}"#, "logs"),
            ("[7]", "result"),
            ("true", "result"),
        ] {
            let (found, why) = fault_of::<Told>(text);
            assert_eq!(found, field, "{text}: {why}");
            assert!(!why.contains("line"), "{why}");
        }
    }
}
