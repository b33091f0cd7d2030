//! Transactions that are in flight before any node starts, written into the store as a holder would.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use stile_chain::{LocalSigner, UnsignedTx};
use stile_domain::{
    Address, AttemptKind, B256, Bytes, ChainId, Fees, Finality, Holder, Incarnation, Lane, NodeId,
    Payload, Plan, TxId, U256, request_hash,
};
use stile_store::{Acquisition, BindTx, Bindable, Claim, NewAttempt, NewTx, Store, TxBinding};

use super::accounts::Accounts;
use super::{CHAIN_ID, RECEIVER};
use crate::cli::Failure;

/// What is in flight on each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::bench) struct InFlight {
    pub(in crate::cli::bench) of_each_lane: usize,
    /// Of a hundred, how many are large.
    pub(in crate::cli::bench) large_percent: usize,
}

/// The call data of a large one.
const LARGE_BYTES: usize = 100_000;

/// Enough for that much call data.
const LARGE_GAS: u64 = 5_000_000;

/// Lanes that are filled at one time.
const AT_ONCE: usize = 4;

/// Nothing is mined before it is over.
const LEASE: Duration = Duration::from_secs(60);

const FEES: Fees =
    Fees::Market { max_fee_per_gas: 100_000_000_000, max_priority_fee_per_gas: 1_000_000_000 };

/// Binds so many transactions at the first nonces of every lane, and gives the lanes back.
pub(super) async fn fill(
    store: &dyn Store,
    accounts: &Accounts,
    wanted: InFlight,
) -> Result<(), Failure> {
    let holder =
        Holder { node: NodeId("seed".into()), incarnation: Incarnation::fresh(), url: None };
    let holder = &holder;
    futures::stream::iter(0..accounts.addresses.len())
        .map(|number| async move { lane(store, holder, accounts, number, wanted).await })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

async fn lane(
    store: &dyn Store,
    holder: &Holder,
    accounts: &Accounts,
    number: usize,
    wanted: InFlight,
) -> Result<(), Failure> {
    let chain = ChainId::new(CHAIN_ID)?;
    let lane = Lane::new(chain, accounts.addresses[number]);
    let Some(Acquisition::Held(held)) = store.acquire(holder, &[lane], LEASE).await?.pop() else {
        return Err("a new lane belongs to somebody".into());
    };
    store.start_cursor(&holder.node, &held.claim, 0.into(), LEASE).await??;
    let signer = accounts.signer(number)?;
    let claim = held.claim;
    let binding = tokio::task::spawn_blocking(move || signed(claim, &signer, number, wanted));
    let binding = binding.await??;
    for answer in store.bind_txs(&holder.node, &[binding], LEASE).await? {
        answer?;
    }
    store.release(&[held.claim]).await?;
    Ok(())
}

fn signed(
    claim: Claim,
    signer: &LocalSigner,
    number: usize,
    wanted: InFlight,
) -> Result<TxBinding, String> {
    let lane = claim.lane();
    let count = wanted.of_each_lane;
    let mut txs = Vec::with_capacity(count);
    for nonce in 0..count {
        // Spread over lanes and places in them.
        let large = (number * count + nonce) * 37 % 100 < wanted.large_percent;
        let (data, gas_limit) = match large {
            true => (call_data(number, nonce), LARGE_GAS),
            false => (Bytes::new(), 21_000),
        };
        let payload = Payload {
            to: RECEIVER.parse::<Address>().ok(),
            value: U256::from(1),
            data: data.clone(),
            gas_limit: Some(gas_limit),
            ..Payload::default()
        };
        let (to, value) = (payload.to, payload.value);
        let nonce = nonce as u64;
        let unsigned =
            UnsignedTx { chain: lane.chain, nonce, to, value, data, gas_limit, fees: FEES };
        let signed = signer.sign_now(&unsigned).map_err(|error| error.to_string())?;
        let new = NewTx {
            id: name_of(&signed.hash)?,
            tenant: String::new(),
            lane,
            request_id: None,
            request_hash: request_hash(&payload, None),
            payload,
            finality: Finality::Confirmations(1),
            gas_limit: Some(gas_limit),
            replaces: None,
        };
        let attempt = NewAttempt {
            kind: AttemptKind::Send,
            hash: signed.hash,
            raw: signed.raw,
            fees: FEES,
            gas_limit,
        };
        txs.push(BindTx { what: Bindable::New(Box::new(new)), attempt });
    }
    let plan = Plan { reissued: Vec::new(), first: 0, fresh: count as u64 };
    Ok(TxBinding { claim, plan, txs, resubmit_after: None })
}

/// A name for a transaction: the first half of its hash.
fn name_of(hash: &B256) -> Result<TxId, String> {
    let digits = format!("{hash:x}");
    let half = digits.get(..32).and_then(|half| half.parse().ok());
    half.map(TxId).ok_or_else(|| format!("{digits} is no hash"))
}

/// Bytes that do not compress well, and are others for each transaction.
fn call_data(number: usize, nonce: usize) -> Bytes {
    let mut state = (number as u64) << 32 | nonce as u64 | 1 << 63;
    let mut data = Vec::with_capacity(LARGE_BYTES + 8);
    while data.len() < LARGE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend(state.to_be_bytes());
    }
    data.truncate(LARGE_BYTES);
    data.into()
}
