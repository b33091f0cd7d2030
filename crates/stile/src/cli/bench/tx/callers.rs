//! Those who hand transactions over.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;

use super::site::Site;
use crate::cli::Failure;
use crate::cli::bench::http::Connection;
use crate::cli::bench::load::{Caller, Got};
use crate::cli::bench::nodes::RECEIVER;

/// Hands over one or many transactions a call, over a connection of its own.
pub(super) struct Sender {
    connection: Connection,
    signer: String,
    /// What its request ids begin with: nobody else's do.
    name: String,
    sent: usize,
    /// How many a call; `None` uses the call for a single one.
    batch: Option<usize>,
}

impl Sender {
    /// So many, spread evenly over the node's signers.
    pub(super) async fn many(
        site: &Site,
        count: usize,
        batch: Option<usize>,
    ) -> Result<Vec<Self>, Failure> {
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let mut senders = Vec::with_capacity(count);
        for (number, signer) in site.signers.iter().cycle().take(count).enumerate() {
            let (connection, signer) = (site.connect().await?, signer.clone());
            let name = format!("bench-{load}-{number}");
            senders.push(Self { connection, signer, name, sent: 0, batch });
        }
        Ok(senders)
    }

    /// How many a call hands over.
    pub(super) fn size(&self) -> usize {
        self.batch.unwrap_or(1)
    }

    fn next(&mut self) -> String {
        self.sent += 1;
        format!(
            r#"{{"signer":"{}","requestId":"{}-{}","payload":{{"to":"{}","value":"1","gasLimit":"21000"}}}}"#,
            self.signer, self.name, self.sent, RECEIVER,
        )
    }

    async fn one(&mut self) -> Result<Got, Failure> {
        let body = self.next();
        let (status, _) = self.connection.post("/api/v1/tx", body).await?;
        Ok(Got::one(status.as_u16() == 202))
    }

    async fn many_at_once(&mut self, count: usize) -> Result<Got, Failure> {
        let items: Vec<String> = (0..count).map(|_| self.next()).collect();
        let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
        let (_, body) = self.connection.post("/api/v1/tx/batch", body).await?;
        let answer: Answer = serde_json::from_slice(&body)?;
        let granted = answer.items.iter().filter(|item| item.status == 202).count() as u64;
        Ok(Got { granted, refused: count as u64 - granted })
    }
}

impl Caller for Sender {
    async fn call(&mut self) -> Got {
        let got = match self.batch {
            None => self.one().await,
            Some(count) => self.many_at_once(count).await,
        };
        got.unwrap_or(Got { granted: 0, refused: self.size() as u64 })
    }
}

#[derive(Deserialize)]
struct Answer {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
}
