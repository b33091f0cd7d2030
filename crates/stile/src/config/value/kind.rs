//! What a key accepts: the one place where a single value is checked.

use std::fmt;
use std::net::SocketAddr;

use stile_domain::AddressError;
use toml::Value;
use toml::de::DeValue;

use super::url::check_url;
use super::{DurationRange, Given, HumanDuration, Kept, NotASecretReference, SecretReference};

/// What a key accepts. Its `Display` is the rule in words, both in messages ("must be …") and on
/// the reference page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number between bounds, both included.
    Integer { min: i64, max: i64 },
    /// A number between bounds, both included.
    Decimal { min: f64, max: f64 },
    /// A duration between bounds, both included.
    Duration { min: HumanDuration, max: HumanDuration },
    /// For ever, or a duration between bounds, both included.
    Kept { min: HumanDuration, max: HumanDuration },
    /// A shortest and a longest duration, both between these.
    Range { min: HumanDuration, max: HumanDuration },
    /// What keys in Redis begin with.
    KeyPrefix,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// An address of this machine to listen on.
    Listen,
    /// A name for this node, checked further once its `${NAME}` parts are known.
    NodeId,
    /// A URL with one of these schemes.
    Url(&'static [&'static str]),
    /// Any number of such URLs.
    UrlList(&'static [&'static str]),
    /// Any number of names of hosts.
    HostList,
    /// The address of a signer.
    Address,
    /// A reference to a secret.
    Secret,
    /// A path of a file.
    Path,
}

impl Kind {
    /// The value to hand to the model, or a message that says the rule.
    ///
    /// Values that may hold a secret, by intent or by mistake, are not repeated in the message:
    /// URLs, references, paths, and addresses, where private keys get pasted.
    pub(crate) fn check(self, given: Given<'_>) -> Result<Value, String> {
        match self {
            Self::Boolean => given.boolean().map(Value::Boolean),
            Self::Integer { min, max } => {
                given.integer().filter(|integer| (min..=max).contains(integer)).map(Value::Integer)
            }
            Self::Decimal { min, max } => {
                given.decimal().filter(|decimal| (min..=max).contains(decimal)).map(Value::Float)
            }
            Self::Duration { min, max } => return check_duration(given, min, max),
            Self::Kept { min, max } => {
                let kept = given.text().and_then(|text| text.parse::<Kept>().ok());
                let fits = |kept: &Kept| match kept {
                    Kept::Forever => true,
                    Kept::For(duration) => (min..=max).contains(duration),
                };
                kept.filter(fits).map(|kept| Value::from(kept.to_string()))
            }
            Self::Range { min, max } => {
                let range = given.text().and_then(|text| text.parse::<DurationRange>().ok());
                let fits = |it: &DurationRange| min <= it.shortest && it.longest <= max;
                range.filter(fits).map(|range| Value::from(range.to_string()))
            }
            Self::KeyPrefix => {
                let fits = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
                let text = given.text().filter(|text| (1..=64).contains(&text.len()));
                text.filter(|text| text.chars().all(fits)).map(Value::from)
            }
            Self::Choice(names) => {
                given.text().filter(|text| names.contains(text)).map(Value::from)
            }
            Self::Listen => {
                given.text().filter(|text| text.parse::<SocketAddr>().is_ok()).map(Value::from)
            }
            Self::NodeId | Self::Path => return self.check_plain_text(given),
            Self::Url(schemes) => return self.check_one_url(given.text(), schemes),
            Self::UrlList(schemes) => return self.check_url_list(given, schemes),
            Self::HostList => return self.check_host_list(given),
            Self::Address => return self.check_address(given),
            Self::Secret => {
                let reference = given.text().and_then(|text| text.parse::<SecretReference>().ok());
                return reference
                    .map(|it| Value::from(it.to_string()))
                    .ok_or_else(|| NotASecretReference.to_string());
            }
        }
        .ok_or_else(|| format!("must be {self}, not {given}"))
    }

    /// Whether TOML writes such a value in quotes.
    pub(crate) fn is_quoted(self) -> bool {
        !matches!(
            self,
            Self::Boolean
                | Self::Integer { .. }
                | Self::Decimal { .. }
                | Self::UrlList(_)
                | Self::HostList
        )
    }

    fn check_plain_text(self, given: Given<'_>) -> Result<Value, String> {
        given
            .text()
            .filter(|text| !text.trim().is_empty())
            .map(Value::from)
            .ok_or_else(|| format!("must be {self}"))
    }

    fn check_one_url(self, text: Option<&str>, schemes: &[&str]) -> Result<Value, String> {
        let text = text.ok_or_else(|| format!("must be {self}"))?;
        check_url(text, schemes)
            .map(|()| Value::from(text))
            .map_err(|why| format!("must be {self}{why}"))
    }

