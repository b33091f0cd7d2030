//! Receipts, as endpoints tell of them.

use std::collections::HashSet;
use std::sync::Arc;

use alloy::primitives::{Address, B256, U64, U256};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stile_domain::Receipt;

use crate::batches::ask_each_apart;
use crate::calls::Method;
use crate::endpoint::Endpoint;
use crate::maybe::Maybe;
use crate::rpc::{Answer, Bad, Call, CallError, Raw, read_some};
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
    /// An endpoint has one that cannot be read, and no other one shows it. It says nothing: neither
    /// that there is one nor that there is none.
    Unreadable,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    transaction_hash: B256,
    #[serde(deserialize_with = "may_be_null")]
    block_number: Option<U64>,
    #[serde(deserialize_with = "may_be_null")]
    block_hash: Option<B256>,
    #[serde(default)]
    transaction_index: Option<Maybe<U64>>,
    #[serde(default)]
    status: Option<Maybe<Status>>,
    /// The state after the transaction, before Byzantium.
    #[serde(default)]
    root: Value,
    #[serde(default)]
    gas_used: Maybe<U64>,
    #[serde(default)]
    effective_gas_price: Option<Maybe<U256>>,
    /// Told of calls too, where the transaction itself is.
    #[serde(default)]
    to: Value,
    /// Some nodes write an empty text where there is none.
    #[serde(default)]
    contract_address: Maybe<Address>,
}

/// How an execution ended, as nodes write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Status {
    Number(U64),
    Word(bool),
}

/// A field that has to be there. It is `null` where some nodes tell of what is in no block yet; a receipt
/// without the field does not say where it belongs.
fn may_be_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

const ANOTHER: Bad =
    Bad { field: "transactionHash", words: "with the receipt of another transaction" };

fn absurd(field: &'static str) -> Bad {
    Bad { field, words: "with a receipt that cannot be" }
}

/// What a receipt is taken without: it is told, and stops nothing.
fn unread(field: &'static str) -> Bad {
    Bad { field, words: "with a receipt whose field is missing or cannot be understood" }
}

/// Asks for a transaction's receipt.
pub(crate) fn receipt_call(hash: B256) -> Call {
    Call::new(Method::TransactionReceipt, json!([hash]))
}

/// Reads the receipt of this very transaction. One that is in no block yet counts as none.
pub(crate) fn read_receipt(answer: Answer, hash: B256) -> Result<Option<Receipt>, CallError> {
    let answer = answer?;
    let Some(told) = answer.parse::<Told>()? else { return Ok(None) };
    if told.transaction_hash != hash {
        return Err(answer.refuse(ANOTHER));
    }
    if told.is_in_a_block() {
        told.not_understood().for_each(|field| answer.mention(unread(field)));
    }
    told.into_receipt().map_err(|bad| answer.refuse(bad))
}

/// Reads a block's receipts of these transactions. The others are skipped unread: some chains have
/// transactions of their own with receipts like nobody else's. One of the wanted that cannot be read
/// does not spoil the others: it is among the errors.
pub(crate) fn read_receipts(
    answer: Answer,
    wanted: &HashSet<&B256>,
) -> Result<Option<Receipts>, CallError> {
    let answer = answer?;
    let Some(told) = answer.parse::<Vec<Box<RawValue>>>()? else { return Ok(None) };
    let mut receipts = Receipts::default();
    for told in told {
        if let Ok(title) = serde_json::from_str::<Title>(told.get())
            && wanted.contains(&title.transaction_hash)
        {
            let told = Raw::part(told, answer.source());
            receipts.take(read_receipt(Ok(told), title.transaction_hash))?;
        }
    }
    Ok(Some(receipts))
}

/// Receipts of several transactions, as far as an endpoint has them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Receipts {
    pub(crate) found: Vec<Receipt>,
    /// Why the first of those that cannot be read cannot.
    pub(crate) unread: Option<CallError>,
}

