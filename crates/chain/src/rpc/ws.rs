//! JSON-RPC over a WebSocket.
//!
//! One connection carries the questions and a subscription to new heads. It is made when
//! something is asked and there is none; the pool asks every endpoint how it is at each look at
//! the chain, so a broken connection is soon made again. A task reads from it; the task ends with
//! the connection, and the connection with the [`Ws`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use reqwest::Url;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use super::{Call, CallError, LONGEST_ANSWER, wire};
use crate::calls::{self, CallResult, Method};
use crate::hints::Announcer;
use crate::target::{EndpointError, Target};

/// How often a silent connection is asked whether it lives. A second such interval without a sign
/// ends it.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Questions that may wait to be written.
const WAITING: usize = 256;

/// The number of the subscription's question. Others count from one.
const SUBSCRIPTION: u64 = 0;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(super) struct Ws {
    target: Arc<Target>,
    connector: Connector,
    heads: Option<Announcer>,
    connection: Mutex<Option<Connection>>,
    announces: Arc<Announces>,
}

/// Whether new heads are announced: 0 while that is not known, 1 if not, 2 if so.
#[derive(Debug, Default)]
struct Announces(AtomicU8);

impl Announces {
    fn note(&self, does: bool) {
        self.0.store(1 + u8::from(does), Ordering::Relaxed);
    }

    fn known(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            known => Some(known == 2),
        }
    }
}

/// A running connection; ends when dropped.
struct Connection {
    questions: mpsc::Sender<Question>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Question {
    body: String,
    first: u64,
    count: usize,
    answer: oneshot::Sender<Vec<u8>>,
}

impl Ws {
    pub(super) fn new(
        target: Arc<Target>,
        heads: Option<Announcer>,
    ) -> Result<Self, EndpointError> {
        let connector = match target.url.scheme() {
            "wss" => Connector::Rustls(tls(&target)?),
            _ => Connector::Plain,
        };
        let (connection, announces) = (Mutex::new(None), Arc::default());
        Ok(Self { target, connector, heads, connection, announces })
    }

    /// Whether it announces new heads, as far as that is known.
    pub(super) fn announces(&self) -> Option<bool> {
        self.announces.known()
    }

    /// Sends a body with questions numbered from `first` and returns what comes back under their
    /// numbers. The caller limits the time.
    pub(super) async fn exchange(
        &self,
        body: String,
        first: u64,
        count: usize,
    ) -> Result<Vec<u8>, CallError> {
        match self.ask(body.clone(), first, count).await? {
            Some(answer) => Ok(answer),
            // The connection broke. Everything Stile asks may be asked twice.
            None => self.ask(body, first, count).await?.ok_or(CallError::Unreachable),
        }
    }

    /// `None` if the connection breaks before the answer comes.
    async fn ask(
        &self,
        body: String,
        first: u64,
        count: usize,
    ) -> Result<Option<Vec<u8>>, CallError> {
        let (answer, answered) = oneshot::channel();
        let questions = self.connected().await?;
        if questions.send(Question { body, first, count, answer }).await.is_err() {
            return Ok(None);
        }
        // The task drops what it cannot answer when the connection breaks.
        Ok(answered.await.ok())
    }

    /// The connection there is, or a new one.
    async fn connected(&self) -> Result<mpsc::Sender<Question>, CallError> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection
            && !connection.questions.is_closed()
        {
            return Ok(connection.questions.clone());
        }
        let request = request(&self.target.url).ok_or(CallError::Unreachable)?;
        let connector = Some(self.connector.clone());
        // Nodes send an answer as one frame, whole blocks too.
        let limits = WebSocketConfig::default()
            .max_message_size(Some(LONGEST_ANSWER))
            .max_frame_size(Some(LONGEST_ANSWER));
        let (socket, _) = connect_async_tls_with_config(request, Some(limits), true, connector)
            .await
            .map_err(|_| CallError::Unreachable)?;
        let (questions, waiting) = mpsc::channel(WAITING);
        let task =
            tokio::spawn(serve(socket, waiting, self.heads.clone(), Arc::clone(&self.announces)))
                .abort_handle();
        *connection = Some(Connection { questions: questions.clone(), task });
        Ok(questions)
    }
}

