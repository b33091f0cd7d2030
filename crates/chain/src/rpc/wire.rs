//! What is written to an endpoint and what is read from it. Nothing of it is trusted: an answer
//! counts only under the number of its question, and what nobody asked for takes no memory.

use std::sync::Arc;

use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Answer, Call, CallError, TEXT_LIMIT};
use crate::target::Target;

#[derive(Serialize)]
struct Question<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: &'a Value,
}

impl<'a> Question<'a> {
    fn new((call, id): (&'a Call, u64)) -> Self {
        Self { jsonrpc: "2.0", id, method: call.method.name(), params: &call.params }
    }
}

/// One question as an object, several as a list, numbered from `first`.
pub(super) fn write(calls: &[Call], first: u64) -> String {
    let questions: Vec<Question<'_>> = calls.iter().zip(first..).map(Question::new).collect();
    let text = match questions.as_slice() {
        [question] => serde_json::to_string(question),
        _ => serde_json::to_string(&questions),
    };
    // A JSON value always has a text.
    text.unwrap_or_default()
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<Fault<'a>>,
}

#[derive(Deserialize)]
struct Fault<'a> {
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// How many replies more than questions are read: some of those to other questions may be among them.
const FURTHER: usize = 16;

/// The longest text of an error's data that is kept, where it is a text: what a contract returned.
const LONGEST_TEXT_DATA: usize = 128 * 1024;

/// The longest of any other kind, which takes many times as much memory.
const LONGEST_DATA: usize = 16 * 1024;

const TOO_MANY: CallError = CallError::Garbled("many more answers than there were questions");
const NOT_JSON_RPC: CallError = CallError::Garbled("something that is not JSON-RPC");
pub(super) const MISSING: CallError = CallError::Garbled("a batch in which this call is missing");
const TWICE: CallError = CallError::Garbled("the same call twice");

/// Whether a batch has no answer to a call, or several, of which none is known to be the right one.
pub(super) fn is_left_out(answer: &Answer) -> bool {
    matches!(answer, Err(error) if *error == MISSING || *error == TWICE)
}

/// The answers to the questions numbered from `first`, in their order. `None`: a batch was
/// answered with a single error, as by endpoints that take none.
pub(super) fn read(
    text: &[u8],
    first: u64,
    count: usize,
    target: &Target,
) -> Result<Option<Vec<Answer>>, CallError> {
    let is_list = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let replies: Vec<Reply<'_>> = if is_list {
        read_list(text, count.saturating_add(FURTHER))?
    } else {
        vec![serde_json::from_slice(text).map_err(|_| NOT_JSON_RPC)?]
    };
    if count > 1 && !is_list {
        return match replies.into_iter().next().and_then(|reply| reply.error) {
            Some(fault) => match fault.into_error(target) {
                error if is_refusal_of_batches(&error) => Ok(None),
                error => Err(error),
            },
            None => Err(NOT_JSON_RPC),
        };
    }
    let mut answers: Vec<Option<Answer>> = Vec::new();
    answers.resize_with(count, || None);
    for reply in replies {
        let place = match place(reply.id, first, count) {
            Some(place) => place,
            // A request that was not understood is answered without its number.
            None if count == 1 && reply.id.is_none() && reply.error.is_some() => 0,
            None => continue,
        };
        // Two answers to one question: neither is known to be the right one.
        answers[place] = Some(match answers[place] {
            None => reply.into_answer(target),
            Some(_) => Err(TWICE),
        });
    }
    Ok(Some(answers.into_iter().map(|answer| answer.unwrap_or(Err(MISSING))).collect()))
}

/// Invalid request, unknown method: this is about the batch, not about what is in it. Anything
/// else, such as a rate limit, passes.
fn is_refusal_of_batches(error: &CallError) -> bool {
    let CallError::Said { code, message, .. } = error else { return false };
    matches!(code, -32600 | -32601 | -32700) || message.to_ascii_lowercase().contains("batch")
}

fn place(id: Option<&RawValue>, first: u64, count: usize) -> Option<usize> {
    let id = number::<u64>(id?)?;
    usize::try_from(id.checked_sub(first)?).ok().filter(|place| *place < count)
}

