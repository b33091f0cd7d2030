//! `stile node`: the nodes that a running server knows.
//!
//! | file | what is in it |
//! |---|---|
//! | `show` | what is printed of them |

mod show;

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Client, ServerArgs, encoded};
use super::{Failure, table};

#[derive(Debug, Subcommand)]
pub(super) enum NodeCommand {
    /// List the nodes that live: Stile's own, and those that registered.
    List(ListArgs),
    /// Show one node.
    Show(ShowArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only the members of this pool; Stile's own nodes are in the pool stile.
    #[arg(long)]
    pool: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The node's name.
    id: String,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) async fn node(
    command: NodeCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        NodeCommand::List(args) => {
            let client = args.server.client(environment)?;
            let nodes = all(&client, args.pool.as_deref()).await?;
            say_how_redis_is(&client).await;
            let text = |nodes: &Value| show::listed(nodes, now_ms());
            table::print(&if args.server.json { table::json(&nodes) } else { text(&nodes) })
        }
        NodeCommand::Show(args) => {
            let path = format!("/api/v1/nodes/{}", encoded(&args.id));
            let client = args.server.client(environment)?;
            let node = client.get(&path, &[]).await?;
            say_how_redis_is(&client).await;
            let text = |node: &Value| show::shown(node, now_ms());
            table::print(&if args.server.json { table::json(&node) } else { text(&node) })
        }
    }
}

/// All pages as one.
async fn all(client: &Client, pool: Option<&str>) -> Result<Value, Failure> {
    let path = match pool {
        Some(pool) => format!("/api/v1/pools/{}/members", encoded(pool)),
        None => "/api/v1/nodes".to_owned(),
    };
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("limit", "500".to_owned())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = client.get(&path, &query).await?;
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(json!({ "items": items, "next": null })),
        }
    }
}

/// Says so if the server has to do without Redis: what it knows grows old.
async fn say_how_redis_is(client: &Client) {
    let Ok(ready) = client.get("/health/ready", &[]).await else { return };
    if let Some(mode) = ready["registry"].as_str().filter(|mode| *mode != "normal") {
        eprintln!(
            "note: Redis does not answer this server ({mode}): nodes are as it last heard of them"
        );
    }
}

/// Milliseconds since 1970 by this machine's clock.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
