//! The reference page, `docs/configuration.md`.

use std::fmt::Write as _;

use super::{Key, Preset, SECTIONS, Section};

const OPENING: &str = r#"# Configuration

<!-- Made from the table in the code: `cargo run -- config reference > docs/configuration.md` -->

Stile reads one TOML file, given by `--config`. Nearly every key has a default, so the file may be
short, or missing:

```toml
[store]
url = "postgres://stile@db.internal/stile"

[[chain]]
id = 1
endpoints = ["https://rpc.example"]

[[signer]]
address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
```

**Environment.** Every key can be overridden by a variable: `nonce.lease.duration` is
`STILE__NONCE__LEASE__DURATION`. The lists are set as a whole, as a TOML array:
`STILE__CHAIN='[{ id = 1, endpoints = ["https://rpc.example"] }]'`. Names of hosts can also be
separated by commas: `STILE__SERVER__HOSTS=stile.example,stile.internal`.

**Durations** are a whole number and a unit: `"500ms"`, `"10s"`, `"2m"`, `"1h"`, `"30d"`.

**Secrets** are given by reference: `"env:NAME"` for an environment variable, `"file:PATH"` for a
file. A secret written into the configuration is refused. The password of a database is part of
its URL: keep it out of the file by giving the whole URL as `STILE__STORE__URL`.

**Mistakes** are all reported at once, each with its file and line or its variable. An unknown key
or variable is a mistake too. `stile config check` looks for them without starting anything;
`stile config show` prints what is in effect.
"#;

const TABLE_HEAD: &str = "\
| key | accepts | default | what it does |
|---|---|---|---|
";

/// The reference page as Markdown, every key of it.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = OPENING.to_owned();
    for section in SECTIONS {
        push_section(&mut page, section);
    }
    page
}

/// Columns of a line of prose.
const COLUMNS: usize = 100;

fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= COLUMNS {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn push_section(page: &mut String, section: &Section) {
    let (open, close) = if section.is_list { ("[[", "]]") } else { ("[", "]") };
    let (name, text) = (section.name, wrapped(section.text));
    // Writing to a string does not fail.
    let _ = write!(page, "\n## `{open}{name}{close}`\n\n{text}\n\n{TABLE_HEAD}");
    for key in section.keys {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            key.name,
            key.kind,
            default_of(key),
            key.text
        );
    }
}

fn default_of(key: &Key) -> String {
    match key.preset {
        Preset::Value(value) if key.kind.is_quoted() => format!("`\"{value}\"`"),
        Preset::Value(value) => format!("`{value}`"),
        Preset::Unset(meaning) => meaning.to_owned(),
        Preset::Required => "must be set".to_owned(),
    }
}
