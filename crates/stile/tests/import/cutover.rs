//! 100 signers with nonces in every state move while V1 writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::make::{self, Amount};
use crate::stage::{Stage, outcomes, report};
use crate::writer;

/// What a nonce must have become, by the chain's count and what its hash was found to be.
fn expected(status: &str, hash: &str, below: bool) -> &'static str {
    match (status, hash, below) {
        (_, _, true) => "CONSUMED",
        ("USED", hash, false) if !hash.is_empty() => "CONSUMED",
        ("RECYCLABLE", _, false) => "RELEASED",
        _ => "SUSPECT",
    }
}

/// Every row of V1's is in Stile's ledger, as it must be, and everything that is open below a cursor
/// besides.
async fn accounted_for(stage: &Stage) {
    let ledger: BTreeMap<(String, u64), (String, String)> = stage
        .ledger()
        .await
        .into_iter()
        .map(|row| ((row[0].clone(), row[1].parse().unwrap()), (row[2].clone(), row[4].clone())))
        .collect();
    let rows = stage.v1_rows().await;
    assert_eq!(ledger.len(), rows.len());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for row in &rows {
        let (signer, nonce) = (row[0].to_lowercase(), row[1].parse::<u64>().unwrap());
        let (status, hash) = &ledger[&(signer.clone(), nonce)];
        let latest = *counts.entry(signer.clone()).or_insert(u64::MAX);
        let latest =
            if latest == u64::MAX { stage.anvil.nonce(&signer, "latest").await } else { latest };
        counts.insert(signer.clone(), latest);
        assert_eq!(status, expected(&row[2], &row[3], nonce < latest), "{row:?} of {latest}");
        if row[2] == "USED" {
            let told = if row[3].is_empty() { "-" } else { &row[3] };
            assert_eq!(hash, told, "{row:?}");
        }
    }
    for lane in stage.lanes().await {
        let (signer, next): (&String, u64) = (&lane[0], lane[1].parse().unwrap());
        let latest = counts[signer];
        assert_eq!(lane[2], latest.to_string(), "the chain's count");
        assert_eq!(lane[3], "-", "it is Stile's");
        for nonce in latest..next {
            assert!(ledger.contains_key(&(signer.clone(), nonce)), "{signer} {nonce}");
        }
        assert!(!ledger.contains_key(&(signer.clone(), next)));
    }
}

/// V1 as it runs on while signers are moved away under it. Each success is on record in V1's own tables;
/// what matters is that none comes after a refusal.
async fn keep_writing(stage: Arc<Stage>, signer: String, stop: Arc<AtomicBool>) -> (u64, u64) {
    let mut client = stage.v1_client().await;
    let (mut written, mut refused) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let result = async {
            let nonce = writer::allocate(&mut client, &signer).await?;
            match nonce % 3 {
                0 => {
                    writer::mark_used(&client, &signer, nonce, &format!("{:#066x}", nonce + 1))
                        .await
                }
                1 => writer::mark_recyclable(&client, &signer, nonce).await,
                _ => Ok(()),
            }
        };
        match result.await {
            Ok(()) => {
                assert_eq!(refused, 0, "{signer} was written after it had moved");
                written += 1;
            }
            Err(error) => {
                assert!(writer::is_stopped(&error), "{error:?}");
                refused += 1;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
    (written, refused)
}

async fn moves(amount: Amount) {
    let stage = Arc::new(Stage::set(amount).await);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..amount.signers)
        .step_by((amount.signers / 10).max(1) as usize)
        .map(|number| {
            tokio::spawn(keep_writing(Arc::clone(&stage), make::signer(number), Arc::clone(&stop)))
        })
        .collect();

    let before = stage.v1_rows().await.len();
    let begun = std::time::Instant::now();
    let first = report(stage.import(&[])).await;
    let took = begun.elapsed();
    let rows: u64 = first.iter().map(|item| item["nonces"].as_u64().unwrap()).sum();
    println!("{rows} nonces of {} signers in {took:?}, {before} of them from before", first.len());
    assert_eq!(outcomes(&first), vec!["imported"; amount.signers as usize]);
    let moved = stage.v1_rows().await;
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        let (_, refused) = writer.await.unwrap();
        assert!(refused > 0, "it was to be refused in the end");
    }
    assert_eq!(stage.v1_rows().await, moved, "nothing was written after the fence");
    accounted_for(&stage).await;

    let (ledger, lanes) = (stage.ledger().await, stage.lanes().await);
    let second = report(stage.import(&[])).await;
    assert_eq!(outcomes(&second), vec!["imported before"; amount.signers as usize]);
    let told = |items: &[Value], name: &str| -> Vec<Value> {
        items.iter().map(|item| item[name].clone()).collect()
    };
    for name in ["signer", "nonces", "nextNonce", "chainNonce", "became", "needsAPerson"] {
        assert_eq!(told(&first, name), told(&second, name));
    }
    assert_eq!((stage.ledger().await, stage.lanes().await), (ledger, lanes), "twice is once");
    // Of each kind there is something, and what a person must see is named with its hold.
    let concerns: Vec<String> = first
        .iter()
        .flat_map(|item| item["needsAPerson"].as_array().unwrap())
        .map(|concern| concern["why"].as_str().unwrap()[..24].to_owned())
        .collect();
    for words in
        ["V1 names a transaction t", "V1 says that it was sent", "V1 gave it out and heard"]
    {
        assert!(concerns.iter().any(|concern| concern == words), "{words}");
    }
}

/// 100 signers, 100,000 nonces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_19_a_hundred_signers_move_while_v1_writes() {
    moves(Amount { signers: 100, nonces: 1000, mined: 40 }).await;
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let stage = Stage::set(Amount { signers: 3, nonces: 60, mined: 10 }).await;
    let dump = async || {
        let tables =
            "SELECT count(*) FROM information_schema.tables WHERE table_name = 'stile_cutover'";
        (stage.v1_rows().await, stage.v1.rows(tables).await, stage.ledger().await)
    };
    let migrated = stage.rollout(&["show"]).await;
    assert!(migrated.ok().contains("all signers"));
    let before = dump().await;
    let items = report(stage.import(&["--dry-run"])).await;
    assert_eq!(outcomes(&items), ["would be imported"; 3]);
    assert_eq!(dump().await, before);
    let moved = report(stage.import(&[])).await;
    for (item, moved) in items.iter().zip(moved) {
        assert_eq!(item["became"], moved["became"], "what was said is what was done");
    }
}
