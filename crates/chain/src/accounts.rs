//! What accounts have done and what they have.

use alloy::primitives::{Address, U256};
use futures::future::join_all;
use serde_json::{Value, json};
use stile_domain::{MAX_NONCE, Nonce};

use crate::batches::ask_each;
use crate::blocks::quantity;
use crate::calls::Method;
use crate::pool::one;
use crate::rpc::{Answer, Call, CallError, read_some};
use crate::{BlockTag, ChainError, ChainPool};

/// The state of the chain that transactions are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// After the newest block.
    Latest,
    /// After the newest block and what the node has in its pool, which is never evidence.
    Pending,
    /// After the block at a height. Nodes forget old states; then there is no answer.
    Height(u64),
}

impl From<BlockTag> for At {
    fn from(tag: BlockTag) -> Self {
        match tag {
            BlockTag::Latest => Self::Latest,
            BlockTag::Pending => Self::Pending,
        }
    }
}

impl ChainPool {
    /// How many transactions an account has made. What is mined is what a quorum of the endpoints
    /// says: a lane's cursor moves by it, and never back.
    pub async fn transaction_count(
        &self,
        account: Address,
        at: BlockTag,
    ) -> Result<Nonce, ChainError> {
        if at == BlockTag::Latest && self.endpoints.len() > 1 {
            return self.agreed_count(account).await;
        }
        let call = count_call(account, at.into());
        self.first_answer(|endpoint| {
            let call = &call;
            async move { read_count(one(&endpoint, call).await) }
        })
        .await
    }

    /// The highest count that a quorum of the endpoints has reached.
    async fn agreed_count(&self, account: Address) -> Result<Nonce, ChainError> {
        let call = count_call(account, At::Latest);
        let endpoints = self.usable().await?;
        let asked = endpoints.iter().map(|endpoint| one(endpoint, &call));
        let (mut counts, mut said) = (Vec::new(), Vec::new());
        for (endpoint, answer) in endpoints.iter().zip(join_all(asked).await) {
            match read_count(answer) {
                Ok(count) => counts.push(count),
                Err(error) => {
                    endpoint.note(&error);
                    said.push(endpoint.complaint(error));
                }
            }
        }
        let required = self.quorum.required();
        if counts.len() < required {
            said.push(format!("{} endpoints answered, and {required} have to agree", counts.len()));
            return Err(ChainError::Unreachable { chain: self.chain(), said });
        }
        self.quorum.reached(&counts).ok_or_else(|| self.unreachable())
    }

    /// How many transactions each of the accounts has made, in the same order. All of it is told by
    /// one endpoint, the first that answers for all of them.
    pub async fn counts(&self, accounts: &[Address], at: At) -> Result<Vec<Nonce>, ChainError> {
        if accounts.is_empty() {
            return Ok(Vec::new());
        }
        let call = |account| count_call(account, at);
        let read = |answer, _| read_count(answer);
        self.first_answer(|endpoint| async move {
            ask_each(&endpoint, self.batch_limit(), accounts, call, read).await
        })
        .await
    }

    /// What each of the accounts has in wei, after the newest block, in the same order. All of it
    /// is told by one endpoint, the first that answers for all of them.
    pub async fn balances(&self, accounts: &[Address]) -> Result<Vec<U256>, ChainError> {
        if accounts.is_empty() {
            return Ok(Vec::new());
        }
        let call = |account: Address| Call::new(Method::Balance, json!([account, "latest"]));
        let read = |answer, _| read_some::<U256>(answer);
        self.first_answer(|endpoint| async move {
            ask_each(&endpoint, self.batch_limit(), accounts, call, read).await
        })
        .await
    }
}

/// Asks how many transactions an account has made.
pub(crate) fn count_call(account: Address, at: At) -> Call {
    let at = match at {
        At::Latest => Value::from("latest"),
        At::Pending => Value::from("pending"),
        At::Height(height) => quantity(height),
    };
    Call::new(Method::TransactionCount, json!([account, at]))
}

/// Reads a transaction count that an account can have.
pub(crate) fn read_count(answer: Answer) -> Result<Nonce, CallError> {
    let count = u64::try_from(read_some::<U256>(answer)?).ok().filter(|count| *count <= MAX_NONCE);
    count.ok_or(CallError::Garbled("a transaction count that no account has"))
}
