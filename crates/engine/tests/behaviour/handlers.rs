//! `with_nonce`: what a handler's end says about its nonce.

use std::io;

use stile_domain::{B256, Hold, HoldStatus};
use stile_engine::{HandlerError, NonceError, Sent, WithNonceError};
use tokio::sync::oneshot;

use crate::common::{Bench, LANE, hold_as_it_stands, in_every_setup, lane, on, status};

in_every_setup!(
    sent_is_used,
    not_sent_goes_back,
    any_other_error_keeps_the_nonce,
    a_panic_keeps_the_nonce,
    a_dropped_handler_keeps_the_nonce,
    without_a_nonce_no_handler_runs,
    handlers_of_one_lane_overlap,
);

type Handled = Result<Sent<()>, HandlerError<io::Error>>;

async fn sent_is_used(bench: Bench) {
    let node = bench.start("a").await;
    let hash = B256::repeat_byte(7);
    let sent = node.nonces().with_nonce(lane(LANE), |hold| async move {
        Result::<_, HandlerError<io::Error>>::Ok(Sent { tx_hash: hash, value: hold })
    });
    let sent = sent.await.unwrap();
    let hold = hold_as_it_stands(&*bench.store, &sent.value).await;
    assert_eq!((hold.status, hold.tx_hash), (HoldStatus::Consumed, Some(hash)));
}

async fn not_sent_goes_back(bench: Bench) {
    let node = bench.start("a").await;
    let failed = node.nonces().with_nonce(lane(LANE), |_| async {
        Handled::Err(HandlerError::NotSent(io::Error::other("no funds")))
    });
    let Err(WithNonceError::Handler { error, hold }) = failed.await else { panic!("it failed") };
    assert!(matches!(error, HandlerError::NotSent(_)));
    assert_eq!(status(&*bench.store, &hold).await, HoldStatus::Released);
    let next = node.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(next.nonce, hold.nonce);
    assert_ne!(next.id, hold.id);
}

/// The node's end is waited for, so that whatever was going to happen has.
async fn stays_held(bench: &Bench, node: stile_engine::Node, hold: &Hold) {
    let next = node.nonces().allocate(hold.lane).await.unwrap();
    assert_eq!(next.nonce, hold.nonce + 1);
    assert_eq!(node.shutdown().await, 0);
    assert_eq!(status(&*bench.store, hold).await, HoldStatus::Held);
}

async fn any_other_error_keeps_the_nonce(bench: Bench) {
    let node = bench.start("a").await;
    let failed = node.nonces().with_nonce(lane(LANE), |_| async {
        Err(io::Error::from(io::ErrorKind::TimedOut))?;
        Handled::Ok(Sent::new(B256::ZERO))
    });
    let Err(WithNonceError::Handler { error, hold }) = failed.await else { panic!("it failed") };
    assert!(matches!(error, HandlerError::MaybeSent(_)));
    stays_held(&bench, node, &hold).await;
}

async fn a_panic_keeps_the_nonce(bench: Bench) {
    let node = bench.start("a").await;
    let (told, held) = oneshot::channel();
    let component = node.nonces().clone();
    let handler = tokio::spawn(async move {
        let _ = component
            .with_nonce(lane(LANE), |hold| async move {
                told.send(hold).unwrap();
                if true {
                    panic!("a handler panics, as this test wants it to");
                }
                Handled::Ok(Sent::new(B256::ZERO))
            })
            .await;
    });
    assert!(handler.await.unwrap_err().is_panic());
    stays_held(&bench, node, &held.await.unwrap()).await;
}

async fn a_dropped_handler_keeps_the_nonce(bench: Bench) {
    let node = bench.start("a").await;
    let (told, held) = oneshot::channel();
    let component = node.nonces().clone();
    let handler = tokio::spawn(async move {
        let _ = component
            .with_nonce(lane(LANE), |hold| async move {
                told.send(hold).unwrap();
                std::future::pending::<Handled>().await
            })
            .await;
    });
    let hold = held.await.unwrap();
    handler.abort();
    assert!(handler.await.unwrap_err().is_cancelled());
    stays_held(&bench, node, &hold).await;
}

async fn without_a_nonce_no_handler_runs(bench: Bench) {
    let node = bench.start("a").await;
    node.shutdown().await;
    let refused = node.nonces().with_nonce(lane(LANE), |_| async {
        panic!("a handler without a nonce");
        #[allow(unreachable_code, reason = "says what the handler would answer")]
        Handled::Ok(Sent::new(B256::ZERO))
    });
    let refused = refused.await;
    assert!(matches!(refused, Err(WithNonceError::Allocate(NonceError::ShuttingDown))));
}

async fn handlers_of_one_lane_overlap(bench: Bench) {
    let node = bench.start("a").await;
    let (first, second) = (oneshot::channel(), oneshot::channel());
    // Each waits for the other to have begun.
    let one = node.nonces().with_nonce(lane(LANE), |_| async {
        first.0.send(()).unwrap();
        second.1.await.unwrap();
        Handled::Ok(Sent::new(B256::repeat_byte(1)))
    });
    let other = node.nonces().with_nonce(lane(LANE), |_| async {
        second.0.send(()).unwrap();
        first.1.await.unwrap();
        Handled::Ok(Sent::new(B256::repeat_byte(2)))
    });
    let both = async { tokio::join!(one, other) };
    let (one, other) = tokio::time::timeout(testkit::DEADLINE, both).await.expect("they overlap");
    assert!(one.is_ok() && other.is_ok());
}
