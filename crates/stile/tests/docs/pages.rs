//! Generated pages, error codes, the README's example.

use std::collections::HashSet;

use stile_server::code::Code;

use crate::{read, root};

#[test]
fn generated_pages_are_what_the_code_says() {
    let openapi = stile_server::openapi().to_pretty_json().unwrap() + "\n";
    for (page, name, generated) in [
        ("docs/errors.md", "errors", stile_server::code::reference_markdown()),
        ("docs/metrics.md", "metrics", stile_engine::metrics::reference_markdown()),
        ("docs/states.md", "states", stile_domain::tx::reference_markdown()),
        ("docs/openapi.json", "openapi", openapi),
    ] {
        let differs = read(page) != generated;
        assert!(!differs, "{page} is out of date; run: cargo run -- reference {name} > {page}");
    }
}

/// Tables, code, and what others wrote are as wide as they are.
#[test]
fn prose_is_wrapped_at_100_columns() {
    let mut pages = vec!["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    pages.extend(["SECURITY.md", "scripts/planted.d/README.md"]);
    let mut pages: Vec<String> = pages.into_iter().map(str::to_owned).collect();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    let mut wide = Vec::new();
    for page in pages {
        let mut is_code = false;
        for (number, line) in (1..).zip(read(&page).lines()) {
            is_code ^= line.trim_start().starts_with("```");
            if !is_code && !line.starts_with('|') && line.chars().count() > 100 {
                wide.push(format!("{page}:{number}"));
            }
        }
    }
    assert!(wide.is_empty(), "lines of more than 100 columns: {wide:?}");
}

#[test]
fn error_codes_are_unique_and_say_what_to_do() {
    let mut codes = HashSet::new();
    for code in Code::ALL {
        let text = code.text();
        assert!(codes.insert(text), "{text} is there twice");
        let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(plain && !text.is_empty(), "{text}");
        assert!(!code.title().is_empty() && !code.hint().is_empty(), "{text}");
        assert!(code.status().is_client_error() || code.status().is_server_error(), "{text}");
    }
}

#[test]
fn the_readme_shows_the_examples_that_are_compiled() {
    let readme = read("README.md");
    let shown: Vec<&str> = readme
        .split("```rust\n")
        .skip(1)
        .map(|after| after.split_once("\n```").expect("the end of a ```rust block").0)
        .collect();
    let examples = ["embed", "nonces"].map(|name| read(format!("crates/stile/examples/{name}.rs")));
    assert_eq!(shown.len(), examples.len(), "a ```rust block for each example");
    for (shown, example) in shown.iter().zip(&examples) {
        assert_eq!(shown.trim_end(), example.trim_end());
    }
}
