//! Receipts, as endpoints tell of them.

use std::collections::HashSet;
use std::sync::Arc;

use alloy::primitives::{Address, B256, U64, U256};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use stile_domain::Receipt;

use crate::batches::ask_each;
use crate::calls::Method;
use crate::endpoint::Endpoint;
use crate::rpc::{Answer, Call, CallError, read, read_some};
use crate::{ChainError, ChainPool};

/// What is known of a transaction's receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiptAnswer {
    /// It was mined.
    Found(Receipt),
    /// There is none.
    NotFound {
        /// The height of the newest block of the endpoint that said so, before it was asked.
        head: u64,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    transaction_hash: B256,
    #[serde(default)]
    block_number: Option<U64>,
    #[serde(default)]
    block_hash: Option<B256>,
    #[serde(default)]
    transaction_index: U64,
    #[serde(default)]
    status: Option<U64>,
    gas_used: U64,
    #[serde(default)]
    effective_gas_price: Option<U256>,
    #[serde(default)]
    contract_address: Option<Address>,
}

const ANOTHER: CallError = CallError::Garbled("a receipt of another transaction");
const ABSURD: CallError = CallError::Garbled("a receipt that cannot be");

/// Asks for a transaction's receipt.
pub(crate) fn receipt_call(hash: B256) -> Call {
    Call::new(Method::TransactionReceipt, json!([hash]))
}

/// Reads the receipt of this very transaction. One that is in no block yet counts as none.
pub(crate) fn read_receipt(answer: Answer, hash: B256) -> Result<Option<Receipt>, CallError> {
    match read::<Told>(answer)? {
        None => Ok(None),
        Some(told) if told.transaction_hash != hash => Err(ANOTHER),
        Some(told) => told.into_receipt(),
    }
}

/// Reads a block's receipts of these transactions. The others are skipped unread: some chains have
/// transactions of their own with receipts like nobody else's.
pub(crate) fn read_receipts(
    answer: Answer,
    wanted: &HashSet<&B256>,
) -> Result<Option<Vec<Receipt>>, CallError> {
    let Some(told) = read::<Vec<Box<RawValue>>>(answer)? else { return Ok(None) };
    let mut receipts = Vec::with_capacity(wanted.len());
    for told in told {
        if let Ok(title) = serde_json::from_str::<Title>(told.get())
            && wanted.contains(&title.transaction_hash)
        {
            receipts.extend(read_receipt(Ok(told), title.transaction_hash)?);
        }
    }
    Ok(Some(receipts))
}

/// Whose receipt it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Title {
    transaction_hash: B256,
}

impl ChainPool {
    /// What is known of each transaction's receipt. Asks the endpoint that is followed first, and the
    /// others for what it does not have. One that is on another fork knows of the wrong one: whose
    /// block counts is for the caller to find out.
    pub async fn receipts(&self, hashes: &[B256]) -> Result<Vec<ReceiptAnswer>, ChainError> {
        let mut answers = Vec::with_capacity(hashes.len());
        // One call of each batch asks for the head.
        for hashes in hashes.chunks(self.batch_limit().saturating_sub(1).max(1)) {
            answers.extend(self.receipts_of_anybody(hashes).await?);
        }
        Ok(answers)
    }

    /// What one endpoint does not have is asked of the next: it may lack its index, or hide it.
    async fn receipts_of_anybody(&self, hashes: &[B256]) -> Result<Vec<ReceiptAnswer>, ChainError> {
        let mut answers: Vec<Option<ReceiptAnswer>> = vec![None; hashes.len()];
        let mut said = Vec::new();
        for endpoint in self.usable().await? {
            let missing = |place: &usize| !matches!(answers[*place], Some(ReceiptAnswer::Found(_)));
            let places: Vec<usize> = (0..hashes.len()).filter(missing).collect();
            if places.is_empty() {
                break;
            }
            let wanted: Vec<B256> = places.iter().map(|place| hashes[*place]).collect();
            match receipts(Arc::clone(&endpoint), &wanted).await {
                Ok(found) => {
                    for (place, found) in places.into_iter().zip(found) {
                        answers[place] = Some(match (answers[place].take(), found) {
                            // Only an endpoint that has come far enough says that there is none.
                            (
                                Some(ReceiptAnswer::NotFound { head: before }),
                                ReceiptAnswer::NotFound { head },
                            ) => ReceiptAnswer::NotFound { head: head.max(before) },
                            (_, found) => found,
                        });
                    }
                }
                Err(error) => {
                    endpoint.note(&error);
                    said.push(endpoint.complaint(error));
                }
            }
        }
        let unreachable = || ChainError::Unreachable { chain: self.chain(), said };
        answers.into_iter().collect::<Option<Vec<_>>>().ok_or_else(unreachable)
    }
}