    fn check_url_list(
        self,
        given: Given<'_>,
        schemes: &'static [&'static str],
    ) -> Result<Value, String> {
        let texts = given.texts().ok_or_else(|| format!("must be {self}"))?;
        let check = |(index, text)| {
            Self::Url(schemes)
                .check_one_url(Some(text), schemes)
                .map_err(|why| format!("entry {} {why}", index + 1))
        };
        texts.into_iter().enumerate().map(check).collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    /// In a variable names are a TOML array, or parted by commas.
    fn check_host_list(self, given: Given<'_>) -> Result<Value, String> {
        let texts = match given {
            Given::Variable(text) if text.trim_start().starts_with('[') => {
                let list = DeValue::parse(text).map_err(|_| format!("must be {self}"))?;
                return self.check_host_list(Given::Toml(list.get_ref()));
            }
            Given::Variable(text) => Some(text.split(',').map(str::trim).collect()),
            given => given.texts(),
        };
        let texts: Vec<&str> = texts.ok_or_else(|| format!("must be {self}"))?;
        match texts.iter().find(|text| !stile_server::is_host_name(text)) {
            Some(bad) => Err(format!("must be {self}; {bad:?} is none")),
            None => Ok(Value::Array(texts.into_iter().map(Value::from).collect())),
        }
    }

    fn check_address(self, given: Given<'_>) -> Result<Value, String> {
        let text = given.text().ok_or_else(|| format!("must be {self}"))?;
        // The text itself is not echoed: a private key is easily pasted here.
        match stile_domain::parse_address(text) {
            Ok(_) => Ok(Value::from(text)),
            Err(AddressError::Checksum) => Err(AddressError::Checksum.to_string()),
            Err(AddressError::Malformed) => {
                Err(format!("must be {self}; this has {} characters", text.chars().count()))
            }
        }
    }
}

fn check_duration(
    given: Given<'_>,
    min: HumanDuration,
    max: HumanDuration,
) -> Result<Value, String> {
    let duration: HumanDuration = given.text().and_then(|text| text.parse().ok()).ok_or_else(|| {
        format!(r#"must be a duration with a unit, such as "500ms", "10s", "2m", "1h" or "30d", not {given}"#)
    })?;
    if (min..=max).contains(&duration) {
        Ok(Value::from(duration.to_string()))
    } else {
        Err(format!("must be {}, not {given}", Kind::Duration { min, max }))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => formatter.write_str("true or false"),
            Self::Integer { min, max } => write!(formatter, "a whole number from {min} to {max}"),
            Self::Decimal { min, max } => write!(formatter, "a number from {min} to {max}"),
            Self::Duration { min, max } => write!(formatter, "a duration from {min} to {max}"),
            Self::Kept { min, max } => {
                write!(formatter, r#""forever" or a duration from {min} to {max}"#)
            }
            Self::Range { min, max } => {
                write!(formatter, r#"two durations from {min} to {max}, such as "1s-10s""#)
            }
            Self::KeyPrefix => {
                formatter.write_str("1 to 64 letters, digits, dots, underscores, dashes and colons")
            }
            Self::Choice(names) => {
                let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                formatter.write_str(&either(&quoted))
            }
            Self::Listen => {
                formatter.write_str(r#"an IP address and a port, such as "127.0.0.1:7420""#)
            }
            Self::NodeId => formatter.write_str("a name, which may have ${NAME} parts"),
            Self::Url(schemes) => {
                write!(formatter, "a URL beginning with {}", either(&beginnings(schemes)))
            }
            Self::UrlList(schemes) => {
                write!(formatter, "a list of URLs beginning with {}", either(&beginnings(schemes)))
            }
            Self::HostList => {
                formatter.write_str("a list of host names or IP addresses, without scheme and port")
            }
            Self::Address => formatter.write_str("an address: 0x and 40 hexadecimal digits"),
            Self::Secret => formatter.write_str(r#""env:NAME" or "file:PATH""#),
            Self::Path => formatter.write_str("a path"),
        }
    }
}

fn beginnings(schemes: &[&str]) -> Vec<String> {
    schemes.iter().map(|scheme| format!("{scheme}://")).collect()
}

/// `a`, `a or b`, `a, b or c`.
fn either(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Given, HumanDuration, Kind};

    fn refusal(kind: Kind, text: &str) -> String {
        kind.check(Given::Variable(text)).expect_err("refused")
    }

    #[test]
    fn a_message_says_the_rule() {
        let seconds = HumanDuration::from_secs;
        for (kind, text, message) in [
            (Kind::Boolean, "yes", r#"must be true or false, not "yes""#),
            (
                Kind::Integer { min: 1, max: 9 },
                "10",
                r#"must be a whole number from 1 to 9, not "10""#,
            ),
            (
                Kind::Decimal { min: 0.5, max: 9.0 },
                "NaN",
                r#"must be a number from 0.5 to 9, not "NaN""#,
            ),
            (
                Kind::Duration { min: seconds(1), max: seconds(9) },
                "10s",
                r#"must be a duration from 1s to 9s, not "10s""#,
            ),
            (
                Kind::Kept { min: seconds(1), max: seconds(9) },
                "always",
                r#"must be "forever" or a duration from 1s to 9s, not "always""#,
            ),
            (Kind::Choice(&["a", "b", "c"]), "d", r#"must be "a", "b" or "c", not "d""#),
            (
                Kind::Listen,
                "localhost",
                r#"must be an IP address and a port, such as "127.0.0.1:7420", not "localhost""#,
            ),
            (Kind::Path, " ", "must be a path"),
            (Kind::UrlList(&["ws"]), "ws://a", "must be a list of URLs beginning with ws://"),
        ] {
            assert_eq!(refusal(kind, text), message);
        }
    }

    #[test]
    fn what_may_be_secret_is_not_repeated() {
        for kind in [Kind::Url(&["http"]), Kind::UrlList(&["http"]), Kind::Address, Kind::Secret] {
            assert!(!refusal(kind, "hunter2").contains("hunter2"), "{kind}");
        }
    }
}
