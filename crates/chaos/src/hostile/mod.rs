//! A Redis under somebody else's control: nodes are made up, nodes are said to be elsewhere or gone,
//! everything is forgotten. Whoever does it has a server of its own, and waits there for what comes.
//!
//! Redis has no say in who is a node, so nothing ever comes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What is done to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// So many nodes are made up that are reached at the trap.
    MakeUp(u32),
    /// Every node is said to be reached at the trap.
    Divert,
    /// No node is said to live.
    Silence,
    /// Everything is forgotten.
    Empty,
}

/// How long what is made up lasts: longer than the nodes of a run take anybody to live for.
const LIFE_MS: u32 = 20_000;

/// What all keys of the registry begin with, unless somebody says otherwise.
const PREFIX: &str = "stile";

/// The most that is kept of one connection to the trap.
const KEPT_BYTES: usize = 64 * 1024;

/// A server that should never hear anything.
#[derive(Debug)]
pub struct Trap {
    address: SocketAddr,
    caught: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Trap {
    /// Listens on a port of its own.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listen");
        let address = listener.local_addr().expect("an address");
        let caught: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&caught);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let into = Arc::clone(&into);
                let place = {
                    let mut caught = into.lock().unwrap();
                    caught.push(String::new());
                    caught.len() - 1
                };
                tokio::spawn(async move { catch(stream, &into, place).await });
            }
        });
        Self { address, caught, task }
    }

    /// The URL that is told of it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has come, connection by connection.
    pub fn caught(&self) -> Vec<String> {
        self.caught.lock().unwrap().clone()
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Keeps what comes, and answers as a node would that has done what was asked.
async fn catch(mut stream: TcpStream, caught: &Mutex<Vec<String>>, place: usize) {
    let mut bytes = vec![0; 4096];
    loop {
        let read = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut bytes)).await;
        match read {
            Ok(Ok(count)) if count > 0 => {
                let mut caught = caught.lock().unwrap();
                if caught[place].len() < KEPT_BYTES {
                    caught[place].push_str(&String::from_utf8_lossy(&bytes[..count]));
                }
            }
            // It waits for an answer.
            Err(_) => break,
            Ok(_) => return,
        }
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\
                  connection: close\r\n\r\n{}";
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Whoever can write to Redis.
#[derive(Debug)]
pub struct Attacker {
    redis: SocketAddr,
    url: String,
}

impl Attacker {
    /// Has this Redis lead to this trap.
    pub fn new(redis: SocketAddr, trap: &Trap) -> Self {
        Self { redis, url: trap.url() }
    }

    /// Does it; `Err` if Redis does not answer, or not with a success. Otherwise, how many nodes were
    /// hit.
    pub async fn inflict(&self, attack: Attack) -> Result<u64, String> {
        let (life, url) = (LIFE_MS.to_string(), self.url.as_str());
        match attack {
            Attack::MakeUp(count) => {
                let mut made_up = 0;
                // In parts, since Redis does nothing else while a script runs.
                for first in (1..=count).step_by(500) {
                    let last = (first + 499).min(count);
                    let (first, last) = (first.to_string(), last.to_string());
                    let arguments = [PREFIX, url, &first, &last, &life];
                    made_up += self.script(include_str!("make_up.lua"), &arguments).await?;
                }
                Ok(made_up)
            }
            Attack::Divert => self.script(include_str!("divert.lua"), &[PREFIX, url]).await,
            Attack::Silence => self.script(include_str!("silence.lua"), &[PREFIX]).await,
            Attack::Empty => self.ask(&["FLUSHALL"]).await,
        }
    }

    async fn script(&self, text: &str, arguments: &[&str]) -> Result<u64, String> {
        self.ask(&[&["EVAL", text, "0"], arguments].concat()).await
    }

    async fn ask(&self, words: &[&str]) -> Result<u64, String> {
        let asked = async {
            let mut stream = TcpStream::connect(self.redis).await?;
            let mut command = format!("*{}\r\n", words.len());
            for word in words {
                command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
            command.push_str("*1\r\n$4\r\nQUIT\r\n");
            stream.write_all(command.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = tokio::time::timeout(Duration::from_secs(10), asked).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?;
        let answer = answer.map_err(|error| error.to_string())?;
        let line = answer.lines().next().unwrap_or_default();
        match line.split_at_checked(1) {
            Some(("+", _)) => Ok(0),
            Some((":", number)) => number.parse().map_err(|_| line.to_owned()),
            _ => Err(line.to_owned()),
        }
    }
}