/// The system's certificates decide, as for HTTPS.
fn tls(target: &Target) -> Result<Arc<ClientConfig>, EndpointError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|_| target.unusable("TLS cannot be set up"))?;
    Ok(Arc::new(config.with_no_client_auth()))
}

/// The opening request. A name and password in the URL go into a header, as a browser does it.
fn request(url: &Url) -> Option<Request> {
    let mut bare = url.clone();
    bare.set_username("").ok()?;
    bare.set_password(None).ok()?;
    let mut request = bare.as_str().into_client_request().ok()?;
    if !url.username().is_empty() || url.password().is_some() {
        let mut user = percent_decoded(url.username());
        user.push(b':');
        user.extend(percent_decoded(url.password().unwrap_or_default()));
        let mut value = HeaderValue::from_str(&format!("Basic {}", base64(&user))).ok()?;
        value.set_sensitive(true);
        request.headers_mut().insert("authorization", value);
    }
    Some(request)
}

/// Reads and writes until the connection breaks or nobody holds it any more.
async fn serve(
    mut socket: Socket,
    mut waiting: mpsc::Receiver<Question>,
    heads: Option<Announcer>,
    announces: Arc<Announces>,
) {
    let asked = Instant::now();
    if heads.is_some() && !send(&mut socket, subscription()).await {
        return;
    }
    let mut open: HashMap<u64, Question> = HashMap::new();
    let mut keepalive = tokio::time::interval(KEEPALIVE);
    let mut silent = false;
    loop {
        tokio::select! {
            question = waiting.recv() => {
                let Some(mut question) = question else { break };
                let body = std::mem::take(&mut question.body);
                // Whoever stopped waiting is forgotten.
                open.retain(|_, question| !question.answer.is_closed());
                open.insert(question.first, question);
                if !send(&mut socket, Message::Text(body.into())).await {
                    break;
                }
            }
            message = socket.next() => {
                silent = false;
                match message {
                    Some(Ok(Message::Text(text))) => {
                        receive(text, &mut open, heads.as_ref(), &announces, asked);
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                    Some(Ok(_)) => {}
                }
            }
            _ = keepalive.tick() => {
                if silent || !send(&mut socket, Message::Ping(Vec::new().into())).await {
                    break;
                }
                silent = true;
            }
        }
    }
}

/// Whether it could be written. A connection that takes nothing more is as good as broken.
async fn send(socket: &mut Socket, message: Message) -> bool {
    matches!(tokio::time::timeout(KEEPALIVE, socket.send(message)).await, Ok(Ok(())))
}

fn subscription() -> Message {
    let call = Call::new(Method::Subscribe, json!(["newHeads"]));
    Message::Text(wire::write(&[call], SUBSCRIPTION).into())
}

/// As much of a message as it takes to see whom it is for.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    error: Option<serde::de::IgnoredAny>,
}

/// Of a list, the first one's tells whose it is.
fn envelope(text: &str) -> Option<Envelope<'_>> {
    match text.trim_start().strip_prefix('[') {
        Some(list) => serde_json::Deserializer::from_str(list).into_iter().next()?.ok(),
        None => serde_json::from_str(text).ok(),
    }
}

fn receive(
    text: Utf8Bytes,
    open: &mut HashMap<u64, Question>,
    heads: Option<&Announcer>,
    announces: &Announces,
    subscribed: Instant,
) {
    let Some(envelope) = envelope(&text) else { return answer_only(open, text) };
    if envelope.method.as_deref() == Some("eth_subscription") {
        if let Some(heads) = heads {
            heads.announce();
        }
        return;
    }
    let Some(id) = envelope.id.and_then(wire::number::<u64>) else {
        if envelope.method.is_none() {
            answer_only(open, text);
        }
        return;
    };
    if id == SUBSCRIPTION {
        let result = if envelope.error.is_some() { CallResult::Error } else { CallResult::Ok };
        announces.note(result == CallResult::Ok);
        calls::record(Method::Subscribe, result, subscribed.elapsed());
        return;
    }
    let whose = open.values().find(|question| {
        id.checked_sub(question.first).is_some_and(|place| place < question.count as u64)
    });
    let first = whose.map(|question| question.first);
    answer(first.and_then(|first| open.remove(&first)), text);
}

