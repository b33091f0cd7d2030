//! What is Stile's own, and nobody else's to write.
//!
//! People and programs take what they find in Stile's own pools for nodes of Stile. So what comes over
//! HTTP is never in those pools: not by saying so, not by speaking for one of Stile's nodes, and not by
//! being faster than one that is just coming: every word that is written says its pools itself. Nor is
//! a slot in those pools given to anybody else: they are the calls that Stile may make to its chains.
//! What others write to Redis is not shown as one of Stile's nodes either, if the database does not
//! know it.

use stile_engine::cluster::registered::{POOL, is_reserved, live_node};
use stile_registry::{Heartbeat, Node, NodeId, PoolId, RegistryError};
use stile_store::LiveNode;

use crate::app::Shared;
use crate::code::Code;
use crate::problem::Problem;

/// Whether a node of the registry is what it says: not one of Stile's, or the very start of one of
/// Stile's nodes that the database knows, reached where the database says. Whoever can write to Redis
/// can say anything there.
pub(super) fn is_genuine(node: &Node, ours: &[LiveNode]) -> bool {
    let namesake = ours.iter().any(|own| own.node().0 == node.id.as_str());
    if !namesake && !node.pools.iter().any(|pool| pool.as_str() == POOL) {
        return true;
    }
    let said = live_node(node);
    said.is_some_and(|said| ours.iter().any(|own| own.record.holder == said.record.holder))
}

/// Refuses pools that are Stile's.
pub(super) fn check_pools(pools: &[PoolId]) -> Result<(), Problem> {
    match pools.iter().find(|pool| is_reserved(pool)) {
        Some(pool) => Err(reserved(format!("the pool {pool} is for what Stile registers itself"))),
        None => Ok(()),
    }
}

/// Refuses to write about a node that is Stile's.
pub(super) async fn check_node(app: &Shared, id: &NodeId) -> Result<(), Problem> {
    pools_of(app, id).await.map(drop)
}

/// Lets a heartbeat say its pools: those it names, or those that the node has.
pub(super) async fn with_pools(
    app: &Shared,
    id: &NodeId,
    mut heartbeat: Heartbeat,
) -> Result<Heartbeat, Problem> {
    let known = pools_of(app, id).await?;
    let pools = match (heartbeat.pools.take(), known) {
        (Some(said), _) => said,
        (None, Some(known)) => known,
        (None, None) => return Err(RegistryError::UnknownNode { node: id.clone() }.into()),
    };
    check_pools(&pools)?;
    heartbeat.pools = Some(pools);
    Ok(heartbeat)
}

/// The pools of a node that is not Stile's; `None` if there is no such node.
async fn pools_of(app: &Shared, id: &NodeId) -> Result<Option<Vec<PoolId>>, Problem> {
    let ours = app.node.router().nodes().iter().any(|node| node.node().0 == id.as_str());
    let node = app.registry.get_node(id).await?;
    if ours || node.as_ref().is_some_and(|node| node.pools.iter().any(is_reserved)) {
        return Err(reserved(format!("{id} is one of Stile's own: it tells of itself")));
    }
    Ok(node.map(|node| node.pools.clone()))
}

fn reserved(detail: String) -> Problem {
    Problem::new(Code::NodeReserved, detail)
}