/// A whole number, which some write as a text.
pub(super) fn number<T: std::str::FromStr>(told: &RawValue) -> Option<T> {
    let text = told.get();
    let inside = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or(text).parse().ok()
}

/// A list of so many replies at most. Of a longer one, nothing more is read.
fn read_list(text: &[u8], most: usize) -> Result<Vec<Reply<'_>>, CallError> {
    let mut is_longer = false;
    let mut json = serde_json::Deserializer::from_slice(text);
    let replies = Replies { most, is_longer: &mut is_longer }.deserialize(&mut json);
    match replies.and_then(|replies| json.end().map(|()| replies)) {
        Ok(replies) => Ok(replies),
        Err(_) if is_longer => Err(TOO_MANY),
        Err(_) => Err(NOT_JSON_RPC),
    }
}

struct Replies<'s> {
    most: usize,
    is_longer: &'s mut bool,
}

impl<'de> DeserializeSeed<'de> for Replies<'_> {
    type Value = Vec<Reply<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Replies<'_> {
    type Value = Vec<Reply<'de>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of replies")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut replies = Vec::new();
        while let Some(reply) = list.next_element()? {
            if replies.len() == self.most {
                *self.is_longer = true;
                return Err(A::Error::custom("a longer list"));
            }
            replies.push(reply);
        }
        Ok(replies)
    }
}

impl Reply<'_> {
    fn into_answer(self, target: &Target) -> Answer {
        match (self.error, self.result) {
            (Some(fault), _) => Err(fault.into_error(target)),
            (None, Some(result)) => Ok(result.to_owned().into()),
            // `"result": null` reads as no result at all.
            (None, None) => Ok(RawValue::NULL.to_owned().into()),
        }
    }
}

impl Fault<'_> {
    fn into_error(self, target: &Target) -> CallError {
        let code = self.code.and_then(number).unwrap_or(0);
        let message = match self.message.map(RawValue::get) {
            None => String::new(),
            Some(told) => match serde_json::from_str::<String>(told) {
                Ok(text) => target.clean(&text, TEXT_LIMIT),
                Err(_) => target.clean(told, TEXT_LIMIT),
            },
        };
        CallError::Said { code, message, data: self.data.and_then(kept).map(Arc::new) }
    }
}

