//! The node registry: on Redis, or in this process.

use stile_domain::Secret;
use stile_engine::{CallLimits, NodeRegistry};
use stile_registry::{ConnectError, Registry, Settings};

/// How the node registry is to run.
#[derive(Debug, Clone, Default)]
pub struct RegistryOptions {
    /// Where Redis is, with its password; `None` for a registry in this process.
    pub redis_url: Option<Secret>,
    /// How long things last.
    pub settings: Settings,
}

impl RegistryOptions {
    /// Starts the registry, and shares the limits over it, if other nodes can be there. A Redis that
    /// does not answer is no error: it is waited for, and everything else goes on without it.
    pub async fn open(self, limits: &mut CallLimits) -> Result<NodeRegistry, ConnectError> {
        let Self { redis_url, settings } = self;
        let Some(url) = redis_url else {
            return Registry::in_process(settings).map(NodeRegistry::Own);
        };
        let registry = Registry::connect(url.reveal(), settings).await?;
        limits.registry = Some(registry.clone());
        Ok(NodeRegistry::Shared(registry))
    }
}

/// A URL, or several with commas in between, with this password instead of the one it has, if any.
pub(super) fn with_password(urls: &Secret, password: &Secret) -> Secret {
    let with = |url: &str| {
        let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
        let (user, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => {
                (credentials.split_once(':').map_or(credentials, |(user, _)| user), place)
            }
            None => ("", rest),
        };
        format!("{scheme}://{user}:{}@{place}", encoded(password.reveal()))
    };
    urls.reveal().split(',').map(with).collect::<Vec<_>>().join(",").into()
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let byte = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_goes_where_it_belongs() {
        for (url, expected) in [
            ("redis://host:6379", "redis://:a%40b%2C@host:6379"),
            ("rediss://user@host/1", "rediss://user:a%40b%2C@host/1"),
            ("redis://user:old@host", "redis://user:a%40b%2C@host"),
            ("redis://a:1,redis://b:2", "redis://:a%40b%2C@a:1,redis://:a%40b%2C@b:2"),
        ] {
            assert_eq!(with_password(&url.into(), &"a@b,".into()).reveal(), expected);
        }
    }

    #[test]
    fn nothing_of_the_url_is_shown() {
        let options = RegistryOptions {
            redis_url: Some("redis://:hunter2@host".into()),
            settings: Settings::default(),
        };
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
