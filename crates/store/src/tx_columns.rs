//! How parts of a transaction are written down, the same on both stores.

use serde::Deserialize;
use serde_json::{Value, json};
use stile_domain::{Fees, Finality, Nonce, Standing, Step, Timestamp, TxId, TxState};

use crate::{BindTx, Bindable, NewAttempt, NewTx, StoreError, Tx, TxBinding, Withdrawal};

/// Finality as a word, or a number of confirmations.
pub(crate) fn finality_text(finality: Finality) -> String {
    match finality {
        Finality::Confirmations(count) => count.to_string(),
        Finality::Safe => "safe".to_owned(),
        Finality::Finalized => "finalized".to_owned(),
    }
}

/// What [`finality_text`] wrote.
pub(crate) fn finality_of(text: &str) -> Option<Finality> {
    match text {
        "safe" => Some(Finality::Safe),
        "finalized" => Some(Finality::Finalized),
        count => count.parse().ok().map(Finality::Confirmations),
    }
}

/// Fees as JSON. Amounts are decimal strings, because JSON's numbers end long before wei do.
pub(crate) fn fees_json(fees: &Fees) -> Value {
    json!(fees)
}

/// What [`fees_json`] wrote.
pub(crate) fn fees_of(value: &Value) -> Option<Fees> {
    Fees::deserialize(value).ok()
}

/// What the history says of a binding.
pub(crate) fn bound_data(nonce: Nonce, attempt: &NewAttempt) -> Value {
    let mut data = fees_json(&attempt.fees);
    data["nonce"] = nonce.into();
    data["txHash"] = attempt.hash.to_string().into();
    data["gasLimit"] = attempt.gas_limit.to_string().into();
    data
}

/// Where a transaction stands once a nonce is bound to it.
pub(crate) fn bound_standing() -> Result<Standing, StoreError> {
    Standing::CREATED.after(Step::Bound).map_err(|e| StoreError::Internal(e.to_string()))
}

/// Where a transaction stands once it was withdrawn before it had a nonce.
pub(crate) fn withdrawn_standing() -> Result<Standing, StoreError> {
    Standing::CREATED.after(Step::Withdrawn).map_err(|e| StoreError::Internal(e.to_string()))
}

/// Where a transaction without a nonce stands after a step.
pub(crate) fn standing_after(step: Step) -> Result<Standing, StoreError> {
    Standing::CREATED.after(step).map_err(|e| StoreError::Internal(e.to_string()))
}

/// The answer about a transaction that could not be withdrawn now: it may have been before.
pub(crate) fn unwithdrawn(found: Option<Tx>) -> Withdrawal {
    match found {
        None => Withdrawal::NotFound,
        Some(tx) if withdrawn_standing().is_ok_and(|standing| standing == tx.standing) => {
            Withdrawal::Done(tx)
        }
        // Nothing else keeps what has no nonce from being withdrawn.
        Some(tx) if tx.standing.state == TxState::Created => Withdrawal::AwaitsWord(tx),
        Some(tx) => Withdrawal::TooLate(tx),
    }
}

impl NewTx {
    /// The transaction as it stands in the database once it has been accepted.
    pub(crate) fn accepted(&self, position: u64, now: Timestamp) -> Tx {
        Tx {
            id: self.id,
            tenant: self.tenant.clone(),
            lane: self.lane,
            request_id: self.request_id.clone(),
            payload: self.payload.clone(),
            request_hash: self.request_hash,
            finality: self.finality,
            gas_limit: self.gas_limit,
            position,
            nonce: None,
            standing: Standing::CREATED,
            tx_hash: None,
            receipt: None,
            told: None,
            rival: None,
            wish: None,
            replaces: self.replaces,
            replaced_by: None,
            error: None,
            events: 1,
            sends: 0,
            created_at: now,
            updated_at: now,
            first_submit_at: None,
            last_submit_at: None,
            next_resubmit_at: None,
            last_receipt_check_at: None,
            confirmed_at: None,
        }
    }

    /// The transaction as it stands in the database once it has been accepted and bound in one
    /// commit.
    pub(crate) fn bound(
        &self,
        position: u64,
        now: Timestamp,
        nonce: Nonce,
        attempt: &NewAttempt,
        resubmit_at: Option<Timestamp>,
    ) -> Result<Tx, StoreError> {
        Ok(Tx {
            // The attempt says, if it was not known before.
            gas_limit: self.gas_limit.or(Some(attempt.gas_limit)),
            nonce: Some(nonce),
            standing: bound_standing()?,
            tx_hash: Some(attempt.hash),
            events: 2,
            next_resubmit_at: resubmit_at,
            ..self.accepted(position, now)
        })
    }
}

impl BindTx {
    /// Which transaction it is.
    pub fn id(&self) -> TxId {
        match &self.what {
            Bindable::New(new) => new.id,
            Bindable::Waiting(id) => *id,
        }
    }
}

impl TxBinding {
    /// Fails unless every planned nonce has its transaction: a cursor that moves further than that
    /// would leave a hole.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let (planned, given) = (self.plan.nonces().count(), self.txs.len());
        if planned == given {
            return Ok(());
        }
        Err(StoreError::Internal(format!(
            "a plan of {planned} nonces for {given} transactions of {}",
            self.claim.lane
        )))
    }

    /// The planned nonces with the transaction each one goes to.
    pub(crate) fn planned(&self) -> impl Iterator<Item = (Nonce, &BindTx)> {
        self.plan.nonces().zip(&self.txs)
    }

    /// Whether one of the transactions is accepted in the same commit.
    pub(crate) fn has_new(&self) -> bool {
        self.txs.iter().any(|tx| matches!(tx.what, Bindable::New(_)))
    }

    /// When each is to be sent again.
    pub(crate) fn resubmit_at(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        self.resubmit_after.map(|after| crate::open::after(now, after)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for finality in [Finality::Confirmations(0), Finality::Safe, Finality::Finalized] {
            assert_eq!(finality_of(&finality_text(finality)), Some(finality));
        }
        assert_eq!(finality_of("soon"), None);
        let market =
            Fees::Market { max_fee_per_gas: u128::MAX, max_priority_fee_per_gas: u128::MAX - 1 };
        for fees in [market, Fees::Legacy { gas_price: u128::MAX }] {
            assert_eq!(fees_of(&fees_json(&fees)), Some(fees));
        }
        assert_eq!(fees_of(&json!({})), None);
    }
}
