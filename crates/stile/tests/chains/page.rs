//! The tables, and the page they are in.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What came of one row: its name, what it was run on, and each step's end.
///
/// What is in parentheses is how it was this time (seconds, numbers of calls), and is told; what is
/// not is how it has to be.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) cells: Vec<(&'static str, String)>,
}

impl Row {
    pub(crate) fn new(name: &str) -> Self {
        Self { cells: vec![("", name.to_owned())] }
    }

    pub(crate) fn add(&mut self, column: &'static str, cell: impl Into<String>) {
        let cell = cell.into();
        // Seen where the test fails, so that one knows how far it came.
        println!("{}: {column}: {cell}", self.cells[0].1);
        self.cells.push((column, cell));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes a table to `target/chains/`, and holds the page to it if it is whole, or writes the page
/// where somebody asks for that.
pub(crate) fn keep(table: &str, rows: &[Row], whole: bool) {
    let made = markdown(rows);
    println!("{made}");
    keep_text(&format!("{table}.md"), &made);
    if !whole {
        return;
    }
    let page = root().join("docs/chains.md");
    let text = std::fs::read_to_string(&page).expect("read docs/chains.md");
    let (begin, end) = (format!("<!-- {table}: made by the tests -->\n"), "<!-- end -->\n");
    let (before, rest) = text.split_once(&begin).expect("the place of the table");
    let (shown, after) = rest.split_once(end).expect("the end of the table");
    if std::env::var_os("STILE_UPDATE_DOCS").is_some() {
        let text = format!("{before}{begin}\n{made}\n{end}{after}");
        std::fs::write(&page, text).expect("write docs/chains.md");
        return;
    }
    let (shown, made) = (without_measures(shown.trim()), without_measures(made.trim()));
    assert_eq!(
        shown, made,
        "docs/chains.md is out of date; run: STILE_UPDATE_DOCS=1 cargo test -p stile --test chains"
    );
}

/// Writes a file to `target/chains/`.
pub(crate) fn keep_text(file: &str, text: &str) {
    let place = root().join("target/chains");
    std::fs::create_dir_all(&place).expect("create a directory");
    std::fs::write(place.join(file), text).expect("write a file");
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else { return text };
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    text.push_str(&line(first.cells.iter().map(|(column, _)| *column).collect()));
    writeln!(text, "|{}", "---|".repeat(first.cells.len())).expect("write to a string");
    for row in rows {
        text.push_str(&line(row.cells.iter().map(|(_, cell)| cell.as_str()).collect()));
    }
    text
}

/// Without what differs from run to run.
fn without_measures(text: &str) -> String {
    let mut kept = String::new();
    let mut depth = 0;
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept
}