/// What comes in place of the answers to a batch may have no number, or be no JSON-RPC. With one open
/// question there is no doubt whose it is.
fn answer_only(open: &mut HashMap<u64, Question>, text: Utf8Bytes) {
    if open.len() == 1 {
        answer(open.drain().next().map(|(_, question)| question), text);
    }
}

fn answer(question: Option<Question>, text: Utf8Bytes) {
    if let Some(question) = question {
        // Whoever asked may have stopped waiting.
        let _ = question.answer.send(text.as_bytes().to_vec());
    }
}

/// What a part of a URL says once its `%` signs are read.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let byte = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if *first == b'%' => {
                decoded.push(byte);
                rest = &more[2..];
            }
            _ => {
                decoded.push(*first);
                rest = more;
            }
        }
    }
    decoded
}

/// Base64 as in RFC 4648, for the one header that needs it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let group = part.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte))
            << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= part.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_message_is_shows_at_its_beginning() {
        for (text, id) in [
            (r#"{"id":7,"result":[1,2]}"#, Some(7)),
            (r#" [ {"id":8,"result":null},{"id":9}]"#, Some(8)),
            // The rest is for whoever asked.
            (r#"[{"id":8},"#, Some(8)),
            (r#"{"id":null,"error":{}}"#, None),
            ("[]", None),
            ("7", None),
        ] {
            let found = envelope(text).and_then(|it| it.id).and_then(wire::number::<u64>);
            assert_eq!(found, id, "{text}");
        }
    }

    #[test]
    fn hole_37_whatever_comes_in_place_of_a_batch_answers_the_only_question() {
        let question = |first| {
            let (answer, answered) = oneshot::channel();
            (Question { body: String::new(), first, count: 2, answer }, answered)
        };
        let announces = Announces::default();
        for (text, one, of_two) in [
            ("[]", true, false),
            ("null", true, false),
            ("no batches", true, false),
            (r#"[{"id":null,"error":{"code":-32600,"message":"no"}}]"#, true, false),
            (r#"[{"id":null,"result":"0x1"}]"#, true, false),
            (r#"{"error":"no"}"#, true, false),
            (r#"[{"id":7,"result":"0x1"}]"#, true, true),
            (r#"[{"id":"8","result":"0x1"}]"#, true, true),
            // An older question's, and what nobody has asked for.
            (r#"[{"id":3,"result":"0x1"}]"#, false, false),
            (r#"{"method":"eth_subscription","params":{}}"#, false, false),
            (r#"{"method":"other_subscription","params":{}}"#, false, false),
        ] {
            for (others, expected) in [(false, one), (true, of_two)] {
                let (asked, mut answered) = question(7);
                let mut open = HashMap::from([(7, asked)]);
                let (other, _kept) = question(90);
                if others {
                    open.insert(90, other);
                }
                receive(text.into(), &mut open, None, &announces, Instant::now());
                assert_eq!(answered.try_recv().is_ok(), expected, "{text} {others}");
            }
        }
    }

    #[test]
    fn base64_is_as_the_standard_says() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("user:pass", "dXNlcjpwYXNz"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn percent_signs_are_read() {
        assert_eq!(percent_decoded("p%40ss%3a%zz%4"), b"p@ss:%zz%4");
    }

    #[test]
    fn a_password_goes_into_a_header_and_not_into_the_address() {
        let url = "ws://user:canary@node.example/path?key=1".parse().unwrap();
        let request = request(&url).unwrap();
        assert_eq!(request.uri().to_string(), "ws://node.example/path?key=1");
        assert!(!format!("{request:?}").contains("canary"));
        assert!(request.headers().contains_key("authorization"));
    }
}
