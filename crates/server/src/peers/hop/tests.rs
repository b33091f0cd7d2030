//! What is refused at the door, and what is not.

use axum::http::Method;
use stile_domain::{Address, Incarnation, KeyId, NodeId, Operation, Scope, SignerScope};

use super::*;
use crate::peers::ClusterSecret;

const SECRET: &str = "0d6c3ab1f9e24578bb1c90e7d35af2648c7b1e90fa26d4538e0b7c1fd29a6e43";
const OTHER: &str = "8c7b1e90fa26d4538e0b7c1fd29a6e430d6c3ab1f9e24578bb1c90e7d35af264";
const PATH: &str = "/api/v1/nonces/0xab/allocate?chainId=1";
const BODY: &[u8] = br#"{"count":1}"#;

fn node(name: &str) -> Holder {
    let number = name.bytes().fold(1, |number, byte| number * 256 + u128::from(byte));
    let incarnation = Incarnation(uuid::Uuid::from_u128(number));
    Holder { node: NodeId(name.into()), incarnation, url: None }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn secret(text: &str) -> ClusterSecret {
    ClusterSecret::new(text).unwrap()
}

fn caller(operations: &[Operation]) -> Caller {
    let signers = SignerScope::Only([Address::repeat_byte(1), Address::repeat_byte(2)].into());
    let id = KeyId(uuid::Uuid::from_u128(7));
    Caller::new(id, &Scope::new(operations.iter().copied(), signers).unwrap())
}

/// A call on its way from `b` to `a`, and how it was signed.
struct Sent {
    by: &'static str,
    statement: Statement,
    method: Method,
    path: &'static str,
    body: &'static [u8],
    headers: Vec<(&'static str, &'static str)>,
}

impl Sent {
    fn new(number: u64) -> Self {
        let caller = Some(caller(&[Operation::Read, Operation::Send]));
        Self {
            by: SECRET,
            statement: Statement::new(&node("b"), &node("a"), now(), number, BODY, caller),
            method: Method::POST,
            path: PATH,
            body: BODY,
            headers: vec![("content-type", "application/json"), ("idempotency-key", "order-1")],
        }
    }

    fn request(&self) -> Request {
        let mut builder = Request::builder().method(&self.method).uri(self.path);
        for (name, value) in &self.headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Body::from(self.body)).unwrap()
    }

    /// Signed as it is.
    fn signed(&self) -> Request {
        let mut request = self.request();
        let call = Call { method: &self.method, path: self.path, headers: request.headers() };
        let pass = PassKey::new(&secret(self.by)).sign(&self.statement, call);
        request.headers_mut().insert(FORWARDED, self.statement.from.parse().unwrap());
        request.headers_mut().insert(PASS, pass.parse().unwrap());
        request
    }

    /// With what was signed for another call.
    fn with_pass_of(&self, other: &Sent) -> Request {
        let (mut request, other) = (self.request(), other.signed());
        for name in [FORWARDED, PASS] {
            request.headers_mut().insert(name, other.headers()[name].clone());
        }
        request
    }
}

fn door() -> Door {
    Door::new(Some(&secret(SECRET)), node("a"))
}

async fn check(door: &Door, request: Request) -> Result<Option<Caller>, String> {
    check_at(door, request, now()).await
}

async fn check_at(door: &Door, request: Request, now: Timestamp) -> Result<Option<Caller>, String> {
    match door.check(request, now).await {
        Ok((Came::ByNode(Behalf(caller)), request)) => {
            let body = axum::body::to_bytes(request.into_body(), 1000).await.unwrap();
            assert_eq!(&body[..], BODY, "it can still be read");
            Ok(caller)
        }
        Ok((came, _)) => Err(format!("{came:?}")),
        Err(problem) => Err(problem.code().to_owned()),
    }
}

#[tokio::test]
async fn a_call_of_a_node_is_taken_on_behalf_of_its_caller() {
    let door = door();
    let good = Sent::new(1);
    assert_eq!(check(&door, good.signed()).await, Ok(good.statement.caller.clone()));
    let mut open = Sent::new(2);
    open.statement.caller = None;
    assert_eq!(check(&door, open.signed()).await, Ok(None));
}

