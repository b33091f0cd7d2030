//! What is wrong with a configuration, and where.

use std::fmt;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A file, as a whole: it could not be read.
    File {
        /// The file as it was named.
        name: String,
    },
    /// A line of a file.
    Line {
        /// The file as it was named.
        name: String,
        /// The line, from 1.
        line: usize,
    },
    /// A point in a file, where it stopped being TOML.
    Point {
        /// The file as it was named.
        name: String,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// Nobody gave it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name } => formatter.write_str(name),
            Self::Line { name, line } => write!(formatter, "{name}:{line}"),
            Self::Point { name, line, column } => write!(formatter, "{name}:{line}:{column}"),
            Self::Variable { name } => write!(formatter, "environment {name}"),
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// One thing to put right. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// The key, such as `nonce.lease.duration` or `chain[0].id`; `None` for a file as a whole.
    pub key: Option<String>,
    /// What is wrong: the rule, and what was found instead.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.origin)?;
        if let Some(key) = &self.key {
            write!(formatter, "{key}: ")?;
        }
        formatter.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration: in the order of the file, then of the variables.
///
/// Shown as one line for each problem. There is always at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    problems: Vec<Problem>,
}

impl ConfigErrors {
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort();
        Self { problems }
    }

    /// The problems, one for each thing to put right.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}