/// The receipts of a batch, with the endpoint's head from before they were asked for.
async fn receipts(
    endpoint: Arc<Endpoint>,
    hashes: &[B256],
) -> Result<Vec<ReceiptAnswer>, CallError> {
    let mut calls = vec![Call::new(Method::BlockNumber, json!([]))];
    calls.extend(hashes.iter().map(|hash| receipt_call(*hash)));
    let mut answers = endpoint.rpc.batch(&calls).await.into_iter();
    let head = answers.next().unwrap_or(Err(CallError::Garbled("nothing")));
    let head = read_some::<U64>(head)?.to::<u64>();
    let answer = |(answer, hash): (_, &B256)| {
        Ok(match read_receipt(answer, *hash)? {
            Some(receipt) => ReceiptAnswer::Found(receipt),
            None => ReceiptAnswer::NotFound { head },
        })
    };
    answers.zip(hashes).map(answer).collect()
}

/// Receipts by hash, for a block whose receipts cannot be had at once.
pub(crate) async fn receipts_by_hash(
    endpoint: &Endpoint,
    hashes: &[B256],
    limit: usize,
) -> Result<Vec<Receipt>, CallError> {
    let receipts = ask_each(endpoint, limit, hashes, receipt_call, read_receipt).await?;
    Ok(receipts.into_iter().flatten().collect())
}

impl Told {
    fn into_receipt(self) -> Result<Option<Receipt>, CallError> {
        let (Some(number), Some(block_hash)) = (self.block_number, self.block_hash) else {
            return Ok(None);
        };
        let block_number = number.to::<u64>();
        // Receipts without a status are older than Byzantium: nothing sent today gets one.
        let status = self.status.ok_or(ABSURD)?;
        let price = self.effective_gas_price.unwrap_or_default();
        if block_number > i64::MAX as u64 {
            return Err(ABSURD);
        }
        Ok(Some(Receipt {
            tx_hash: self.transaction_hash,
            block_number,
            block_hash,
            transaction_index: self.transaction_index.to(),
            status: status == U64::from(1),
            gas_used: self.gas_used.to(),
            effective_gas_price: u128::try_from(price).map_err(|_| ABSURD)?,
            // Some nodes write it so where none was made.
            contract_address: self.contract_address.filter(|made| *made != Address::ZERO),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::value::to_raw_value;

    use super::*;

    fn told(change: impl FnOnce(&mut Value)) -> Answer {
        let mut value = json!({
            "transactionHash": B256::repeat_byte(1),
            "blockNumber": "0x7",
            "blockHash": B256::repeat_byte(2),
            "transactionIndex": "0x3",
            "status": "0x1",
            "gasUsed": "0x5208",
            "effectiveGasPrice": "0x9",
            "contractAddress": null,
        });
        change(&mut value);
        Ok(to_raw_value(&value).unwrap())
    }

    #[test]
    fn a_receipt_is_read() {
        let receipt = read_receipt(told(|_| ()), B256::repeat_byte(1)).unwrap().unwrap();
        assert!(receipt.status);
        assert_eq!((receipt.block_number, receipt.gas_used), (7, 21_000));
        let reverted = told(|value| value["status"] = json!("0x0"));
        assert!(!read_receipt(reverted, B256::repeat_byte(1)).unwrap().unwrap().status);
    }

    #[test]
    fn nobody_makes_a_contract_at_the_address_zero() {
        let made = |address: Value| {
            let told = told(|value| value["contractAddress"] = address);
            read_receipt(told, B256::repeat_byte(1)).unwrap().unwrap().contract_address
        };
        let contract = Address::repeat_byte(7);
        assert_eq!(made(json!(contract)), Some(contract));
        assert_eq!(made(json!(null)), None);
        assert_eq!(made(json!(Address::ZERO)), None);
    }

    #[test]
    fn what_is_no_receipt_of_ours_is_an_error() {
        assert_eq!(read_receipt(told(|_| ()), B256::repeat_byte(5)), Err(ANOTHER));
        let mine = B256::repeat_byte(1);
        assert_eq!(read_receipt(told(|value| value["status"] = json!(null)), mine), Err(ABSURD));
        let huge = json!("0xffffffffffffffff");
        assert_eq!(read_receipt(told(|value| value["blockNumber"] = huge), mine), Err(ABSURD));
        assert!(read_receipt(told(|value| value["gasUsed"] = json!({})), mine).is_err());
    }

    #[test]
    fn strange_receipts_of_others_do_not_matter() {
        let ours = told(|_| ()).unwrap();
        let strange = r#"{"transactionHash":null,"status":"odd"},7,{"l1":true}"#;
        let block = RawValue::from_string(format!("[{strange},{}]", ours.get())).unwrap();
        let mine = B256::repeat_byte(1);
        let receipts = read_receipts(Ok(block.clone()), &HashSet::from([&mine])).unwrap().unwrap();
        assert_eq!(receipts.len(), 1);
        let other = B256::repeat_byte(2);
        assert_eq!(read_receipts(Ok(block), &HashSet::from([&other])), Ok(Some(Vec::new())));
    }

    #[test]
    fn a_receipt_in_no_block_is_none() {
        let pending = told(|value| value["blockHash"] = json!(null));
        assert_eq!(read_receipt(pending, B256::repeat_byte(1)), Ok(None));
    }
}
