//! The configuration: read once at start, checked as a whole, and passed down as values.
//!
//! The flow, in the order of the modules:
//!
//! ```text
//! reference   one table: every key, its kind, its default, what it does
//!    │
//!    ▼
//! load        file ─┐
//!             env  ─┴→ layers → overlay → model → rules across keys → Config, or every problem
//!    │
//!    ▼
//! model       the structs the rest of the program takes
//! ```
//!
//! Deliberately absent: nothing here reads the environment of the process (the caller passes it
//! in), resolves a secret, or opens a connection. A wrong value is never replaced by a default.

mod load;
mod model;
mod reference;
mod value;

use std::path::Path;

pub use self::load::{ConfigErrors, Origin, Problem};
pub use self::model::{
    Chain, ChainQuery, ChainQueryMode, Cluster, Config, Confirmations, Failover, Finality,
    FinalityTag, HeldExpiry, IntrinsicGas, Invalidation, Lane, Lease, Log, LogFormat, LogLevel,
    Node, Nonce, NonceMode, NotHolder, OutsideUse, Pooler, Redis, Registry, RejectPolicy, Resubmit,
    Retention, Server, ServerLimits, ServerTls, Signer, SignerSource, Store, Tx, Underfunded,
};
pub use self::reference::reference_markdown;
pub use self::value::{
    ConnectionUrl, DurationRange, HumanDuration, Kept, NotADuration, NotASecretReference,
    SecretReference,
};

impl Config {
    /// Whether a URL in it has something to hide.
    #[must_use]
    pub fn holds_secrets(&self) -> bool {
        let signers = self.signers.iter().filter_map(|signer| match &signer.source {
            SignerSource::Remote { url, .. } => Some(url),
            _ => None,
        });
        let mut urls = [&self.store.url]
            .into_iter()
            .chain(&self.store.direct_url)
            .chain(&self.redis.url)
            .chain(self.chains.iter().flat_map(|chain| &chain.endpoints))
            .chain(signers);
        urls.any(|url| url.to_string() != url.as_str())
    }

    /// Reads the file at `path`, if one is given, and lays the `STILE__…` variables of
    /// `environment` over it.
    ///
    /// `environment` is the whole environment of the process, as `${NAME}` parts of `node.id` are
    /// looked up in it too.
    ///
    /// # Errors
    ///
    /// Fails with every problem found, not only the first: a file that cannot be read or is not
    /// TOML, unknown keys and variables, values of the wrong kind or out of range, and keys that
    /// contradict each other.
    pub fn load(
        path: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigErrors> {
        load::from_path(path, &environment.collect())
    }

    /// The same for a text already in memory; `name` stands where problems name the file.
    ///
    /// # Errors
    ///
    /// As [`Config::load`], apart from the reading of the file.
    pub fn parse(
        name: &str,
        text: &str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigErrors> {
        load::from_text(name, text, &environment.collect())
    }

    /// The effective configuration as TOML, fit to be shown: secrets appear as the reference they
    /// were given by, and credentials inside URLs as `***`.
    ///
    /// The text loads again, though with the credentials masked it may no longer connect.
    ///
    /// # Errors
    ///
    /// Fails only for a path that is not UTF-8, which a loaded configuration cannot hold.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}
