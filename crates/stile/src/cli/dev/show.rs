//! The first transactions, so that there is something to see.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use stile_devchain::counter;
use stile_domain::{Address, Bytes, ChainId, Lane, Payload, TxId, TxState, U256};
use stile_engine::{Transactions, TxRequest};
use stile_store::Tx;

use super::super::Failure;
use super::{CHAIN, settings};

/// How many transfers each signer makes.
const ROUNDS: usize = 3;

/// How long the transactions are waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes transfers between the signers, deploys a contract and calls it; prints what became of
/// them.
pub(super) async fn show(transactions: &Transactions) -> Result<(), Failure> {
    let signers: Vec<Address> = settings::signers().iter().map(|one| one.address).collect();
    let mut requests = Vec::new();
    for place in 0..signers.len() * ROUNDS {
        let (from, to) = (signers[place % signers.len()], signers[(place + 1) % signers.len()]);
        let payload = Payload { to: Some(to), value: U256::from(1), ..Payload::default() };
        requests.push(request(from, payload)?);
    }
    let creation = Bytes::from_static(counter::CREATION);
    requests.push(request(signers[0], Payload { data: creation, ..Payload::default() })?);
    let mut kinds = vec!["transfer"; signers.len() * ROUNDS];
    kinds.extend(["deployment", "call"]);
    let bar = ProgressBar::new(kinds.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} transactions confirmed")?);
    let mut watch = Watch { transactions, bar, until: Instant::now() + PATIENCE, sent: Vec::new() };
    watch.send(requests).await?;
    let seen = watch.wait().await?;
    // What a contract does can only be foreseen once it is there.
    let deployed =
        seen.last().filter(|tx| tx.receipt.as_ref().is_some_and(|one| one.status == Some(true)));
    if let Some(nonce) = deployed.and_then(|tx| tx.nonce) {
        let to = Some(signers[0].create(nonce));
        let data = Bytes::from_static(&counter::INCREMENT);
        watch.send(vec![request(signers[0], Payload { to, data, ..Payload::default() })?]).await?;
    }
    let seen = watch.wait().await?;
    watch.bar.finish_and_clear();
    print(&kinds, &seen);
    Ok(())
}

fn request(from: Address, payload: Payload) -> Result<TxRequest, Failure> {
    Ok(TxRequest::new(Lane::new(ChainId::new(CHAIN)?, from), payload))
}

/// Transactions that were sent, and how long they are waited for.
struct Watch<'a> {
    transactions: &'a Transactions,
    bar: ProgressBar,
    until: Instant,
    sent: Vec<TxId>,
}

impl Watch<'_> {
    async fn send(&mut self, requests: Vec<TxRequest>) -> Result<(), Failure> {
        for accepted in self.transactions.send_all(requests).await {
            self.sent.push(accepted?.tx.id);
        }
        Ok(())
    }

    /// Waits until all are done, or for as long as it is worth while. As they are then.
    async fn wait(&self) -> Result<Vec<Tx>, Failure> {
        loop {
            let mut seen = Vec::new();
            for id in &self.sent {
                seen.extend(self.transactions.get(*id).await?);
            }
            let ended = |tx: &&Tx| is_done(tx) || tx.standing.state == TxState::Failed;
            let done = seen.iter().filter(ended).count();
            self.bar.set_position(done as u64);
            if done == self.sent.len() || Instant::now() > self.until {
                return Ok(seen);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn is_done(tx: &Tx) -> bool {
    tx.standing.state == TxState::Confirmed
}

fn print(kinds: &[&str], seen: &[Tx]) {
    let done = seen.iter().filter(|tx| is_done(tx)).count();
    let all = if done == seen.len() { "all".to_owned() } else { format!("{done} of them") };
    println!("sent     {} transactions, {all} CONFIRMED:", seen.len());
    for (kind, tx) in kinds.iter().zip(seen) {
        let nonce = tx.nonce.map_or_else(|| "-".to_owned(), |nonce| nonce.to_string());
        let block =
            tx.receipt.as_ref().map_or_else(|| "-".to_owned(), |r| r.block_number.to_string());
        let (signer, state) = (tx.lane.signer, tx.standing.state);
        println!("         {kind:10}   {signer}   nonce {nonce}   block {block}   {state}");
    }
    if done < seen.len() {
        println!("         the rest lands as soon as the chain makes blocks");
    }
}
