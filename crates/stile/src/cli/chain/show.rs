//! What is printed of a chain.

use serde_json::Value;

use crate::cli::table::{self, cell, text};

/// One chain, or all of a list.
pub(super) fn shown(chains: &Value) -> String {
    match chains["items"].as_array() {
        Some(items) => items.iter().map(chain).collect::<Vec<_>>().join("\n\n"),
        None => chain(chains),
    }
}

fn chain(chain: &Value) -> String {
    let endpoints = chain["endpoints"].as_array().cloned().unwrap_or_default();
    let mut parts = vec![table::details(vec![
        ("chain", text(&chain["chainId"])),
        ("head", cell(&chain["head"])),
        ("safe", text(&chain["safe"])),
        ("finalized", text(&chain["finalized"])),
        ("block time", seconds(&chain["blockTimeSeconds"])),
        ("quorum", format!("{} of {}", text(&chain["quorum"]), endpoints.len())),
    ])];
    for endpoint in &endpoints {
        parts.push(table::details(vec![
            ("endpoint", text(&endpoint["endpoint"])),
            ("in use", if endpoint["usable"] == true { "yes" } else { "no" }.to_owned()),
            ("why", text(&endpoint["why"])),
            ("head", cell(&endpoint["head"])),
            ("lag", text(&endpoint["lag"])),
            ("takes no transactions", text(&endpoint["readOnly"])),
            ("contradiction", text(&endpoint["contradiction"])),
            ("node", cell(&endpoint["clientVersion"])),
        ]));
        parts.push(capabilities(&endpoint["capabilities"]));
    }
    parts.join("\n\n")
}

/// The table of what an endpoint can do.
pub(super) fn capabilities(rows: &Value) -> String {
    let rows = rows.as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        let detail = Some(text(&row["detail"])).filter(|detail| !detail.is_empty());
        let supported = text(&row["supported"]);
        vec![
            text(&row["name"]),
            detail.map_or(supported.clone(), |detail| format!("{supported}, {detail}")),
            cell(&row["instead"]),
            cell(&row["impossible"]),
        ]
    };
    let header = ["CAN", "SUPPORTED", "WHAT STILE DOES INSTEAD", "NOT POSSIBLE BECAUSE OF IT"];
    table::list(&header, &[], rows.iter().map(row).collect())
}

/// A time in seconds; nothing if it is not known.
pub(super) fn seconds(value: &Value) -> String {
    value.as_f64().map(|seconds| format!("{seconds:.2} s")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chain_is_shown_with_what_its_endpoints_can_do() {
        let capabilities = json!([
            { "name": "tag-safe", "supported": "no", "detail": null,
              "instead": "finality by a number of blocks", "impossible": "finality `safe`" },
            { "name": "batches", "supported": "yes", "detail": "100 calls answered",
              "instead": null, "impossible": null },
        ]);
        let endpoint = json!({
            "endpoint": "node:8545", "usable": true, "why": null, "head": 7, "lag": 0,
            "readOnly": null, "contradiction": null, "clientVersion": "Geth/v1.8.23",
            "capabilities": capabilities,
        });
        let one = json!({
            "chainId": 5, "head": 7, "safe": null, "finalized": null, "blockTimeSeconds": 1.25,
            "quorum": 1, "endpoints": [endpoint],
        });
        let text = shown(&json!({ "items": [one] }));
        for part in [
            "block time  1.25 s",
            "quorum      1 of 1",
            "node      Geth/v1.8.23",
            "finality `safe`",
            "yes, 100 calls answered",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
