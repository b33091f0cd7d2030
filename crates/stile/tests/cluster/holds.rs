//! Callers of bare nonces who insist.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use testkit::{DEADLINE, eventually_within};

use crate::common::{Answer, StileProcess};

const CLIENTS: usize = 6;

/// How long a client waits before it repeats a call.
const PAUSE: Duration = Duration::from_millis(20);

/// Clients that take nonces of these signers, each call under a key of its own and again and again
/// until it is answered with one, at each node in turn.
#[derive(Debug)]
pub(crate) struct Holds {
    signers: Vec<String>,
    client: reqwest::Client,
    urls: Mutex<Vec<String>>,
    turn: AtomicUsize,
    over: AtomicBool,
    next: AtomicUsize,
    nonces: Mutex<BTreeMap<String, Vec<u64>>>,
    /// How often a call was answered otherwise, by status and code; where there was no answer, by
    /// 0.
    refused: Mutex<BTreeMap<(u16, String), usize>>,
}

impl Holds {
    pub(crate) fn of(signers: &[String], nodes: &[&StileProcess]) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(DEADLINE).build();
        let holds = Self {
            signers: signers.to_vec(),
            client: client.unwrap(),
            urls: Mutex::default(),
            turn: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            nonces: Mutex::default(),
            refused: Mutex::default(),
        };
        holds.uses(nodes);
        holds
    }

    /// The nodes are these now.
    pub(crate) fn uses(&self, nodes: &[&StileProcess]) {
        let urls = nodes.iter().map(|node| node.url().to_owned()).collect();
        *self.urls.lock().unwrap() = urls;
    }

    pub(crate) fn taken(&self) -> usize {
        self.nonces.lock().unwrap().values().map(Vec::len).sum()
    }

    /// Waits until so many more nonces have been given out.
    pub(crate) async fn more(&self, count: usize) {
        let goal = self.taken() + count;
        eventually_within(2 * DEADLINE, "nonces to be given out", async || {
            (self.taken() >= goal).then_some(())
        })
        .await;
    }

    /// Lets the clients work until all this has happened, and their last calls are answered.
    pub(crate) async fn during<T>(&self, disturbance: impl Future<Output = T>) -> T {
        let disturbance = async {
            let result = disturbance.await;
            self.over.store(true, Ordering::Relaxed);
            result
        };
        let clients = futures::future::join_all((0..CLIENTS).map(|_| self.client()));
        tokio::join!(disturbance, clients).0
    }

    /// Takes so many nonces, all clients together.
    pub(crate) async fn take(&self, count: usize) {
        self.during(self.more(count)).await;
    }

    /// Every nonce was given out once, none is left out, and no call was refused otherwise than by
    /// a node that is stopping or gone.
    pub(crate) fn check(&self) {
        let refused = self.refused();
        println!("{} nonces, refused: {refused:?}", self.taken());
        for (signer, nonces) in &mut *self.nonces.lock().unwrap() {
            nonces.sort_unstable();
            let consecutive: Vec<u64> = (0..nonces.len() as u64).collect();
            assert_eq!(*nonces, consecutive, "{signer}");
        }
        let otherwise = refused.keys().find(|(status, _)| !matches!(status, 0 | 503));
        assert_eq!(otherwise, None, "{refused:?}");
    }

    pub(crate) fn refused(&self) -> BTreeMap<(u16, String), usize> {
        self.refused.lock().unwrap().clone()
    }

    async fn client(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let call = self.next.fetch_add(1, Ordering::Relaxed);
            let signer = &self.signers[call % self.signers.len()];
            let nonce = self.insist(signer, &format!("call-{call}")).await;
            self.nonces.lock().unwrap().entry(signer.clone()).or_default().push(nonce);
        }
    }

    async fn insist(&self, signer: &str, key: &str) -> u64 {
        let attempts = async {
            loop {
                let url = {
                    let urls = self.urls.lock().unwrap();
                    let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                    // Shifted with every round of signers, so that each meets every node.
                    let place = (turn + turn / self.signers.len()) % urls.len();
                    format!("{}/api/v1/nonces/{signer}/allocate", urls[place])
                };
                let sent = self
                    .client
                    .post(url)
                    .header("Idempotency-Key", key)
                    .json(&serde_json::json!({}))
                    .send()
                    .await;
                let answer = match sent {
                    Ok(response) => Answer::of(response).await.ok(),
                    Err(_) => None,
                };
                let why = match answer {
                    Some(answer) if answer.status == 200 => return answer.nonce(),
                    Some(answer) => (answer.status, answer.problem()),
                    None => (0, String::new()),
                };
                *self.refused.lock().unwrap().entry(why).or_default() += 1;
                tokio::time::sleep(PAUSE).await;
            }
        };
        let patience = tokio::time::timeout(2 * DEADLINE, attempts).await;
        patience.unwrap_or_else(|_| panic!("no nonce of {signer}: {:?}", self.refused()))
    }
}
