//! Callers who insist.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use testkit::{Anvil, DEADLINE, eventually_within};

use super::{assert_all_mined_once, id, transfer};
use crate::common::{Answer, StileProcess};

/// How many signers the transfers are dealt out to.
pub(crate) const SIGNERS: usize = 3;

const CLIENTS: usize = 4;

/// How long a client waits before its next call, or before it repeats one.
const PAUSE: Duration = Duration::from_millis(10);

/// Clients that hand over transfers, each under a request id of its own and again and again until
/// it is taken, whatever happens to the nodes.
#[derive(Debug)]
pub(crate) struct Load {
    /// The signers that transfers are dealt out to.
    accounts: Vec<String>,
    client: reqwest::Client,
    /// Where the nodes of the moment are.
    urls: Mutex<Vec<String>>,
    turn: AtomicUsize,
    over: AtomicBool,
    next: AtomicU64,
    /// What was answered with a success, by the wei it carries.
    taken: Mutex<BTreeMap<u64, Value>>,
    /// How often a call was answered otherwise, by status; 0 where there was no answer.
    refused: Mutex<BTreeMap<u16, usize>>,
}

impl Load {
    pub(crate) async fn new(anvil: &Anvil, nodes: &[&StileProcess]) -> Self {
        Self::of(anvil, nodes, SIGNERS).await
    }

    /// Transfers of so many signers.
    pub(crate) async fn of(anvil: &Anvil, nodes: &[&StileProcess], signers: usize) -> Self {
        let mut accounts = anvil.accounts().await;
        accounts.truncate(signers);
        let client = reqwest::Client::builder().no_proxy().timeout(DEADLINE).build();
        Self {
            accounts,
            client: client.unwrap(),
            urls: Mutex::new(nodes.iter().map(|node| node.url().to_owned()).collect()),
            turn: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            next: AtomicU64::new(0),
            taken: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// How many requests have been taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().unwrap().len()
    }

    /// Waits until so many more requests have been taken.
    pub(crate) async fn more(&self, count: usize) {
        let goal = self.taken() + count;
        eventually_within(2 * DEADLINE, "the load to go on", async || {
            (self.taken() >= goal).then_some(())
        })
        .await;
    }

    /// How often a call was not answered with a success, by status; 0 where there was no answer.
    pub(crate) fn refused(&self) -> BTreeMap<u16, usize> {
        self.refused.lock().unwrap().clone()
    }

    /// The nodes are these now.
    pub(crate) fn uses(&self, nodes: &[&StileProcess]) {
        let urls = nodes.iter().map(|node| node.url().to_owned()).collect();
        *self.urls.lock().unwrap() = urls;
    }

    /// A node has been started again.
    pub(crate) fn moved(&self, place: usize, node: &StileProcess) {
        self.urls.lock().unwrap()[place] = node.url().to_owned();
    }

    /// Lets the clients work until all this has happened, and then until their last call is taken.
    pub(crate) async fn during<T>(&self, disturbance: impl Future<Output = T>) -> T {
        let disturbance = async {
            let result = disturbance.await;
            self.over.store(true, Ordering::Relaxed);
            result
        };
        let clients = futures::future::join_all((0..CLIENTS).map(|_| self.client()));
        tokio::join!(disturbance, clients).0
    }

    /// Every request that was answered is confirmed, and mined once.
    pub(crate) async fn check(&self, anvil: &Anvil, node: &StileProcess) {
        let taken = self.taken.lock().unwrap().clone();
        println!("{} requests", taken.len());
        let mut all = Vec::new();
        let signers = self.accounts.len() as u64;
        for (place, signer) in self.accounts.iter().enumerate() {
            let of_signer: BTreeMap<&str, u64> = taken
                .iter()
                .filter(|(wei, _)| **wei % signers == place as u64)
                .map(|(wei, tx)| (id(tx), *wei))
                .collect();
            let confirmed = node.all_confirmed(signer, of_signer.len()).await;
            for tx in &confirmed {
                let wei = of_signer.get(id(tx)).unwrap_or_else(|| panic!("nobody's: {tx:#}"));
                assert_eq!(tx["payload"]["value"], wei.to_string(), "{tx:#}");
            }
            all.push((signer.as_str(), confirmed));
        }
        assert_all_mined_once(anvil, &all).await;
    }

    /// Whose transfer it is that carries so many wei.
    fn signer_of(&self, wei: u64) -> &str {
        &self.accounts[(wei % self.accounts.len() as u64) as usize]
    }

    /// Hands over transfers, each until it is taken, until the load is over.
    async fn client(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let wei = self.next.fetch_add(1, Ordering::Relaxed) + 1;
            let tx = self.insist(&transfer(self.signer_of(wei), wei)).await;
            self.taken.lock().unwrap().insert(wei, tx);
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn not_taken(&self, status: u16) {
        *self.refused.lock().unwrap().entry(status).or_default() += 1;
    }

    /// Each node in turn.
    fn any_url(&self) -> String {
        let urls = self.urls.lock().unwrap();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        format!("{}/api/v1/tx", urls[turn % urls.len()])
    }

    /// Repeats a request, whose id stays the same, until it gets a success.
    async fn insist(&self, body: &Value) -> Value {
        let attempts = async {
            loop {
                let url = self.any_url();
                match self.client.post(url).json(body).send().await {
                    Ok(response) => match Answer::of(response).await {
                        Ok(answer) if answer.status / 100 == 2 => return answer.json(),
                        Ok(answer) => {
                            let later = matches!(answer.status, 409 | 429 | 503);
                            assert!(later, "{answer:?}");
                            self.not_taken(answer.status);
                        }
                        Err(_killed_while_answering) => self.not_taken(0),
                    },
                    Err(_killed_before) => self.not_taken(0),
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(2 * DEADLINE, attempts).await.expect("a success in time")
    }
}