impl Receipts {
    fn take(&mut self, receipt: Result<Option<Receipt>, CallError>) -> Result<(), CallError> {
        match receipt {
            Ok(receipt) => self.found.extend(receipt),
            Err(error) if error.is_about_one() => {
                self.unread.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
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

    /// What one endpoint does not have, or tells so that it cannot be read, is asked of the next: it
    /// may lack its index, or hide it. So is one that does not say how the execution ended.
    async fn receipts_of_anybody(&self, hashes: &[B256]) -> Result<Vec<ReceiptAnswer>, ChainError> {
        let mut answers: Vec<Option<ReceiptAnswer>> = vec![None; hashes.len()];
        let mut said = Vec::new();
        for endpoint in self.usable().await? {
            let missing = |place: &usize| !answers[*place].as_ref().is_some_and(is_whole);
            let places: Vec<usize> = (0..hashes.len()).filter(missing).collect();
            if places.is_empty() {
                break;
            }
            let wanted: Vec<B256> = places.iter().map(|place| hashes[*place]).collect();
            match receipts(Arc::clone(&endpoint), &wanted).await {
                Ok(found) => {
                    for (place, found) in places.into_iter().zip(found) {
                        answers[place] = Some(match answers[place].take() {
                            Some(before) => better(before, found),
                            None => found,
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

/// Whether nothing is left to ask for.
fn is_whole(answer: &ReceiptAnswer) -> bool {
    matches!(answer, ReceiptAnswer::Found(receipt) if receipt.status.is_some())
}

/// What follows from an endpoint's answer and the next one's.
fn better(before: ReceiptAnswer, next: ReceiptAnswer) -> ReceiptAnswer {
    use ReceiptAnswer::{Found, NotFound, Unreadable};
    match (before, next) {
        (Found(before), Found(next)) => {
            // Of the same block only, since on another fork it may have ended otherwise.
            let says_more = next.status.is_some() && next.block_hash == before.block_hash;
            Found(if says_more { next } else { before })
        }
        (Found(found), _) | (_, Found(found)) => Found(found),
        (Unreadable, _) | (_, Unreadable) => Unreadable,
        // Only an endpoint that has come far enough says that there is none.
        (NotFound { head: before }, NotFound { head }) => NotFound { head: head.max(before) },
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
    let answer = |(answer, hash): (_, &B256)| match read_receipt(answer, *hash) {
        Ok(Some(receipt)) => Ok(ReceiptAnswer::Found(receipt)),
        Ok(None) => Ok(ReceiptAnswer::NotFound { head }),
        Err(error) if error.is_about_one() => Ok(ReceiptAnswer::Unreadable),
        Err(error) => Err(error),
    };
    answers.zip(hashes).map(answer).collect()
}

/// Receipts by hash, for a block whose receipts cannot be had at once.
pub(crate) async fn receipts_by_hash(
    endpoint: &Endpoint,
    hashes: &[B256],
    limit: usize,
) -> Result<Receipts, CallError> {
    let told = ask_each_apart(endpoint, limit, hashes, receipt_call, read_receipt).await?;
    let mut receipts = Receipts::default();
    told.into_iter().try_for_each(|receipt| receipts.take(receipt))?;
    Ok(receipts)
}

impl Told {
    fn is_in_a_block(&self) -> bool {
        self.block_number.is_some() && self.block_hash.is_some()
    }

    /// The fields that cannot be read, and are not needed.
    fn not_understood(&self) -> impl Iterator<Item = &'static str> {
        let fields = [
            ("gasUsed", self.gas_used.is_odd()),
            ("status", self.status.as_ref().is_some_and(Maybe::is_odd)),
            ("transactionIndex", self.transaction_index.as_ref().is_some_and(Maybe::is_odd)),
            ("effectiveGasPrice", self.effective_gas_price.as_ref().is_some_and(Maybe::is_odd)),
        ];
        fields.into_iter().filter_map(|(field, is_odd)| is_odd.then_some(field))
    }

    fn into_receipt(self) -> Result<Option<Receipt>, Bad> {
        let (Some(number), Some(block_hash)) = (self.block_number, self.block_hash) else {
            return Ok(None);
        };
        let block_number = number.to::<u64>();
        let status = status(self.status.and_then(Maybe::known), &self.root);
        let price = self.effective_gas_price.and_then(Maybe::known).unwrap_or_default();
        if block_number > i64::MAX as u64 {
            return Err(absurd("blockNumber"));
        }
        let price = u128::try_from(price).map_err(|_| absurd("effectiveGasPrice"))?;
        let index = self.transaction_index.and_then(Maybe::known).unwrap_or_default();
        // Many nodes name one for what was reverted, and some for what called another contract.
        let made_one = status != Some(false) && !is_account(&self.to);
        // Some nodes write it so where none was made.
        let contract = self.contract_address.known();
        let contract = contract.filter(|made| *made != Address::ZERO && made_one);
        Ok(Some(Receipt {
            tx_hash: self.transaction_hash,
            block_number,
            block_hash,
            transaction_index: index.to(),
            status,
            gas_used: self.gas_used.known().unwrap_or_default().to(),
            effective_gas_price: price,
            contract_address: contract,
        }))
    }
}

/// How the execution ended, where the receipt says so: 1 for success, 0 for failure.
///
/// Before Byzantium there is the root of the state instead, and that says nothing: a failed
/// transaction changed the state too, since it was paid for. Neither do gas used, logs and balances. A
/// root of one byte is a status under its old name. Words that are neither say nothing, too.
fn status(status: Option<Status>, root: &Value) -> Option<bool> {
    let number = match status {
        Some(Status::Word(word)) => return Some(word),
        Some(Status::Number(number)) => number.to::<u64>(),
        None => {
            let digits = root.as_str()?.strip_prefix("0x")?;
            let byte = Some(digits).filter(|digits| digits.len() <= 2)?;
            u64::from_str_radix(byte, 16).ok()?
        }
    };
    match number {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Whether it names an account: then the transaction was a call.
fn is_account(to: &Value) -> bool {
    let account = to.as_str().and_then(|text| text.parse::<Address>().ok());
    account.is_some_and(|account| account != Address::ZERO)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::target::Target;
    use crate::unreadable::Ledger;

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
        Ok(to_raw_value(&value).unwrap().into())
    }

    fn field_of<T: std::fmt::Debug>(found: Result<T, CallError>) -> String {
        match found {
            Err(CallError::Unreadable(unread)) => unread.field().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_receipt_is_read() {
        let receipt = read_receipt(told(|_| ()), B256::repeat_byte(1)).unwrap().unwrap();
        assert_eq!(receipt.status, Some(true));
        assert_eq!((receipt.block_number, receipt.gas_used), (7, 21_000));
        let reverted = told(|value| value["status"] = json!("0x0"));
        let reverted = read_receipt(reverted, B256::repeat_byte(1)).unwrap().unwrap();
        assert_eq!(reverted.status, Some(false));
    }

    #[test]
    fn hole_37_a_receipt_without_a_status_does_not_say_how_it_ended() {
        let state = json!(B256::repeat_byte(9));
        for (status, root, expected) in [
            (json!("0x1"), json!(null), Some(true)),
            (json!("0x01"), state.clone(), Some(true)),
            (json!("0x0"), json!(null), Some(false)),
            (json!(1), json!(null), Some(true)),
            (json!(true), json!(null), Some(true)),
            (json!(false), json!("0x1"), Some(false)),
            // Neither nor.
            (json!("0x2"), json!(null), None),
            // Before Byzantium, and nothing at all.
            (json!(null), state, None),
            (json!(null), json!(null), None),
            (json!(null), json!("0x"), None),
            (json!(null), json!(7), None),
            // A status under its old name.
            (json!(null), json!("0x01"), Some(true)),
            (json!(null), json!("0x1"), Some(true)),
            (json!(null), json!("0x00"), Some(false)),
            (json!(null), json!("0x0"), Some(false)),
            // Words of its own.
            (json!("success"), json!(null), None),
            (json!("failure"), json!(null), None),
            (json!({}), json!("0x1"), Some(true)),
        ] {
            let receipt = told(|value| {
                value["root"] = root.clone();
                match status.is_null() {
                    true => drop(value.as_object_mut().unwrap().remove("status")),
                    false => value["status"] = status.clone(),
                }
            });
            let receipt = read_receipt(receipt, B256::repeat_byte(1)).unwrap().unwrap();
            assert_eq!(receipt.status, expected, "{status} {root}");
        }
    }

    #[test]
    fn a_contract_is_told_only_where_one_can_be() {
        let contract = Address::repeat_byte(7);
        for (to, status, expected) in [
            (json!(null), json!("0x1"), Some(contract)),
            // It was reverted, or ran out of gas.
            (json!(null), json!("0x0"), None),
            // It called one.
            (json!(Address::repeat_byte(8)), json!("0x1"), None),
            // How it ended is not known.
            (json!(null), json!(null), Some(contract)),
        ] {
            let receipt = told(|value| {
                (value["to"], value["status"]) = (to.clone(), status.clone());
                value["contractAddress"] = json!(contract);
            });
            let receipt = read_receipt(receipt, B256::repeat_byte(1)).unwrap().unwrap();
            assert_eq!(receipt.contract_address, expected, "{to} {status}");
        }
    }

    #[test]
    fn hole_37_one_receipt_that_cannot_be_read_does_not_spoil_the_others() {
        let mine = [B256::repeat_byte(1), B256::repeat_byte(2)];
        let good = told(|_| ()).unwrap();
        let bad = told(|value| {
            value["transactionHash"] = json!(mine[1]);
            value.as_object_mut().unwrap().remove("blockNumber");
        });
        let block = format!("[{},{}]", bad.unwrap().get(), good.get());
        let block = RawValue::from_string(block).unwrap();
        let wanted = mine.iter().collect();
        let receipts = read_receipts(Ok(block.into()), &wanted).unwrap().unwrap();
        assert_eq!(receipts.found.iter().map(|it| it.tx_hash).collect::<Vec<_>>(), [mine[0]]);
        assert_eq!(field_of(Err::<(), _>(receipts.unread.unwrap())), "blockNumber");
    }

    #[test]
    fn hole_37_of_two_answers_the_one_that_says_more_counts() {
        use ReceiptAnswer::{Found, NotFound, Unreadable};
        let whole = read_receipt(told(|_| ()), B256::repeat_byte(1)).unwrap().unwrap();
        let half = Receipt { status: None, ..whole.clone() };
        let fork = Receipt { block_hash: B256::repeat_byte(5), ..whole.clone() };
        let (whole, half, fork) = (Found(whole), Found(half), Found(fork));
        for (before, next, expected) in [
            (Unreadable, NotFound { head: 9 }, Unreadable),
            (NotFound { head: 9 }, Unreadable, Unreadable),
            (Unreadable, whole.clone(), whole.clone()),
            (NotFound { head: 9 }, NotFound { head: 7 }, NotFound { head: 9 }),
            (half.clone(), whole.clone(), whole.clone()),
            (half.clone(), Unreadable, half.clone()),
            (half.clone(), NotFound { head: 9 }, half.clone()),
            (half.clone(), fork, half),
        ] {
            assert_eq!(better(before, next), expected);
        }
        assert!(is_whole(&whole) && !is_whole(&Unreadable));
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
        // Nodes that write an empty text for none.
        assert_eq!(made(json!("0x")), None);
        assert_eq!(made(json!("")), None);
    }

    #[test]
    fn hole_37_a_receipt_is_read_without_what_does_not_matter() {
        let ledger = Arc::new(Ledger::new(Arc::new(Target::parse("http://node").unwrap())));
        let whole = read_receipt(told(|_| ()), B256::repeat_byte(1)).unwrap().unwrap();
        let without_gas = Receipt { gas_used: 0, ..whole.clone() };
        let unpaid = Receipt { effective_gas_price: 0, ..whole.clone() };
        let first = Receipt { transaction_index: 0, ..whole.clone() };
        let untold = Receipt { status: None, ..whole.clone() };
        for (field, value, expected, mentioned) in [
            ("gasUsed", None, without_gas.clone(), true),
            ("gasUsed", Some(json!(null)), without_gas.clone(), true),
            ("gasUsed", Some(json!("much")), without_gas, true),
            ("status", Some(json!("success")), untold.clone(), true),
            ("status", Some(json!(null)), untold, false),
            ("effectiveGasPrice", Some(json!("dear")), unpaid.clone(), true),
            ("effectiveGasPrice", None, unpaid, false),
            ("transactionIndex", Some(json!("far")), first.clone(), true),
            ("transactionIndex", Some(json!(null)), first, false),
            ("contractAddress", Some(json!("0x")), whole.clone(), false),
            ("contractAddress", Some(json!("")), whole, false),
        ] {
            let before = ledger.totals().iter().map(|(_, count)| count).sum::<u64>();
            let raw = told(|receipt| match value.clone() {
                Some(value) => receipt[field] = value,
                None => drop(receipt.as_object_mut().unwrap().remove(field)),
            });
            let raw = raw.unwrap().of(Method::TransactionReceipt, &ledger);
            let read = read_receipt(Ok(raw), B256::repeat_byte(1));
            assert_eq!(read, Ok(Some(expected)), "{field} {value:?}");
            let after = ledger.totals().iter().map(|(_, count)| count).sum::<u64>();
            assert_eq!(after - before, u64::from(mentioned), "{field} {value:?}");
            assert!(!mentioned || ledger.list().iter().any(|it| it.field == field), "{field}");
        }
    }

    #[test]
    fn what_is_no_receipt_of_ours_is_an_error() {
        let other = read_receipt(told(|_| ()), B256::repeat_byte(5));
        assert_eq!(field_of(other), "transactionHash");
        let mine = B256::repeat_byte(1);
        let huge = json!("0xffffffffffffffff");
        for (field, value) in [
            ("blockNumber", huge.clone()),
            ("effectiveGasPrice", json!(format!("{:#x}", U256::MAX))),
            ("blockHash", json!("")),
        ] {
            let bad = read_receipt(told(|receipt| receipt[field] = value), mine);
            assert_eq!(field_of(bad), field);
        }
    }

    #[test]
    fn strange_receipts_of_others_do_not_matter() {
        let ours = told(|_| ()).unwrap();
        let strange = r#"{"transactionHash":null,"status":"odd"},7,{"l1":true}"#;
        let block = RawValue::from_string(format!("[{strange},{}]", ours.get())).unwrap();
        let block = Raw::from(block);
        let mine = B256::repeat_byte(1);
        let receipts = read_receipts(Ok(block.clone()), &HashSet::from([&mine])).unwrap().unwrap();
        assert_eq!(receipts.found.len(), 1);
        let other = B256::repeat_byte(2);
        let none = read_receipts(Ok(block), &HashSet::from([&other]));
        assert_eq!(none, Ok(Some(Receipts::default())));
    }

    #[test]
    fn hole_37_a_receipt_in_no_block_is_none_and_one_that_does_not_say_where_it_is_cannot_be_read()
    {
        let mine = B256::repeat_byte(1);
        for field in ["blockHash", "blockNumber"] {
            let pending = told(|value| value[field] = json!(null));
            assert_eq!(read_receipt(pending, mine), Ok(None), "{field}");
            let without = told(|value| drop(value.as_object_mut().unwrap().remove(field)));
            assert_eq!(field_of(read_receipt(without, mine)), field);
        }
    }
}
