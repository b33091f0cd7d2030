//! Whatever is on the wire was on record before.
//!
//! Fails if a transaction is handed to the submitter before the commit that stores it, or if one
//! is signed anew to be sent again.

use std::sync::{Arc, Mutex};

use stile::B256;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::support::{Backend, assert_all_mined_once, transfer};

const SIGNERS: usize = 3;

async fn hole_12_every_transaction_on_the_wire_was_committed_before(backend: Backend) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let options = backend.node(&proxy.url()).development_keys(SIGNERS);
    let node = options.start().await;
    let witness = backend.witness().await;
    let unknown: Arc<Mutex<Vec<B256>>> = Arc::default();
    proxy.before_send({
        let unknown = Arc::clone(&unknown);
        move |hash| {
            let (unknown, witness) = (Arc::clone(&unknown), witness.clone());
            async move {
                if !witness.knows_attempt(hash).await {
                    unknown.lock().unwrap().push(hash);
                }
            }
        }
    });

    // One by one from many callers, in batches, and then again after a kill with much in flight.
    let accounts = anvil.accounts().await;
    let body = |wei: u64| transfer(&accounts[(wei % SIGNERS as u64) as usize], wei);
    let single: Vec<_> = (1..=60).map(body).collect();
    futures::future::join_all(single.iter().map(|body| node.send_new(body))).await;
    node.send_all(&(61..=210).map(body).collect::<Vec<_>>()).await;
    eventually("some to be on the wire", async || (proxy.sent_raw().len() > 60).then_some(()))
        .await;
    node.kill().await;
    let node = options.start().await;
    node.send_all(&(211..=300).map(body).collect::<Vec<_>>()).await;

    let mut confirmed = Vec::new();
    for signer in &accounts[..SIGNERS] {
        confirmed.push((signer.as_str(), node.all_confirmed(signer, 100).await));
    }
    assert_all_mined_once(&anvil, &confirmed).await;
    assert_eq!(*unknown.lock().unwrap(), Vec::<B256>::new(), "sent before they were committed");
    let mut sent: Vec<B256> = proxy.sent_raw().iter().map(|sent| sent.hash).collect();
    sent.sort_unstable();
    sent.dedup();
    assert_eq!(sent.len(), 300, "nothing else was sent, and nothing was signed twice");
}

on_both_stores!(hole_12_every_transaction_on_the_wire_was_committed_before);
