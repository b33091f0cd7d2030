//! What goes to standard output: tables for people, JSON for programs.

use std::io::{ErrorKind, Write};

use comfy_table::{CellAlignment, Table};
use serde_json::Value;

use super::Failure;

/// A list: a line for each, aligned, nothing drawn around it.
pub(super) fn list(header: &[&str], numbers: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header).add_rows(rows);
    for column in numbers {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    trimmed(&table)
}

/// One thing: a line for each of its properties that it has.
pub(super) fn details(rows: Vec<(&str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    for (name, value) in rows {
        if !value.is_empty() {
            table.add_row([name.to_owned(), value]);
        }
    }
    trimmed(&table)
}

/// Without the blanks at the ends of lines.
fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

/// A value of an answer as text, in one line; nothing for null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace(['\n', '\r', '\t'], " "),
        other => other.to_string(),
    }
}

/// A value in a list, where an empty cell would look like a mistake.
pub(super) fn cell(value: &Value) -> String {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
}

/// JSON for programs.
pub(super) fn json(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Without what would move a terminal's cursor or change its colours: texts of an answer were written by
/// whoever had a key.
pub(super) fn harmless(text: &str) -> String {
    let is_harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{}", harmless(text)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_others_do_nothing_to_a_terminal() {
        let reason = text(&json!("x\n2026 ERROR fake \u{1b}[31m red"));
        assert_eq!(harmless(&reason), "x 2026 ERROR fake \u{fffd}[31m red");
        assert_eq!(harmless("a\tb\nc\r\u{9b}"), "a\tb\nc\u{fffd}\u{fffd}");
    }
}
