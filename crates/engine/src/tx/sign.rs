//! From a payload to signed bytes.

use futures::StreamExt;
use stile_chain::{SignError, SignedTx, UnsignedTx};
use stile_domain::{AttemptKind, Capped, Lane, Nonce, Payload};
use stile_store::NewAttempt;

use crate::signers::LaneSigner;

/// Questions to a remote signer at one time.
const REMOTE_SIGNATURES: usize = 32;

/// Local signatures made in one go on one thread.
const LOCAL_CHUNK: usize = 32;

/// What is to be signed.
#[derive(Debug, Clone)]
pub(crate) struct ToSign {
    pub(crate) payload: Payload,
    pub(crate) gas_limit: u64,
    pub(crate) fees: Capped,
}

/// A transaction that may be signed: whatever it is for, its fees are within what its chain allows.
#[derive(Debug, Clone)]
pub(crate) struct Signable(UnsignedTx);

impl Signable {
    /// This transaction at these fees.
    pub(crate) fn new(tx: UnsignedTx, fees: Capped) -> Self {
        Self(UnsignedTx { fees: fees.fees(), ..tx })
    }

    /// The same with another gas limit, if one is known.
    pub(crate) fn with_gas(self, gas_limit: Option<u64>) -> Self {
        let gas_limit = gas_limit.unwrap_or(self.0.gas_limit);
        Self(UnsignedTx { gas_limit, ..self.0 })
    }

    pub(crate) fn unsigned(&self) -> &UnsignedTx {
        &self.0
    }

    fn attempt(&self, kind: AttemptKind, signed: SignedTx) -> NewAttempt {
        let (fees, gas_limit) = (self.0.fees, self.0.gas_limit);
        NewAttempt { kind, hash: signed.hash, raw: signed.raw, fees, gas_limit }
    }
}

impl ToSign {
    fn signable(&self, lane: Lane, nonce: Nonce) -> Signable {
        let tx = UnsignedTx {
            chain: lane.chain,
            nonce,
            to: self.payload.to,
            value: self.payload.value,
            data: self.payload.data.clone(),
            gas_limit: self.gas_limit,
            fees: self.fees.fees(),
        };
        Signable::new(tx, self.fees)
    }
}

/// Signs each for its nonce. Answers with the signed ones up to the first that could not be signed,
/// and why that one could not.
pub(crate) async fn sign(
    signer: &LaneSigner,
    nonces: &[Nonce],
    wanted: &[ToSign],
) -> (Vec<NewAttempt>, Option<SignError>) {
    let signable = wanted.iter().zip(nonces);
    let signable: Vec<Signable> =
        signable.map(|(to_sign, nonce)| to_sign.signable(signer.lane(), *nonce)).collect();
    let signed = match signer.computes() {
        true => locally(signer, &signable).await,
        false => remotely(signer, &signable).await,
    };
    let mut attempts = Vec::with_capacity(wanted.len());
    for (tx, signed) in signable.iter().zip(signed) {
        match signed {
            Ok(signed) => attempts.push(tx.attempt(AttemptKind::Send, signed)),
            Err(error) => return (attempts, Some(error)),
        }
    }
    (attempts, None)
}

/// Signs one transaction that replaces another.
pub(crate) async fn sign_one(
    signer: &LaneSigner,
    tx: &Signable,
    kind: AttemptKind,
) -> Result<NewAttempt, SignError> {
    Ok(tx.attempt(kind, signer.sign(tx).await?))
}

/// A computation: off the threads that serve calls, spread over cores.
async fn locally(signer: &LaneSigner, txs: &[Signable]) -> Vec<Result<SignedTx, SignError>> {
    if let [only] = txs {
        return vec![signer.sign(only).await];
    }
    let gone = || Err(SignError::Unavailable("the signing thread ended".into()));
    let chunks: Vec<_> = txs
        .chunks(LOCAL_CHUNK)
        .map(|chunk| {
            let (signer, chunk) = (signer.clone(), chunk.to_vec());
            let length = chunk.len();
            let work = tokio::task::spawn_blocking(move || {
                let signed = chunk.iter().map(|tx| signer.sign_now(tx).unwrap_or_else(gone));
                signed.collect::<Vec<_>>()
            });
            async move { work.await.unwrap_or_else(|_| (0..length).map(|_| gone()).collect()) }
        })
        .collect();
    futures::future::join_all(chunks).await.into_iter().flatten().collect()
}

/// A slow question: many at a time, in order.
async fn remotely(signer: &LaneSigner, txs: &[Signable]) -> Vec<Result<SignedTx, SignError>> {
    let questions: Vec<_> = txs.iter().map(|tx| signer.sign(tx)).collect();
    futures::stream::iter(questions).buffered(REMOTE_SIGNATURES).collect().await
}
