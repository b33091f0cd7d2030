//! A call that must be refused, and values that always must be.

use crate::common::{Answer, Pending, SIGNER, StileProcess, signer};

/// A call that must be refused.
pub(crate) struct Bad {
    pub(crate) what: String,
    method: &'static str,
    path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    expected: (u16, &'static str, Option<&'static str>),
}

impl Bad {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        let path = path.into();
        let (expected, mut headers) = ((0, "", None), Vec::new());
        if method != "GET" {
            headers.push(("content-type", "application/json".to_owned()));
        }
        Self { what: String::new(), method, path, headers, body: vec![], expected }
    }

    pub(crate) fn post(path: impl Into<String>, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref().to_vec();
        Self { body, ..Self::new("POST", path) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    /// A field has a bad value, is missing or unknown.
    pub(crate) fn field(self, field: &'static str) -> Self {
        self.expect(422, "invalid-field", Some(field))
    }

    pub(crate) fn malformed(self) -> Self {
        self.expect(400, "malformed-json", None)
    }

    pub(crate) fn expect(
        mut self,
        status: u16,
        code: &'static str,
        field: Option<&'static str>,
    ) -> Self {
        self.expected = (status, code, field);
        let body = String::from_utf8_lossy(&self.body).chars().take(120).collect::<String>();
        self.what = format!("{} {} {:?} {body}", self.method, self.path, self.headers);
        self
    }

    async fn send(&self, node: &StileProcess) -> Answer {
        // By hand, since a client would not send some of these.
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Pending::send(&node.address(), &head, &self.body).await.answer().await
    }

    /// Sends it, and checks that the answer is a whole problem that names the field.
    pub(crate) async fn is_refused(&self, node: &StileProcess) {
        let answer = self.send(node).await;
        let (what, (status, code, field)) = (&self.what, self.expected);
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (status, code),
            "{what}: {answer:?}"
        );
        let fields = answer.fields();
        assert_eq!(fields.first().map(String::as_str), field, "{what}: {answer:?}");
        if let Some(field) = field {
            let detail = answer.json()["detail"].to_string();
            assert!(detail.contains(field), "{what}: {answer:?}");
        }
        if status == 405 {
            assert!(answer.header("allow").is_some(), "{what}: {answer:?}");
        }
    }
}

/// Values that no `chainId` can have.
pub(crate) const NO_CHAIN: [&str; 9] = [
    "0",
    "-1",
    "1.5",
    "\"a chain\"",
    "true",
    "[]",
    "{}",
    "18446744073709551616",
    "9223372036854775808",
];

/// What every call with a signer in its path refuses.
pub(crate) fn bad_signers(call: impl Fn(&str) -> Bad) -> Vec<Bad> {
    let mistyped = SIGNER.replace("f39F", "f39f");
    let malformed = [
        "0x12",
        "nonsense",
        &SIGNER[2..],
        &format!("{SIGNER}00"),
        &SIGNER.replace('9', "g"),
        &mistyped,
        "%00",
        "%ff",
    ];
    let mut bad: Vec<Bad> = malformed.iter().map(|signer| call(signer).field("signer")).collect();
    bad.push(call(&signer(9)).expect(404, "unknown-signer", None));
    bad
}