/// An error's data, if that is short enough to be kept.
fn kept(data: &RawValue) -> Option<Value> {
    let text = data.get();
    let most = if text.starts_with('"') { LONGEST_TEXT_DATA } else { LONGEST_DATA };
    (text.len() <= most).then(|| serde_json::from_str(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::calls::Method;

    fn target() -> Target {
        Target::parse("http://node.example/canary").unwrap()
    }

    fn read_all(text: &str, count: usize) -> Result<Option<Vec<Answer>>, CallError> {
        read(text.as_bytes(), 7, count, &target())
    }

    #[test]
    fn answers_come_back_in_the_order_of_their_questions() {
        let text =
            json!([{ "id": 8, "result": 2 }, { "id": 99, "result": 0 }, { "id": 7, "result": 1 }]);
        let answers = read_all(&text.to_string(), 3).unwrap().unwrap();
        assert_eq!(answers[0].as_ref().unwrap().get(), "1");
        assert_eq!(answers[1].as_ref().unwrap().get(), "2");
        assert_eq!(answers[2].as_ref().unwrap_err(), &MISSING);
    }

    #[test]
    fn a_question_answered_twice_has_no_answer() {
        let text = json!([{ "id": 7, "result": 1 }, { "id": 7, "result": 2 }]).to_string();
        assert!(read_all(&text, 1).unwrap().unwrap()[0].is_err());
    }

    #[test]
    fn errors_are_read_and_cleaned() {
        let text = json!({ "id": 7, "error": { "code": -32000, "message": "bad key canary" } });
        let answer = read_all(&text.to_string(), 1).unwrap().unwrap().remove(0);
        let Err(CallError::Said { code, message, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!((code, message.as_str()), (-32000, "bad key …"));
        let null = read_all(r#"{"id":7,"result":null}"#, 1).unwrap().unwrap().remove(0);
        assert_eq!(null.unwrap().get(), "null");
    }

    #[test]
    fn a_refused_batch_is_told_from_one_that_may_pass() {
        let refused = r#"{"id":null,"error":{"code":-32600,"message":"batch too large"}}"#;
        assert!(matches!(read_all(refused, 2), Ok(None)));
        let busy = r#"{"id":null,"error":{"code":-32005,"message":"limit exceeded"}}"#;
        assert!(matches!(read_all(busy, 2), Err(CallError::Said { code: -32005, .. })));
        assert_eq!(read_all("<html>", 2).unwrap_err(), NOT_JSON_RPC);
        assert_eq!(read_all("", 1).unwrap_err(), NOT_JSON_RPC);
    }

    #[test]
    fn data_is_kept_up_to_a_length() {
        let returned = |bytes: usize| json!(format!("0x{}", "08".repeat(bytes)));
        for (data, is_kept) in [
            (json!({ "retry_after": 7 }), true),
            (returned(60_000), true),
            (returned(70_000), false),
            (json!({ "data": returned(7_000) }), true),
            (json!({ "data": returned(9_000) }), false),
            (json!(vec![0; 9_000]), false),
            (Value::Null, false),
        ] {
            let error = json!({ "code": 3, "message": "execution reverted", "data": data });
            let text = json!([{ "id": 7, "error": error }, { "id": 8, "error": error }]);
            for answer in read_all(&text.to_string(), 2).unwrap().unwrap() {
                let Err(CallError::Said { code: 3, message, data: found }) = answer else {
                    panic!("{answer:?}")
                };
                assert_eq!(message, "execution reverted");
                let is_whole = found.is_some_and(|found| *found == data);
                assert_eq!(is_whole, is_kept, "{} bytes", data.to_string().len());
            }
        }
    }

    #[test]
    fn of_many_more_replies_than_questions_nothing_is_read() {
        let replies = |count: u64| (0..count).map(|n| json!({ "id": 7 + n, "result": n }));
        let most = 2 + FURTHER as u64;
        let few = read_all(&replies(most).collect::<Value>().to_string(), 2).unwrap().unwrap();
        assert!(few.iter().all(Result::is_ok));
        let many: Value = replies(most + 1).collect();
        assert_eq!(read_all(&many.to_string(), 2).unwrap_err(), TOO_MANY);
        // What comes after them is not even looked at.
        let endless = many.to_string().replace(']', ",{},{},");
        assert_eq!(read_all(&endless, 2).unwrap_err(), TOO_MANY);
        assert_eq!(read_all("[{},{},", 2).unwrap_err(), NOT_JSON_RPC);
        assert_eq!(read_all("[] []", 2).unwrap_err(), NOT_JSON_RPC);
    }

    #[test]
    fn numbers_and_messages_are_read_as_they_are_written() {
        for (error, expected) in [
            (json!({ "code": "-32000", "message": "no" }), (-32000, "no")),
            (json!({ "code": 1.5, "message": { "why": 7 } }), (0, "{\"why\":7}")),
            (json!({ "code": [1, 2], "message": null }), (0, "")),
            (json!({ "message": "a \"word\"\n" }), (0, "a \"word\" ")),
        ] {
            let text = json!({ "id": "7", "error": error }).to_string();
            let answer = read_all(&text, 1).unwrap().unwrap().remove(0);
            let Err(CallError::Said { code, message, .. }) = answer else { panic!("{answer:?}") };
            assert_eq!((code, message.as_str()), expected, "{text}");
        }
    }

    #[test]
    fn one_question_is_an_object_and_several_are_a_list() {
        let call = Call::new(Method::ChainId, json!([]));
        let one: Value = serde_json::from_str(&write(std::slice::from_ref(&call), 3)).unwrap();
        assert_eq!(one["id"], 3);
        let two: Value = serde_json::from_str(&write(&[call.clone(), call], 3)).unwrap();
        assert_eq!(two[1]["id"], 4);
    }
}
