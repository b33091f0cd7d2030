//! Where keys are: in a store that is configured, or behind a server.
//!
//! With a configuration the store itself is worked on, so the first key can be made before any server
//! runs. Without one the server is asked. No database and no schema is ever made here: a key in a new one
//! would let nobody in anywhere, and close nothing.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use stile_domain::{KeyId, KeyName, Token};
use stile_store::{KeyRef, NewKey, Rotated, Rotation, Store, StoreError};

use super::show;
use crate::cli::client::{Client, ServerArgs};
use crate::cli::{ConfigFile, Failure, naming_the_store, on_store};
use crate::config::Config;

/// Names the store without a configuration file.
const STORE_VARIABLE: &str = "STILE__STORE__URL";

/// Where the keys are.
#[derive(Debug, Args)]
pub(super) struct PlaceArgs {
    /// The configuration file: the keys in its store are meant. Without it, those of the server.
    #[arg(long, short, value_name = "FILE", conflicts_with = "url")]
    config: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

impl PlaceArgs {
    pub(super) fn json(&self) -> bool {
        self.server.json
    }

    /// A store if one is configured, by file or by variable, and no server is named; else the server.
    pub(super) async fn open(
        &self,
        environment: &HashMap<String, String>,
    ) -> Result<Place, Failure> {
        let by_variable = environment.contains_key(STORE_VARIABLE) && !self.server.is_named();
        if self.config.is_none() && !by_variable {
            return Ok(Place::Server(self.server.client(environment)?));
        }
        let file = ConfigFile { config: self.config.clone() };
        let config = file.load(environment)?;
        if let Some(path) = config.store.url.as_str().strip_prefix("sqlite://")
            && !std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
        {
            return Err(format!(
                "there is no database at {path}, and this makes none\n\
                 hint: check store.url; a new database is made by `stile migrate` or `stile serve`"
            )
            .into());
        }
        Ok(Place::Store(Box::new(config)))
    }
}

/// Where keys are made, listed and revoked. Keys come out as `GET /api/v1/keys` has them.
#[derive(Debug)]
pub(super) enum Place {
    Store(Box<Config>),
    Server(Client),
}

/// A key that somebody named, and whether it is revoked.
#[derive(Debug)]
pub(super) struct Meant {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) was_revoked: bool,
}

