//! What accounts have done and what they have.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use stile_domain::{Counted, MAX_NONCE, Nonce};

use crate::batches::ask_each;
use crate::blocks::quantity;
use crate::calls::Method;
use crate::endpoint::Endpoint;
use crate::pool::one;
use crate::rpc::{Answer, Bad, Call, CallError, read_some, read_some_checked};
use crate::unreadable::WHOLE;
use crate::{BlockTag, ChainError, ChainPool};

/// How often endpoints are asked for a count before they are said to disagree, and how soon again: a
/// new block takes its time to reach all of them.
const ASKED: u32 = 4;
const ASKED_AGAIN: Duration = Duration::from_millis(250);

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
    /// says: a lane's cursor moves by it, and never back. Endpoints that are apart are asked again
    /// shortly, and nothing is answered if they stay apart.
    pub async fn transaction_count(
        &self,
        account: Address,
        at: BlockTag,
    ) -> Result<Nonce, ChainError> {
        if at == BlockTag::Pending {
            return self.count_of_one(account, at).await;
        }
        for _ in 1..ASKED {
            if let Some(count) = self.counted(account).await?.exact() {
                return Ok(count);
            }
            tokio::time::sleep(ASKED_AGAIN).await;
        }
        let (counted, said) = self.count(account).await?;
        counted.exact().ok_or(ChainError::Disagreed { chain: self.chain(), said })
    }

    /// How many transactions an account has made, as far as a quorum of the endpoints in use agrees
    /// on it. An endpoint that can change nothing any more is not waited for.
    pub async fn counted(&self, account: Address) -> Result<Counted, ChainError> {
        Ok(self.count(account).await?.0)
    }

    /// The same, with what each endpoint said.
    async fn count(&self, account: Address) -> Result<(Counted, Vec<String>), ChainError> {
        if self.endpoints.len() == 1 {
            let count = self.count_of_one(account, BlockTag::Latest).await?;
            return Ok((Counted::exactly(count), Vec::new()));
        }
        let call = count_call(account, At::Latest);
        let endpoints = self.usable().await?;
        let ask = |endpoint: &Arc<Endpoint>| {
            let (endpoint, call) = (Arc::clone(endpoint), &call);
            async move {
                let answer = read_count(one(&endpoint, call).await);
                (endpoint, answer)
            }
        };
        let mut asked: FuturesUnordered<_> = endpoints.iter().map(ask).collect();
        let (mut counts, mut said) = (Vec::new(), Vec::new());
        while let Some((endpoint, answer)) = asked.next().await {
            match answer {
                Ok(count) => {
                    counts.push(count);
                    said.push(endpoint.complaint(format!("has {count} transactions of it")));
                }
                Err(error) => {
                    endpoint.note(&error);
                    said.push(endpoint.complaint(error));
                }
            }
            if let Some(count) = self.quorum.counted_early(&counts, endpoints.len()) {
                return Ok((Counted::exactly(count), said));
            }
        }
        let Some(counted) = self.quorum.counted(&counts) else {
            let required = self.quorum.required();
            said.push(format!("{} endpoints answered, and {required} have to agree", counts.len()));
            return Err(ChainError::Unreachable { chain: self.chain(), said });
        };
        Ok((counted, said))
    }

    async fn count_of_one(&self, account: Address, at: BlockTag) -> Result<Nonce, ChainError> {
        let call = count_call(account, at.into());
        self.first_answer(|endpoint| {
            let call = &call;
            async move { read_count(one(&endpoint, call).await) }
        })
        .await
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

const ABSURD: Bad = Bad { field: WHOLE, words: "a transaction count that no account has" };

/// Reads a transaction count that an account can have.
pub(crate) fn read_count(answer: Answer) -> Result<Nonce, CallError> {
    read_some_checked(answer, |count: U256| {
        let count = u64::try_from(count).ok().filter(|count| *count <= MAX_NONCE);
        count.ok_or(ABSURD)
    })
}
