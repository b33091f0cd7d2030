//! What is written to an endpoint and what is read from it. Nothing of it is trusted: an answer
//! counts only under the number of its question.

use serde::{Deserialize, Serialize};
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
    #[serde(default)]
    id: Value,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    code: Value,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    data: Option<Value>,
}

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
        serde_json::from_slice(text).map_err(|_| NOT_JSON_RPC)?
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
        let place = match place(&reply.id, first, count) {
            Some(place) => place,
            // A request that was not understood is answered without its number.
            None if count == 1 && reply.id.is_null() && reply.error.is_some() => 0,
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

fn place(id: &Value, first: u64, count: usize) -> Option<usize> {
    let id = id.as_u64().or_else(|| id.as_str()?.parse().ok())?;
    usize::try_from(id.checked_sub(first)?).ok().filter(|place| *place < count)
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

impl Fault {
    fn into_error(self, target: &Target) -> CallError {
        let code = self.code.as_i64().or_else(|| self.code.as_str()?.parse().ok()).unwrap_or(0);
        let message = match &self.message {
            Value::String(text) => target.clean(text, TEXT_LIMIT),
            Value::Null => String::new(),
            other => target.clean(&other.to_string(), TEXT_LIMIT),
        };
        CallError::Said { code, message, data: self.data }
    }
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
    fn one_question_is_an_object_and_several_are_a_list() {
        let call = Call::new(Method::ChainId, json!([]));
        let one: Value = serde_json::from_str(&write(std::slice::from_ref(&call), 3)).unwrap();
        assert_eq!(one["id"], 3);
        let two: Value = serde_json::from_str(&write(&[call.clone(), call], 3)).unwrap();
        assert_eq!(two[1]["id"], 4);
    }
}
