//! Nodes restarted one after the other, and their mode changed, under load.

use testkit::{Anvil, AnvilOptions};

use super::holds::Holds;
use crate::common::{Database, NodeOptions, StileProcess, signers};
use crate::support::Load;

const SIGNERS: usize = 6;
const LANES: u8 = 6;

/// Three nodes before one chain, all under load.
struct Setup {
    database: Database,
    anvil: Anvil,
}

impl Setup {
    async fn new() -> Self {
        let mining = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
        let (database, anvil) = tokio::join!(Database::new(), Anvil::start(mining));
        Self { database, anvil }
    }

    /// With signers that send, and such whose callers do.
    async fn node(&self, name: &str, mode: &str) -> StileProcess {
        NodeOptions::postgres(name, &self.database.url, &signers(LANES))
            .endpoint(self.anvil.url())
            .development_keys(SIGNERS)
            .mode(mode)
            .lease("2s", "500ms")
            .set("cluster.not_holder", "accept")
            .set_literal("cluster.move_lanes", "true")
            .set_literal("confirmations.required", "1")
            .start()
            .await
    }

    /// Replaces each node in turn by one of this mode, each after the one before has work again.
    async fn roll(&self, nodes: &mut [StileProcess], mode: &str, load: &Load, holds: &Holds) {
        for place in 0..nodes.len() {
            let ended = nodes[place].terminate().await;
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let name = nodes[place].id().to_owned();
            nodes[place] = self.node(&name, mode).await;
            let now: Vec<&StileProcess> = nodes.iter().collect();
            load.uses(&now);
            holds.uses(&now);
            tokio::join!(load.more(40), holds.more(40));
        }
    }

    /// Rolls through these modes, of which the first is that of the start.
    async fn through(&self, modes: &[&str]) {
        let [a, b, c] = ["a", "b", "c"].map(|name| self.node(name, modes[0]));
        let (a, b, c) = tokio::join!(a, b, c);
        let mut nodes = vec![a, b, c];
        let now: Vec<&StileProcess> = nodes.iter().collect();
        let load = Load::of(&self.anvil, &now, SIGNERS).await;
        let holds = Holds::of(&signers(LANES), &now);
        let rolling = async {
            tokio::join!(load.more(60), holds.more(60));
            for mode in &modes[1..] {
                self.roll(&mut nodes, mode, &load, &holds).await;
            }
        };
        load.during(holds.during(rolling)).await;
        let refused = load.refused();
        println!("{modes:?}: {} transactions taken, refused: {refused:?}", load.taken());
        assert!(refused.keys().all(|status| matches!(status, 0 | 503)), "{refused:?}");
        holds.check();
        load.check(&self.anvil, &nodes[0]).await;
    }
}

#[tokio::test]
async fn three_nodes_are_restarted_one_after_the_other_and_nothing_is_lost() {
    Setup::new().await.through(&["worker-queue", "worker-queue"]).await;
}

#[tokio::test]
async fn the_mode_is_changed_node_by_node_and_back_and_nothing_is_lost() {
    Setup::new().await.through(&["worker-queue", "basic", "worker-queue"]).await;
}
