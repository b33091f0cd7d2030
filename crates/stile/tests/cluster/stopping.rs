//! A node that is asked to end.

use testkit::{DEADLINE, Signal, eventually};

use crate::common::{
    Database, Finished, MODES, NodeOptions, Pending, StileProcess, signer, signers,
};

/// Calls under way when the signal comes.
const CALLS: usize = 60;

/// A node on which calls for a lane wait, because somebody has the lane's row locked.
struct Busy {
    database: Database,
    node: StileProcess,
    pending: Vec<Pending>,
    /// The session that has the row locked. Dropped, it lets go.
    locked: tokio_postgres::Client,
}

impl Busy {
    async fn start(mode: &str) -> Self {
        let database = Database::new().await;
        let options = NodeOptions::postgres("a", &database.url, &signers(2)).mode(mode);
        let options = options.lease("120s", "50s");
        let options =
            options.set("store.lock_timeout", "30s").set("store.statement_timeout", "30s");
        let node = options.start().await;
        for lane in signers(2) {
            assert_eq!(node.allocate(&lane).await.nonce(), 0);
        }
        let locked = database.connect().await;
        let lock = "BEGIN; SELECT FROM lane FOR UPDATE";
        locked.batch_execute(lock).await.unwrap();
        let mut pending = Vec::new();
        for call in 0..CALLS {
            pending.push(node.allocate_later(&signer((call % 2) as u8)).await);
        }
        eventually("the node to have read every call", async || {
            has_read_all(node.port()).then_some(())
        })
        .await;
        Self { database, node, pending, locked }
    }

    /// Sends the signal and waits until it has been heard.
    async fn interrupt(&self) {
        self.node.process.signal(Signal::Term);
        self.node.process.wait_for_line(|line| line.contains("stopping"), DEADLINE).await;
    }
}

/// Whether a server has taken every connection to its port and read what was sent on it, as far as
/// the system tells.
fn has_read_all(port: u16) -> bool {
    let Ok(table) = std::fs::read_to_string("/proc/net/tcp") else { return true };
    let local = format!(":{port:04X}");
    // `sl local_address rem_address st tx_queue:rx_queue …`; of the listening socket the queue
    // counts connections that wait to be taken.
    let mut sockets = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1)?.ends_with(&local).then(|| fields[4].ends_with(":00000000"))
    });
    sockets.all(|is_empty| is_empty)
}

#[tokio::test]
async fn a_node_that_is_asked_to_end_answers_every_call_and_gives_its_leases_back() {
    for mode in MODES {
        let busy = Busy::start(mode).await;
        busy.interrupt().await;
        eventually("no more connections to be taken", async || {
            let connection = tokio::net::TcpStream::connect(busy.node.address()).await;
            connection.is_err().then_some(())
        })
        .await;
        busy.locked.batch_execute("ROLLBACK").await.unwrap();
        let mut nonces = [vec![0], vec![0]];
        for (call, pending) in busy.pending.into_iter().enumerate() {
            let answer = pending.answer().await;
            match answer.status {
                200 => nonces[call % 2].push(answer.nonce()),
                409 | 503 => drop(answer.problem()),
                _ => panic!("{answer:?}"),
            }
        }
        for of_lane in &mut nonces {
            of_lane.sort_unstable();
            let consecutive: Vec<u64> = (0..of_lane.len() as u64).collect();
            assert_eq!(*of_lane, consecutive, "in {mode} mode");
        }
        let ended = Finished::of(&busy.node.process).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("leases given back node=a lanes=2"), "{ended:?}");
        assert!(ended.stderr.contains("stopped cut_short=0"), "{ended:?}");

        let left =
            busy.database.rows("SELECT FROM lane WHERE expires_at > clock_timestamp()").await;
        assert_eq!(left.len(), 0, "leases of two minutes are over");
        let next = NodeOptions::postgres("b", &busy.database.url, &signers(2)).start().await;
        for (lane, of_lane) in signers(2).iter().zip(&nonces) {
            assert_eq!(next.allocate(lane).await.nonce(), of_lane.len() as u64);
            assert_eq!(next.signer(lane).await["ownerNode"], "b");
        }
    }
}

#[tokio::test]
async fn a_second_signal_ends_a_node_at_once() {
    let busy = Busy::start("worker-queue").await;
    busy.interrupt().await;
    busy.node.process.signal(Signal::Int);
    let ended = Finished::of(&busy.node.process).await;
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stderr.contains("stopped at once"), "{ended:?}");
    assert!(!ended.stderr.contains("leases given back"), "{ended:?}");
}
