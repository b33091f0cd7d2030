//! Hole 16: nested calls that wait for themselves, slow signers that block their neighbours, lanes
//! on the wrong worker.

use std::sync::Arc;

use stile_chain::BlockTag;
use stile_domain::{Address, B256, ChainId, HoldStatus, Lane};
use stile_engine::{ChainQuery, HandlerError, Mode, RejectPolicy, Sent, Settings};
use testkit::{DEADLINE, eventually};
use tokio::time::timeout;

use crate::common::{
    Bench, Chain, LANE, in_every_setup, lane, lanes_of_one_worker, nonces, on, on_both_stores,
    queue, status,
};

in_every_setup!(hole_16_a_handler_may_call_again_for_its_own_lane_and_another);

on_both_stores!(
    hole_16_a_signer_whose_chain_hangs_does_not_delay_its_neighbour,
    hole_16_a_silent_signer_whose_chain_hangs_does_not_delay_its_neighbour,
);

type Handled = Result<Sent<()>, HandlerError<String>>;

/// In worker-queue mode with one worker only, so that every lane shares it.
fn one_worker(bench: &Bench) -> Settings {
    let mode = match bench.mode {
        Mode::Basic => Mode::Basic,
        Mode::WorkerQueue(_) => queue(1, 64, RejectPolicy::FailFast),
    };
    Settings { mode, ..bench.settings("a") }
}

async fn hole_16_a_handler_may_call_again_for_its_own_lane_and_another(bench: Bench) {
    let node = bench.start_with(one_worker(&bench), Arc::new(Chain::default())).await;
    let component = node.nonces();
    let (own, other) = (lane(1), lane(2));
    let nested = component.with_nonce(own, |outer| async move {
        let mut inner = Vec::new();
        for lane in [own, other] {
            let used = component.allocate(lane).await.map_err(|e| e.to_string())?;
            component.mark_used(&used, B256::repeat_byte(1)).await.map_err(|e| e.to_string())?;
            let back = component.allocate(lane).await.map_err(|e| e.to_string())?;
            component.mark_recyclable(&back, "nested").await.map_err(|e| e.to_string())?;
            let sent = component.with_nonce(lane, |hold| async move {
                let deeper = component
                    .with_nonce(lane, |_| async { Handled::Ok(Sent::new(B256::repeat_byte(3))) });
                deeper.await.map_err(|e| e.to_string())?;
                Result::<_, HandlerError<String>>::Ok(Sent {
                    tx_hash: B256::repeat_byte(2),
                    value: hold.nonce,
                })
            });
            let sent = sent.await.map_err(|e| e.to_string())?;
            inner.push((used.nonce, back.nonce, sent.value));
        }
        Result::<_, HandlerError<String>>::Ok(Sent {
            tx_hash: B256::repeat_byte(4),
            value: (outer, inner),
        })
    });
    let sent = timeout(DEADLINE, nested).await.expect("no call waits for itself").unwrap();
    let (outer, inner) = sent.value;
    assert_eq!(outer.nonce, 0);
    assert_eq!(status(&*bench.store, &outer).await, HoldStatus::Consumed);
    assert_eq!(inner, [(1, 2, 2), (0, 1, 1)]);
}

/// A chain that is slow about one of two lanes of one worker.
async fn two_of_one_worker(bench: &Bench) -> (Arc<Chain>, stile_engine::Node, Lane, Lane) {
    let chain = Arc::new(Chain::default());
    let settings =
        Settings { chain_query: ChainQuery::Enabled(BlockTag::Latest), ..one_worker(bench) };
    let node = bench.start_with(settings, Arc::clone(&chain) as _).await;
    (chain, node, lane(1), lane(2))
}

async fn hole_16_a_signer_whose_chain_hangs_does_not_delay_its_neighbour(bench: Bench) {
    let (chain, node, slow, quick) = two_of_one_worker(&bench).await;
    chain.set(slow, 9);
    chain.hang(slow);
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let component = node.nonces().clone();
            tokio::spawn(async move { component.allocate(slow).await })
        })
        .collect();
    eventually("a question about the slow one", async || (chain.asked(slow) > 0).then_some(()))
        .await;
    for nonce in 0..20 {
        let hold = timeout(DEADLINE, node.nonces().allocate(quick)).await.expect("not delayed");
        assert_eq!(hold.unwrap().nonce, nonce);
    }
    assert!(waiting.iter().all(|call| !call.is_finished()));
    assert_eq!(chain.asked(slow), 1, "one question serves all who wait");

    chain.answer(slow);
    let mut holds = Vec::new();
    for call in waiting {
        holds.push(call.await.unwrap().expect("an answer once the chain has answered"));
    }
    assert_eq!(nonces(&holds), (9..19).collect::<Vec<_>>());
}

/// The same when the slow one has nonces to give out again, which takes a question too.
async fn hole_16_a_silent_signer_whose_chain_hangs_does_not_delay_its_neighbour(bench: Bench) {
    let (chain, node, slow, quick) = two_of_one_worker(&bench).await;
    let back = node.nonces().allocate(slow).await.unwrap();
    assert_eq!(node.nonces().allocate(quick).await.unwrap().nonce, 0);
    node.nonces().mark_recyclable(&back, "not sent").await.unwrap();
    chain.hang(slow);
    let asked = chain.asked(slow);
    let mut waiting = std::pin::pin!(node.nonces().allocate(slow));
    assert!(futures::poll!(&mut waiting).is_pending());
    eventually("a question about the slow one", async || (chain.asked(slow) > asked).then_some(()))
        .await;
    for nonce in 1..20 {
        let hold = timeout(DEADLINE, node.nonces().allocate(quick)).await.expect("not delayed");
        assert_eq!(hold.unwrap().nonce, nonce);
    }
    // The one that waits is not kept for ever: it gets a fresh one.
    assert_eq!(waiting.await.unwrap().nonce, 1);
    assert_eq!(status(&*bench.store, &back).await, HoldStatus::Released);
}

#[test]
fn hole_16_every_lane_has_a_worker_whatever_its_hash() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut address = [0; 20];
        for part in address.chunks_mut(8) {
            part.copy_from_slice(&random().to_le_bytes()[..part.len()]);
        }
        let chain = ChainId::new((random() >> 1).max(1)).unwrap();
        let lane = Lane::new(chain, Address::from(address));
        let workers = (random() % 64) as usize + 1;
        assert!(lane.worker(workers) < workers, "{lane} of {workers}");
        assert_eq!(lane.worker(workers), lane.worker(workers));
    }
    assert!(
        lanes_of_one_worker(2).take(10).all(|lane| lane.worker(2) == self::lane(LANE).worker(2))
    );
}
