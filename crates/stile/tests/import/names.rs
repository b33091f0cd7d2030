//! V1's other table names, signers that are no addresses, signers that are one.

use serde_json::json;
use testkit::eventually;

use crate::common::NodeOptions;
use crate::make::{self, Amount};
use crate::stage::{Stage, outcomes, report};

const NONE: Amount = Amount { signers: 3, nonces: 60, mined: 0 };

const SIGNER_TABLES: &str = "
CREATE TABLE signer_nonce_state (signer text PRIMARY KEY, last_chain_nonce bigint, next_local_nonce bigint NOT NULL,
    updated_at timestamptz NOT NULL);
CREATE TABLE signer_nonce_allocation (signer varchar(128) NOT NULL, nonce bigint NOT NULL,
    status varchar(32) NOT NULL, locked_until timestamptz NOT NULL, tx_hash varchar(66),
    fencing_token bigint NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
    PRIMARY KEY (signer, nonce));";

/// The other set of names, there and back.
#[tokio::test]
async fn the_signer_tables_are_moved_and_written_back() {
    let stage = Stage::bare(NONE).await;
    stage.v1.execute(SIGNER_TABLES).await;
    let signer = make::signer(0);
    stage
        .v1
        .execute(&format!(
            "INSERT INTO signer_nonce_state VALUES ('{signer}', NULL, 4, now());
             INSERT INTO signer_nonce_allocation
             SELECT '{signer}', n, s, now(), NULL, 7, now(), now()
             FROM (VALUES (0, 'HELD'), (1, 'CONSUMED'), (2, 'RELEASED'), (3, 'odd')) AS r (n, s)"
        ))
        .await;
    let items = report(stage.import(&[])).await;
    assert_eq!(outcomes(&items), ["imported"]);
    let statuses: Vec<String> =
        stage.ledger().await.into_iter().map(|row| row[2].clone()).collect();
    assert_eq!(statuses, ["SUSPECT", "SUSPECT", "RELEASED", "SUSPECT"]);
    let node = stage.node("a").start().await;
    let address = make::address(0).to_string();
    // What V1 had given back goes first, as soon as the chain has been asked once more.
    let mut given = Vec::new();
    eventually("nonce 2 to be given out", async || {
        given.push(node.allocate(&address).await);
        (given.last().unwrap().nonce() == 2).then_some(())
    })
    .await;
    for answer in &given {
        let (nonce, mut body) = (answer.nonce(), json!({ "holdId": answer.json()["holdId"] }));
        let what = if nonce == 2 { "used" } else { "recyclable" };
        match what {
            "used" => body["txHash"] = format!("{:#066x}", 0xf00d).into(),
            _ => body["reason"] = "not sent".into(),
        }
        node.post(&format!("/api/v1/nonces/{address}/{nonce}/{what}"), body).await.ok();
    }
    assert_eq!(outcomes(&report(stage.export(&[])).await), ["with V1"]);
    let rows = "SELECT status, tx_hash FROM signer_nonce_allocation ORDER BY nonce";
    let rows = stage.v1.rows(rows).await;
    let statuses: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(statuses[..4], ["HELD", "CONSUMED", "CONSUMED", "odd"]);
    assert!(statuses[4..].iter().all(|status| *status == "RELEASED"), "{statuses:?}");
    assert_eq!(rows[2][1], format!("{:#066x}", 0xf00d));
    let next = stage.v1.rows("SELECT next_local_nonce FROM signer_nonce_state").await;
    assert_eq!(next[0][0], rows.len().to_string());
}

#[tokio::test]
async fn signers_that_are_no_addresses_are_mapped_or_reported() {
    let stage = Stage::bare(NONE).await;
    stage.v1.execute(make::SUBMITTER_TABLES).await;
    let (upper, lower) = (make::address(1).to_string(), make::signer(1));
    stage
        .v1
        .execute(&format!(
            "INSERT INTO submitter_nonce_state SELECT s, NULL, 0, now()
             FROM unnest(ARRAY['payouts', 'cold wallet', '{upper}', '{lower}']) AS s"
        ))
        .await;
    let map = stage.file("map", &format!("# V1's names\npayouts = {}\n", make::address(0)));
    let items = report(stage.import(&["--map", &map, "--chain-id", "31337"])).await;
    let told = |name: &str| items.iter().find(|item| item["signer"] == name).unwrap();
    assert_eq!(told("payouts")["outcome"], "imported");
    assert_eq!(told("payouts")["address"], make::address(0).to_string());
    assert_eq!(told("cold wallet")["outcome"], "not mapped");
    for name in [&upper, &lower] {
        assert!(told(name)["why"].as_str().unwrap().contains("under 2 names"), "{items:?}");
    }
    assert_eq!(stage.moved("STILE").await, 1);
}

#[tokio::test]
async fn what_cannot_be_is_said_in_words() {
    let stage = Stage::bare(NONE).await;
    let finished = crate::common::Finished::of(&stage.import(&[])).await;
    assert!(finished.failure().contains("there is no V1 in this database"), "{finished:?}");
    stage.v1.execute(make::SUBMITTER_TABLES).await;
    let finished = crate::common::Finished::of(&stage.import(&["--chain-id", "5"])).await;
    assert!(finished.failure().contains("no [[chain]] with id = 5"), "{finished:?}");
    let finished = crate::common::Finished::of(&stage.import(&["--signer", "nobody"])).await;
    assert!(finished.failure().contains("V1 knows no signer nobody"), "{finished:?}");
    stage.v1.execute(SIGNER_TABLES).await;
    let finished = crate::common::Finished::of(&stage.import(&[])).await;
    assert!(finished.failure().contains("both"), "{finished:?}");
}

/// One machine with nothing installed takes signers over as well.
#[tokio::test]
async fn signers_move_into_an_embedded_store_and_back() {
    let amount = Amount { signers: 2, nonces: 60, mined: 5 };
    let stage = Stage::set(amount).await;
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("stile.db");
    let address = make::address(0).to_string();
    let signers = std::slice::from_ref(&address);
    let options = NodeOptions::sqlite(&database, signers).endpoint(stage.anvil.url());
    std::fs::write(stage.config_file(), options.to_toml(7420)).unwrap();
    assert_eq!(outcomes(&report(stage.import(&[])).await), ["imported"; 2]);
    assert_eq!(outcomes(&report(stage.import(&[])).await), ["imported before"; 2]);
    let counted = rusqlite::Connection::open(&database).unwrap();
    let count: i64 = counted.query_row("SELECT count(*) FROM nonce", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 120);
    let node = options.start().await;
    let answer = node.allocate(&address).await;
    let path = format!("/api/v1/nonces/{address}/{}/recyclable", answer.nonce());
    let body = json!({ "holdId": answer.json()["holdId"], "reason": "not sent" });
    node.post(&path, body).await.ok();
    assert_eq!(outcomes(&report(stage.export(&[])).await), ["with V1"; 2]);
    assert_eq!(node.allocate(&address).await.problem(), "lane-not-owned");
}
