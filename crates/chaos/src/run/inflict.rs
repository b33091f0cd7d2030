//! How a fault is carried out, and ended.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{RpcProxy, Signal};
use tokio::time::Instant;

use super::chain::{Transfer, quantity};
use super::diary::now;
use super::node::Node;
use super::stage::Stage;
use super::{liar, restores};
use crate::evidence::{Own, Reorg};
use crate::schedule::{Fault, Planned, Trouble, Victim};

const SEND: &str = "eth_sendRawTransaction";

/// The time between two restores, however late the second one is: without any, no lane would get
/// anything done in between.
const BETWEEN_RESTORES: Duration = Duration::from_secs(1);

/// What a slow endpoint is slow at.
const READS: [&str; 6] = [
    SEND,
    "eth_blockNumber",
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
];

/// Carries out a plan; returns when its time is over and every fault has ended.
pub(super) async fn all(stage: &Arc<Stage>, plan: &[Planned], length: Duration) {
    let start = Instant::now();
    let faults = plan.iter().map(async |planned| {
        tokio::time::sleep_until(start + Duration::from_millis(planned.at)).await;
        let _turn = match planned.fault {
            Fault::Restore | Fault::PromoteLagging => {
                let turn = stage.turn.lock().await;
                let kind = planned.fault.kind();
                if Instant::now() > start + length && stage.diary.has_come(kind) {
                    // Each takes longer than planned, and they queue up.
                    return;
                }
                tokio::time::sleep(BETWEEN_RESTORES).await;
                Some(turn)
            }
            _ => None,
        };
        if one(stage, *planned).await {
            stage.diary.fault(planned.fault.kind());
        }
    });
    tokio::join!(futures::future::join_all(faults), tokio::time::sleep_until(start + length));
}