/// Every part of a call and of its statement, changed on the way.
#[tokio::test]
async fn hole_40_what_was_signed_is_good_for_that_call_alone() {
    let good = || Sent::new(1);
    let changed = |change: fn(&mut Sent)| {
        let mut sent = good();
        change(&mut sent);
        sent
    };
    let (node_only, addressee) = ("not-a-node", "not-addressee");
    // Changed after it was signed.
    for (case, change) in [
        ("method", (|it| it.method = Method::PUT) as fn(&mut Sent)),
        ("path", |it| it.path = "/api/v1/nonces/0xcd/allocate?chainId=1"),
        ("query", |it| it.path = "/api/v1/nonces/0xab/allocate?chainId=10"),
        ("no query", |it| it.path = "/api/v1/nonces/0xab/allocate"),
        ("body", |it| it.body = br#"{"count":9}"#),
        ("no body", |it| it.body = b""),
        ("content type", |it| it.headers[0].1 = "text/plain"),
        ("idempotency key", |it| it.headers[1].1 = "order-2"),
        ("no idempotency key", |it| it.headers.truncate(1)),
        ("one more idempotency key", |it| it.headers.push(("idempotency-key", "order-2"))),
    ] {
        let request = changed(change).with_pass_of(&good());
        assert_eq!(check(&door(), request).await, Err(node_only.into()), "{case}");
    }
    // Signed like this: by whoever knows no secret, or at another time, or for somebody else.
    for (case, expected, change) in [
        ("another secret", node_only, (|it| it.by = OTHER) as fn(&mut Sent)),
        ("too old", node_only, |it| {
            let at = now() - WINDOW - std::time::Duration::from_millis(1);
            it.statement = Statement::new(&node("b"), &node("a"), at, 1, BODY, None);
        }),
        ("from the future", node_only, |it| {
            let at = now() + WINDOW + std::time::Duration::from_millis(1);
            it.statement = Statement::new(&node("b"), &node("a"), at, 1, BODY, None);
        }),
        ("for another node", addressee, |it| {
            it.statement = Statement::new(&node("b"), &node("c"), now(), 1, BODY, None);
        }),
        ("for an earlier start", addressee, |it| {
            let earlier = Holder { incarnation: Incarnation::fresh(), ..node("a") };
            it.statement = Statement::new(&node("b"), &earlier, now(), 1, BODY, None);
        }),
        ("for another body", node_only, |it| {
            it.statement = Statement::new(&node("b"), &node("a"), now(), 1, b"{}", None);
        }),
    ] {
        assert_eq!(check(&door(), changed(change).signed()).await, Err(expected.into()), "{case}");
    }
    // A statement in the place of another one: the proof is over the statement, too.
    for (case, change) in [
        (
            "scope raised",
            (|it| it.caller = Some(caller(&Operation::ALL[..3]))) as fn(&mut Statement),
        ),
        ("nobody instead of a key", |it| it.caller = None),
        ("another number", |it| it.number = 2),
        ("another sender", |it| it.from = "c".into()),
    ] {
        let mut raised = good();
        change(&mut raised.statement);
        let (mut request, raised) = (good().signed(), raised.signed());
        let proof = request.headers()[PASS].to_str().unwrap().split_once('.').unwrap().1.to_owned();
        let text = raised.headers()[PASS].to_str().unwrap().split_once('.').unwrap().0.to_owned();
        request.headers_mut().insert(PASS, format!("{text}.{proof}").parse().unwrap());
        assert_eq!(check(&door(), request).await, Err(node_only.into()), "{case}");
    }
    // Other headers than were sent.
    for (case, change) in [
        ("nothing is proved", (|it| drop(it.remove(PASS))) as fn(&mut HeaderMap)),
        ("another name", |it| drop(it.insert(FORWARDED, HeaderValue::from_static("c")))),
        ("two proofs", |it| assert!(it.append(PASS, it[PASS].clone()))),
        ("two names", |it| assert!(it.append(FORWARDED, it[FORWARDED].clone()))),
        ("half a proof", |it| {
            let half = it[PASS].to_str().unwrap().split_once('.').unwrap().0.to_owned();
            it.insert(PASS, half.parse().unwrap());
        }),
        ("an empty proof", |it| {
            let half = it[PASS].to_str().unwrap().split_once('.').unwrap().0.to_owned();
            it.insert(PASS, format!("{half}.").parse().unwrap());
        }),
        ("the old way", |it| {
            it.remove(PASS);
            it.insert("stile-cluster-secret", HeaderValue::from_static(SECRET));
        }),
        ("junk", |it| drop(it.insert(PASS, HeaderValue::from_static("x.y")))),
    ] {
        let mut request = good().signed();
        change(request.headers_mut());
        assert_eq!(check(&door(), request).await, Err(node_only.into()), "{case}");
    }
}

#[tokio::test]
async fn hole_40_a_call_is_taken_once() {
    let door = door();
    assert!(check(&door, Sent::new(1).signed()).await.is_ok());
    assert_eq!(check(&door, Sent::new(1).signed()).await, Err("not-a-node".into()));
    assert!(check(&door, Sent::new(2).signed()).await.is_ok());
    assert_eq!(check(&door, Sent::new(1).signed()).await, Err("not-a-node".into()));
}

/// A database that is put back, or whose clock is, must not make old calls good again.
#[tokio::test]
async fn hole_40_a_clock_that_is_set_back_makes_nothing_good_again() {
    let door = door();
    let later = now() + 3 * WINDOW;
    assert_eq!(check_at(&door, Sent::new(1).signed(), later).await, Err("not-a-node".into()));
    assert_eq!(check_at(&door, Sent::new(1).signed(), now()).await, Err("not-a-node".into()));
    let mut fresh = Sent::new(2);
    fresh.statement = Statement::new(&node("b"), &node("a"), later, 2, BODY, None);
    assert_eq!(check_at(&door, fresh.signed(), now()).await, Ok(None));
}

#[tokio::test]
async fn at_the_edge_of_the_window_it_is_taken() {
    for at in [now() - WINDOW, now() + WINDOW] {
        let mut sent = Sent::new(1);
        sent.statement = Statement::new(&node("b"), &node("a"), at, 1, BODY, None);
        assert_eq!(check(&door(), sent.signed()).await, Ok(None));
    }
}

#[tokio::test]
async fn without_a_secret_nothing_is_proved() {
    let door = Door::new(None, node("a"));
    let came = door.check(Sent::new(1).signed(), now()).await;
    assert!(matches!(came, Ok((Came::ByNeighbour, _))));
    let mut request = Sent::new(1).signed();
    request.headers_mut().remove(FORWARDED);
    assert!(matches!(door.check(request, now()).await, Ok((Came::Directly, _))));
}

/// The scope that is stated is that of the key, whatever its length.
#[test]
fn callers_of_different_scopes_differ() {
    let with = |operations: &[Operation], signers: SignerScope| {
        let id = KeyId(uuid::Uuid::from_u128(7));
        Caller::new(id, &Scope::new(operations.iter().copied(), signers).unwrap())
    };
    let only = |bytes: &[u8]| {
        SignerScope::Only(bytes.iter().map(|byte| Address::repeat_byte(*byte)).collect())
    };
    let all = [
        with(&[Operation::Read], SignerScope::All),
        with(&[Operation::Send], SignerScope::All),
        with(&[Operation::Read, Operation::Send], SignerScope::All),
        with(&[Operation::Read], only(&[1])),
        with(&[Operation::Read], only(&[2])),
        with(&[Operation::Read], only(&[1, 2])),
    ];
    for (place, one) in all.iter().enumerate() {
        for (other_place, other) in all.iter().enumerate() {
            assert_eq!(one == other, place == other_place, "{one:?} {other:?}");
        }
    }
}
