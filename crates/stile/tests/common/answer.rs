//! What HTTP calls answer.

use serde_json::Value;

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn of(response: reqwest::Response) -> reqwest::Result<Self> {
        let status = response.status().as_u16();
        let headers = response.headers().iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let headers = headers.collect();
        Ok(Self { status, headers, text: response.text().await? })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The nonce of a hold.
    #[track_caller]
    pub(crate) fn nonce(&self) -> u64 {
        self.ok()["nonce"].as_u64().expect("a nonce")
    }

    /// The code of a problem document, which must be whole.
    #[track_caller]
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status, "{self:?}");
        for part in ["type", "title", "detail", "code", "hint"] {
            let said = body[part].as_str().is_some_and(|text| !text.trim().is_empty());
            assert!(said, "no {part}: {self:?}");
        }
        let code = body["code"].as_str().expect("checked above").to_owned();
        assert_eq!(body["type"], format!("urn:stile:error:{code}"), "{self:?}");
        code
    }

    /// The fields that a problem names.
    pub(crate) fn fields(&self) -> Vec<String> {
        let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().expect("a field").to_owned()).collect()
    }
}