/// Carries out one fault to its end; `false` if it could not be.
async fn one(stage: &Arc<Stage>, planned: Planned) -> bool {
    let lasts = Duration::from_millis(planned.lasts);
    match planned.fault {
        Fault::Kill(victim) => {
            let node = take(stage, victim).await;
            node.kill().await;
            tokio::time::sleep(lasts).await;
            node.start();
        }
        Fault::Restart(victim) => {
            let node = take(stage, victim).await;
            node.terminate().await;
            tokio::time::sleep(lasts).await;
            node.start();
        }
        Fault::Stop(victim) => {
            let node = take(stage, victim).await;
            node.signal(Signal::Stop);
            tokio::time::sleep(lasts).await;
            node.signal(Signal::Cont);
        }
        Fault::CutStore(victim) => {
            let node = take(stage, victim).await;
            node.store.cut().await;
            tokio::time::sleep(lasts).await;
            node.store.heal().await;
        }
        Fault::FreezeStore(victim) => {
            let node = take(stage, victim).await;
            node.store.freeze();
            tokio::time::sleep(lasts).await;
            node.store.heal().await;
        }
        Fault::LoseCommit(victim) => {
            let node = take(stage, victim).await;
            node.store.drop_next_response_containing(b"COMMIT\0");
        }
        Fault::CrashStore => stage.database.crash(lasts).await,
        Fault::Promote { hangs } => {
            stage.database.fail_over(hangs, lasts, |moved| stage.lead(&moved)).await;
        }
        Fault::Restore => return restores::from_backup(stage, lasts).await.is_ok(),
        Fault::PromoteLagging => return restores::from_standby(stage, lasts).await.is_ok(),
        Fault::KillRedis
        | Fault::FreezeRedis
        | Fault::WipeRedis
        | Fault::HostileRedis(_)
        | Fault::CutRedis { .. } => {
            return redis(stage, planned.fault, lasts).await.is_some();
        }
        Fault::Endpoint(node, endpoint, trouble) => {
            let proxy = &stage.nodes[node].endpoints[endpoint];
            endpoint_in(proxy, trouble).await;
            tokio::time::sleep(lasts).await;
            proxy.heal().await;
        }
        Fault::ReadOnly(node, how) => stage.manners.is_read_only(node, how),
        Fault::Liar(endpoint, lie) => {
            return liar::tell(stage, endpoint, lie, lasts).await.is_ok();
        }
        Fault::UnknownWords => {
            let stopped = stage.chain.make_blocks(false).await.is_ok();
            stage.manners.speak_in_unknown_words(true);
            tokio::time::sleep(lasts).await;
            stage.manners.speak_in_unknown_words(false);
            return stage.chain.make_blocks(true).await.is_ok() && stopped;
        }
        Fault::ChainHangs => {
            let endpoints = || stage.nodes.iter().flat_map(|node| &node.endpoints);
            endpoints().for_each(RpcProxy::hang);
            tokio::time::sleep(lasts).await;
            for endpoint in endpoints() {
                endpoint.heal().await;
            }
        }
        Fault::EstimatesHang { lane } => {
            stage.manners.answer_to_estimates(false);
            stage.hard_to_estimate.lock().unwrap().push(lane);
            tokio::time::sleep(lasts).await;
            stage.manners.answer_to_estimates(true);
        }
        Fault::SideBlocks(victim) => {
            let node = take(stage, victim).await;
            let until = Instant::now() + lasts;
            while Instant::now() < until {
                // Again and again, as the end of another fault makes an endpoint honest.
                node.endpoints.iter().for_each(show_side_blocks);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            for endpoint in &node.endpoints {
                endpoint.heal().await;
            }
        }
        Fault::Reorg { depth, keep } => return reorg(stage, depth, keep).await.is_ok(),
        Fault::Outsider { lane, ahead } => return outsider(stage, lane, ahead).await.is_ok(),
        Fault::EmptyPool => {
            return stage.chain.ask("anvil_dropAllTransactions", json!([])).await.is_ok();
        }
        Fault::EmptyAccount(lane) => {
            let emptied = stage.chain.fund(&stage.lanes[lane], false).await.is_ok();
            tokio::time::sleep(lasts).await;
            stage.fund_all().await;
            return emptied;
        }
    }
    true
}

/// Does something to Redis, or to one node's way there; `None` where there is no Redis.
async fn redis(stage: &Stage, fault: Fault, lasts: Duration) -> Option<()> {
    let redis = stage.redis.as_ref()?;
    match fault {
        Fault::KillRedis => redis.kill(lasts, |address| stage.lead_to_redis(address)).await,
        Fault::FreezeRedis => redis.freeze(lasts).await,
        Fault::WipeRedis => redis.wipe().await,
        Fault::HostileRedis(attack) => redis.attack(attack, lasts, &stage.trap).await?,
        Fault::CutRedis { node, hangs } => {
            let way = stage.nodes[node].redis.as_ref()?;
            if hangs {
                way.freeze()
            } else {
                way.cut().await
            }
            tokio::time::sleep(lasts).await;
            way.heal().await;
        }
        _ => return None,
    }
    Some(())
}

/// A node that is a fault's until it is dropped, so that no other fault gets in its way.
struct Taken(Arc<Node>);

impl Deref for Taken {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// The node that is meant, as soon as no other fault has it; or else another one, so that every fault
/// that was planned is carried out.
async fn take(stage: &Stage, victim: Victim) -> Taken {
    loop {
        let first = match victim {
            Victim::Node(node) => node,
            Victim::HolderOf(lane, node) => holder(stage, lane).await.unwrap_or(node),
        };
        let count = stage.nodes.len();
        let mut numbers = (0..count).map(|turn| (first + turn) % count);
        if let Some(number) = numbers.find(|number| stage.nodes[*number].take()) {
            return Taken(Arc::clone(&stage.nodes[number]));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Who holds a lane.
async fn holder(stage: &Stage, lane: usize) -> Option<usize> {
    let samples = stage.witness.tokens().await.ok()?;
    let sample = samples.iter().find(|sample| sample.signer == stage.lanes[lane])?;
    sample.owner.strip_prefix('n')?.parse().ok()
}

async fn endpoint_in(proxy: &RpcProxy, trouble: Trouble) {
    match trouble {
        Trouble::Refuses => proxy.refuse().await,
        Trouble::Slow(by) => {
            for method in READS {
                proxy.delay(method, Duration::from_millis(by));
            }
        }
        Trouble::LosesAnswers => proxy.lose_answers(SEND),
        Trouble::Forgets => proxy.swallow_sends(),
        Trouble::Fails(status) => proxy.fail_all(status),
        Trouble::RefusesSends => proxy.fail(SEND, -32603, "internal error"),
        Trouble::HidesReceipts => {
            proxy.lie("eth_getTransactionReceipt", |_, _| Some(Value::Null));
        }
        Trouble::OldCounts => {
            proxy.lie("eth_getTransactionCount", |_, count| {
                Some(json!(format!("{:#x}", quantity(count).saturating_sub(3))))
            });
        }
    }
}

/// Receipts are told as of blocks that there never were.
fn show_side_blocks(proxy: &RpcProxy) {
    proxy.lie("eth_getTransactionReceipt", |_, receipt| on_side_block(receipt));
    proxy.lie("eth_getBlockReceipts", |_, receipts| {
        receipts.as_array()?.iter().map(on_side_block).collect::<Option<Vec<_>>>().map(Value::Array)
    });
}

/// The same receipt, with the digits of its block's hash in another order.
fn on_side_block(receipt: &Value) -> Option<Value> {
    let (prefix, digits) = receipt["blockHash"].as_str()?.split_at_checked(2)?;
    let turned: String = digits.chars().rev().collect();
    let hash = format!("{prefix}{turned}");
    let mut receipt = receipt.clone();
    receipt["blockHash"] = json!(hash);
    Some(receipt)
}

async fn reorg(stage: &Stage, depth: u64, keep: bool) -> Result<(), String> {
    let at = now();
    let first_height = stage.chain.reorg(depth, keep).await?;
    stage.diary.reorg(Reorg { at, first_height, depth });
    // Balances that were set in the blocks that are gone are gone with them.
    stage.fund_all().await;
    Ok(())
}

/// Somebody with the same key sends a transaction that pays more than any of ours.
async fn outsider(stage: &Stage, lane: usize, ahead: bool) -> Result<(), String> {
    let signer = stage.lanes[lane].clone();
    let nonce = stage.chain.count(&signer, if ahead { "pending" } else { "latest" }).await?;
    let wei = stage.amount();
    let transfer = Transfer { from: &signer, nonce, wei, max_fee_gwei: 2_000, tip_gwei: 10 };
    let (raw, hash) = stage.chain.sign(transfer).await?;
    stage.diary.own(Own { at: now(), signer, nonce, hash, hold_id: None });
    stage.chain.send(&raw).await
}