impl Place {
    /// For people: where this is.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Store(config) => format!("the database {}", config.store.url),
            Self::Server(client) => format!("the server {}", client.shown()),
        }
    }

    async fn on_store<T>(
        config: &Config,
        work: impl AsyncFnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, Failure> {
        let store = on_store::as_it_is(config).await?;
        let done = work(&*store).await;
        store.close().await;
        done.map_err(Failure::from).map_err(naming_the_store(&config.store.url))
    }

    /// Makes a key. With its token, which is seen this once.
    pub(super) async fn create(&self, wanted: Wanted) -> Result<Value, Failure> {
        match self {
            Self::Server(client) => Ok(client.post("/api/v1/keys", &wanted.body()).await?),
            Self::Store(config) => {
                let (token, name) = (Token::fresh()?, wanted.name.clone());
                let new = wanted.key(&token);
                let made = Self::on_store(config, async |store| store.create_key(&new).await);
                let Some(key) = made.await? else {
                    return Err(format!(
                        "there is a key named {name} already\nhint: revoke it with `stile key revoke {name}`, \
                         put another in its place with `stile key rotate {name}`, or choose another name"
                    )
                    .into());
                };
                Ok(with_token(show::json(&key), &token))
            }
        }
    }

    /// The keys, and those that were revoked on request.
    pub(super) async fn list(&self, all: bool) -> Result<Value, Failure> {
        match self {
            Self::Server(client) => {
                let query = [("all", all.to_string())];
                Ok(client.get("/api/v1/keys", &query).await?)
            }
            Self::Store(config) => {
                let keys = Self::on_store(config, async |store| store.keys(all).await).await?;
                Ok(show::list_json(&keys))
            }
        }
    }

    /// The key that goes by this id or name: the one that is neither revoked nor rotated, else one that
    /// is not revoked, else the last one.
    pub(super) async fn find(&self, text: &str) -> Result<Meant, Failure> {
        let field = match reference(text)? {
            KeyRef::Id(_) => "keyId",
            KeyRef::Name(_) => "name",
        };
        let listed = self.list(true).await?;
        let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named = items.iter().filter(|key| key[field].as_str() == Some(text));
        let rank = |key: &&Value| (key["revokedAt"].is_null(), key["replacedBy"].is_null());
        let Some(key) = named.max_by_key(rank) else {
            let hint = "hint: `stile key list --all` shows those there are, and those there were";
            return Err(format!("there is no key {text} in {}\n{hint}", self.name()).into());
        };
        let text = |field: &str| key[field].as_str().unwrap_or_default().to_owned();
        let (id, name) = (text("keyId"), text("name"));
        Ok(Meant { id, name, was_revoked: !key["revokedAt"].is_null() })
    }

    /// The other keys of the same name that are not revoked, and when each ends.
    pub(super) async fn others(&self, key: &Meant) -> Result<Vec<(String, String)>, Failure> {
        let listed = self.list(false).await?;
        let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |other: &Value, field: &str| other[field].as_str().unwrap_or("never").to_owned();
        let named = items.iter().filter(|other| other["name"].as_str() == Some(&key.name));
        let others = named.filter(|other| other["keyId"].as_str() != Some(&key.id));
        Ok(others.map(|other| (text(other, "keyId"), text(other, "expiresAt"))).collect())
    }

    /// Revokes a key, for good.
    pub(super) async fn revoke(&self, id: &str) -> Result<(), Failure> {
        match self {
            Self::Server(client) => Ok(client.delete(&format!("/api/v1/keys/{id}")).await?),
            Self::Store(config) => {
                let key = reference(id)?;
                Self::on_store(config, async |store| store.revoke_key(&key).await).await.map(drop)
            }
        }
    }

    /// Makes a key that takes the place of another one. With its token, which is seen this once.
    pub(super) async fn rotate(&self, id: &str, turn: &Turn) -> Result<Value, Failure> {
        let config = match self {
            Self::Server(client) => {
                let path = format!("/api/v1/keys/{id}/rotate");
                return Ok(client.post(&path, &turn.body()).await?);
            }
            Self::Store(config) => config,
        };
        let (token, key) = (Token::fresh()?, reference(id)?);
        let rotation = turn.rotation(&token);
        let rotated = Self::on_store(config, async |store| store.rotate_key(&key, &rotation).await);
        let why = match rotated.await? {
            Rotated::Done { new, .. } => return Ok(with_token(show::json(&new), &token)),
            Rotated::Revoked(_) => "was revoked",
            Rotated::Replaced(_) => "was rotated before",
            Rotated::Unknown => "is not there",
        };
        Err(format!("key {id} {why}\nhint: `stile key create` makes a new one").into())
    }
}

fn with_token(mut key: Value, token: &Token) -> Value {
    key["token"] = token.reveal().into();
    key
}

/// A key by what somebody typed.
fn reference(text: &str) -> Result<KeyRef, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(KeyRef::Id(KeyId(id)));
    }
    let name = text.parse().map_err(|error| format!("{text:?} is no id, and a name {error}"))?;
    Ok(KeyRef::Name(name))
}

/// A key that somebody wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) name: KeyName,
    pub(super) scope: stile_domain::Scope,
    pub(super) networks: Option<stile_domain::Networks>,
    pub(super) lifetime: Option<std::time::Duration>,
}

impl Wanted {
    fn key(self, token: &Token) -> NewKey {
        let Self { name, scope, networks, lifetime } = self;
        let (id, hash, hint) = (KeyId::fresh(), token.hash(), token.hint().to_owned());
        NewKey { id, name, hash, hint, scope, networks, lifetime }
    }

    fn body(&self) -> Value {
        let mut body = json!({
            "name": self.name.as_str(),
            "operations": show::operations(&self.scope),
            "signers": show::signers(&self.scope),
        });
        if let Some(networks) = &self.networks {
            body["from"] = networks.texts().collect();
        }
        if let Some(lifetime) = self.lifetime {
            body["expiresInSeconds"] = lifetime.as_secs().into();
        }
        body
    }
}

/// How a key follows another one.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) overlap: std::time::Duration,
    pub(super) lifetime: Option<std::time::Duration>,
}

impl Turn {
    fn rotation(&self, token: &Token) -> Rotation {
        Rotation {
            id: KeyId::fresh(),
            hash: token.hash(),
            hint: token.hint().to_owned(),
            lifetime: self.lifetime,
            overlap: self.overlap,
        }
    }

    fn body(&self) -> Value {
        let mut body = json!({ "overlapSeconds": self.overlap.as_secs() });
        if let Some(lifetime) = self.lifetime {
            body["expiresInSeconds"] = lifetime.as_secs().into();
        }
        body
    }
}
