//! From a payload to signed bytes.

use std::sync::Arc;

use futures::StreamExt;
use stile_chain::{LocalSigner, SignError, SignedTx, TxSigner, UnsignedTx};
use stile_domain::{AttemptKind, Fees, Lane, Nonce, Payload};
use stile_store::NewAttempt;

/// Questions to a remote signer at one time.
const REMOTE_SIGNATURES: usize = 32;

/// Local signatures made in one go on one thread.
const LOCAL_CHUNK: usize = 32;

/// What is to be signed.
#[derive(Debug, Clone)]
pub(crate) struct ToSign {
    pub(crate) payload: Payload,
    pub(crate) gas_limit: u64,
    pub(crate) fees: Fees,
}

impl ToSign {
    fn unsigned(&self, lane: Lane, nonce: Nonce) -> UnsignedTx {
        UnsignedTx {
            chain: lane.chain,
            nonce,
            to: self.payload.to,
            value: self.payload.value,
            data: self.payload.data.clone(),
            gas_limit: self.gas_limit,
            fees: self.fees,
        }
    }

    fn attempt(&self, signed: SignedTx) -> NewAttempt {
        NewAttempt {
            kind: AttemptKind::Send,
            hash: signed.hash,
            raw: signed.raw,
            fees: self.fees,
            gas_limit: self.gas_limit,
        }
    }
}

/// Signs each for its nonce. Answers with the signed ones up to the first that could not be signed,
/// and why that one could not.
pub(crate) async fn sign(
    signer: &Arc<dyn TxSigner>,
    lane: Lane,
    nonces: &[Nonce],
    wanted: &[ToSign],
) -> (Vec<NewAttempt>, Option<SignError>) {
    let unsigned: Vec<UnsignedTx> =
        wanted.iter().zip(nonces).map(|(to_sign, nonce)| to_sign.unsigned(lane, *nonce)).collect();
    let signed = if signer.as_local().is_some() {
        locally(signer, unsigned).await
    } else {
        remotely(signer, unsigned).await
    };
    let mut attempts = Vec::with_capacity(wanted.len());
    for (to_sign, signed) in wanted.iter().zip(signed) {
        match signed {
            Ok(signed) => attempts.push(to_sign.attempt(signed)),
            Err(error) => return (attempts, Some(error)),
        }
    }
    (attempts, None)
}

/// Signs one transaction that replaces another.
pub(crate) async fn sign_one(
    signer: &Arc<dyn TxSigner>,
    tx: &UnsignedTx,
    kind: AttemptKind,
) -> Result<NewAttempt, SignError> {
    let signed = match signer.as_local() {
        Some(local) => local.sign_now(tx)?,
        None => signer.sign(tx).await?,
    };
    let (fees, gas_limit) = (tx.fees, tx.gas_limit);
    Ok(NewAttempt { kind, hash: signed.hash, raw: signed.raw, fees, gas_limit })
}

/// A computation: off the threads that serve calls, spread over cores.
async fn locally(
    signer: &Arc<dyn TxSigner>,
    unsigned: Vec<UnsignedTx>,
) -> Vec<Result<SignedTx, SignError>> {
    if let ([only], Some(local)) = (unsigned.as_slice(), signer.as_local()) {
        return vec![local.sign_now(only)];
    }
    let chunks: Vec<_> = unsigned
        .chunks(LOCAL_CHUNK)
        .map(|chunk| {
            let (signer, chunk) = (Arc::clone(signer), chunk.to_vec());
            let length = chunk.len();
            let work = tokio::task::spawn_blocking(move || match signer.as_local() {
                Some(local) => sign_all(local, &chunk),
                None => Vec::new(),
            });
            async move {
                let gone = || Err(SignError::Unavailable("the signing thread ended".into()));
                work.await.unwrap_or_else(|_| (0..length).map(|_| gone()).collect())
            }
        })
        .collect();
    futures::future::join_all(chunks).await.into_iter().flatten().collect()
}

fn sign_all(local: &LocalSigner, unsigned: &[UnsignedTx]) -> Vec<Result<SignedTx, SignError>> {
    unsigned.iter().map(|tx| local.sign_now(tx)).collect()
}

/// A slow question: many at a time, in order.
async fn remotely(
    signer: &Arc<dyn TxSigner>,
    unsigned: Vec<UnsignedTx>,
) -> Vec<Result<SignedTx, SignError>> {
    let questions: Vec<_> = unsigned.iter().map(|tx| signer.sign(tx)).collect();
    futures::stream::iter(questions).buffered(REMOTE_SIGNATURES).collect().await
}
