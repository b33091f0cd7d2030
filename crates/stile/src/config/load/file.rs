//! The file: from text to a layer.

use std::io::ErrorKind;
use std::path::Path;

use toml::de::DeTable;

use super::layer::Layer;
use super::walk::Walk;
use super::{Origin, Problem};

/// Reads the file at `path`. One that cannot be read or is not TOML becomes a layer that says so.
pub(super) fn read(path: &Path) -> Layer {
    let name = path.display().to_string();
    let message = match std::fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => return parse(&name, &text),
            Err(_) => "is not UTF-8 text".to_owned(),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => "there is no such file".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    Layer::unreadable(vec![Problem { origin: Origin::File { name }, key: None, message }])
}

/// Reads `text`; `name` stands for it in problems.
///
/// After a syntax error nothing else is looked for: what the rest of the text means is a guess.
pub(super) fn parse(name: &str, text: &str) -> Layer {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Layer::unreadable(
            errors.iter().map(|error| syntax_problem(name, text, error)).collect(),
        );
    }
    let locate = |offset| Origin::Line { name: name.to_owned(), line: position(text, offset).0 };
    let mut layer = Layer::default();
    layer.table = Walk::new(&mut layer, &locate).document(document.get_ref());
    layer.check_one_finality();
    layer
}

/// Takes only the message of the parser: its full display repeats the line, which may be a secret.
fn syntax_problem(name: &str, text: &str, error: &toml::de::Error) -> Problem {
    let (line, column) = position(text, error.span().map_or(text.len(), |span| span.start));
    Problem {
        origin: Origin::Point { name: name.to_owned(), line, column },
        key: None,
        message: error.message().to_owned(),
    }
}

/// The line and the column, both from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn counts_lines_and_characters_from_one() {
        let text = "a\nüb\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 2), (2, 1));
        assert_eq!(position(text, 4), (2, 2));
        assert_eq!(position(text, text.len()), (3, 1));
    }
}
