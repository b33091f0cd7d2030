//! The chains and the signers, of which there may be any number.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::Origin;
use crate::config::value::{ConnectionUrl, HumanDuration, SecretReference, choice};

/// One `[[chain]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The chain id, above 0; no two chains share one.
    pub id: u64,
    /// Where nodes of the chain are reached. Without any, lanes cannot be compared with the chain.
    #[serde(default)]
    pub endpoints: Vec<ConnectionUrl>,
    /// The most that an attempt may offer for a unit of gas, in gwei.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fee_gwei: Option<f64>,
    /// How many calls may be under way at each endpoint, on all nodes together; 0 for no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_concurrency: u32,
    /// How many of the endpoints have to agree before anything is concluded from what they say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// How long each endpoint has for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_timeout: Option<HumanDuration>,
    /// Whether a gas limit is checked against what a transaction costs before anything of it is run.
    #[serde(default, skip_serializing_if = "IntrinsicGas::is_default")]
    pub intrinsic_gas: IntrinsicGas,
}

choice! {
    /// By which rules gas is counted before anything is run.
    #[derive(Default)]
    pub enum IntrinsicGas {
        /// By Ethereum's: a gas limit below that is refused.
        #[default]
        Ethereum = "ethereum",
        /// By the chain's own: nothing is checked.
        Unchecked = "unchecked",
    }
}

impl IntrinsicGas {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// One `[[signer]]`.
#[derive(Debug, Clone, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Signer {
    /// The only chain it is for. `None`: every configured chain.
    pub chain: Option<u64>,
    /// Who signs.
    pub source: SignerSource,
    /// Where the entry is written, for whoever has to put it right.
    pub origin: Origin,
}

/// Who signs for a signer.
///
/// Addresses are `0x` and 40 hexadecimal digits, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignerSource {
    /// Nobody here: callers take nonces and sign by themselves.
    HoldOnly {
        /// The address nonces are handed out for.
        address: String,
    },
    /// A private key.
    Key {
        /// Where the key is kept.
        key: SecretReference,
    },
    /// An encrypted key file.
    Keystore {
        /// The file; a relative path starts at the working directory.
        path: PathBuf,
        /// Where its password is kept.
        password: Option<SecretReference>,
        /// The address it must turn out to have.
        address: Option<String>,
    },
    /// Another process that signs on request.
    Remote {
        /// Where it is reached.
        url: ConnectionUrl,
        /// The address it signs for.
        address: String,
    },
}

/// Two that say the same are the same, wherever they are written.
impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        (self.chain, &self.source) == (other.chain, &other.source)
    }
}

impl Signer {
    /// The address, where the configuration itself says it.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        match &self.source {
            SignerSource::HoldOnly { address } | SignerSource::Remote { address, .. } => {
                Some(address)
            }
            SignerSource::Keystore { address, .. } => address.as_deref(),
            SignerSource::Key { .. } => None,
        }
    }
}

/// A signer as it is written, where every source has a key of its own.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<SecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keystore: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<SecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<ConnectionUrl>,
}

impl From<Signer> for Written {
    fn from(signer: Signer) -> Self {
        let mut written = Self { chain: signer.chain, ..Self::default() };
        match signer.source {
            SignerSource::HoldOnly { address } => written.address = Some(address),
            SignerSource::Key { key } => written.key = Some(key),
            SignerSource::Keystore { path, password, address } => {
                written.keystore = Some(path);
                written.password = password;
                written.address = address;
            }
            SignerSource::Remote { url, address } => {
                written.remote = Some(url);
                written.address = Some(address);
            }
        }
        written
    }
}

impl TryFrom<Written> for Signer {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        if written.password.is_some() && written.keystore.is_none() {
            return Err("password only goes with keystore");
        }
        let source = match (written.key, written.keystore, written.remote) {
            (None, None, None) => match written.address {
                Some(address) => SignerSource::HoldOnly { address },
                None => return Err("must have one of address, key, keystore and remote"),
            },
            (Some(_), None, None) if written.address.is_some() => {
                return Err("address does not go with key, which already determines it");
            }
            (Some(key), None, None) => SignerSource::Key { key },
            (None, Some(path), None) => SignerSource::Keystore {
                path,
                password: written.password,
                address: written.address,
            },
            (None, None, Some(url)) => match written.address {
                Some(address) => SignerSource::Remote { url, address },
                None => return Err("remote needs address too"),
            },
            _ => return Err("must have only one of key, keystore and remote"),
        };
        Ok(Self { chain: written.chain, source, origin: Origin::Default })
    }
}
