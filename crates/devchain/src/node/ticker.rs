//! Making blocks as time passes.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Node;
use crate::options::Blocks;

/// Makes blocks, as often as was asked for, until told to end.
pub(crate) async fn tick(node: Arc<Node>, end: CancellationToken) {
    let mut blocks = node.blocks.subscribe();
    loop {
        let pace = *blocks.borrow_and_update();
        let due = async {
            match pace {
                Blocks::Every(period) => tokio::time::sleep(period).await,
                Blocks::Instant | Blocks::OnDemand => std::future::pending().await,
            }
        };
        tokio::select! {
            () = end.cancelled() => return,
            // Counted from the change, not from the last block.
            changed = blocks.changed() => if changed.is_err() { return },
            () = due => mine(&node).await,
        }
    }
}

async fn mine(node: &Arc<Node>) {
    let node = Arc::clone(node);
    let mined = tokio::task::spawn_blocking(move || node.mine()).await;
    match mined {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "no block"),
        Err(error) => tracing::error!(%error, "no block: it failed"),
    }
}
