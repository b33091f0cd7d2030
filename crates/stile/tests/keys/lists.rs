//! Lists and streams have nothing of others in them, and their pages are whole.

use serde_json::{Value, json};
use testkit::DEADLINE;

use crate::support::{Backend, Caller, NOBODY, OURS, THEIRS, chain, transfer};

on_both_stores!(
    lists_have_our_own_and_their_pages_are_full,
    streams_have_our_own_and_miss_nothing,
    what_happens_to_their_signers_is_not_told
);

fn assert_clean(text: &str, their_ids: &[String]) {
    let lower = text.to_lowercase();
    assert!(!lower.contains(&THEIRS[2..].to_lowercase()), "their signer shows: {text}");
    for id in their_ids {
        assert!(!lower.contains(id), "their transaction shows: {text}");
    }
}

/// Ours and theirs, in turns.
async fn send_in_turns(admin: Caller<'_>, count: usize, name: &str) -> (Vec<String>, Vec<String>) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 0..count {
        for (signer, ids) in [(THEIRS, &mut theirs), (OURS, &mut ours)] {
            ids.push(admin.confirmed(&transfer(signer, &format!("{name}-{number}"))).await);
        }
    }
    (ours, theirs)
}

async fn lists_have_our_own_and_their_pages_are_full(backend: Backend) {
    let chain = chain().await;
    let admin = backend.key("admin", "admin", "all").await;
    let key = backend.key("ours", "read", OURS).await;
    let node = backend.node_on(&chain).start().await;
    let (mut ours, theirs) = send_in_turns(node.with(&admin), 5, "list").await;
    ours.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for size in [2, 2, 1] {
        let page = node.with(&key).get(&format!("/api/v1/tx?limit=2{cursor}")).await;
        assert_clean(&page.text, &theirs);
        let page = page.ok();
        let items = page["items"].as_array().unwrap();
        assert_eq!(items.len(), size, "a full page, however much of others lies in between");
        seen.extend(items.iter().map(|tx| tx["txId"].as_str().unwrap().to_owned()));
        cursor = page["next"].as_u64().map(|next| format!("&cursor={next}")).unwrap_or_default();
    }
    assert_eq!((seen, cursor.as_str()), (ours, ""), "all of ours, and no page after the last");

    let signers = node.with(&key).get("/api/v1/signers?limit=1").await;
    assert_clean(&signers.text, &theirs);
    let signers = signers.ok();
    assert_eq!(signers["items"].as_array().unwrap().len(), 1);
    assert_eq!((&signers["items"][0]["signer"], &signers["next"]), (&OURS.into(), &Value::Null));
    let all = node.with(&admin).get("/api/v1/signers").await.ok();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);

    // A key for a signer that this server does not serve sees nothing, and is told nothing.
    let none = backend.key("none", "read", NOBODY).await;
    for path in ["/api/v1/tx", "/api/v1/signers"] {
        assert_eq!(node.with(&none).get(path).await.text, "{\"items\":[],\"next\":null}", "{path}");
    }
}

/// What a stream says until it has said this much: the ids of its events, and the transactions.
struct Heard {
    ids: Vec<String>,
    txs: Vec<String>,
    text: String,
}

/// Listens from a place until `enough` says so.
async fn listen(caller: Caller<'_>, after: &str, enough: impl Fn(&Heard) -> bool) -> Heard {
    let request = caller.request("GET", "/api/v1/events").header("last-event-id", after);
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let mut heard = Heard { ids: Vec::new(), txs: Vec::new(), text: String::new() };
    let reading = async {
        while !enough(&heard) {
            let chunk = stream.chunk().await.unwrap().expect("a stream without an end");
            heard.text.push_str(std::str::from_utf8(&chunk).unwrap());
            let whole = heard.text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
            let events = whole.split("\n\n").filter(|frame| frame.contains("event: tx"));
            (heard.ids, heard.txs) = events
                .map(|frame| {
                    let part = |name: &str| {
                        frame.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned()
                    };
                    let data: Value = serde_json::from_str(&part("data: ")).unwrap();
                    (part("id: "), format!("{} {}", data["txId"].as_str().unwrap(), data["kind"]))
                })
                .unzip();
        }
    };
    tokio::time::timeout(DEADLINE, reading).await.expect("enough events");
    heard
}

async fn streams_have_our_own_and_miss_nothing(backend: Backend) {
    let chain = chain().await;
    let admin = backend.key("admin", "admin", "all").await;
    let key = backend.key("ours", "read,send", OURS).await;
    let node = backend.node_on(&chain).start().await;
    let (admin, caller) = (node.with(&admin), node.with(&key));
    let (ours, theirs) = send_in_turns(admin, 3, "before").await;
    let last = format!("{} \"CONFIRMED\"", ours[2]);
    let heard = listen(caller, "0-0", |heard| heard.txs.contains(&last)).await;
    assert_clean(&heard.text, &theirs);
    let mut expected = Vec::new();
    for id in &ours {
        let history = admin.get(&format!("/api/v1/tx/{id}/history")).await.ok();
        let events = history["items"].as_array().unwrap().iter();
        expected.extend(events.map(|event| format!("{id} {}", event["kind"])));
    }
    let (mut sorted, mut all) = (heard.txs.clone(), expected.clone());
    sorted.sort();
    all.sort();
    assert_eq!(sorted, all, "every event of ours, once");
    let everything = listen(admin, "0-0", |heard| heard.txs.contains(&last)).await;
    assert!(theirs.iter().all(|id| everything.text.contains(id)), "there was something to hide");
    for id in &heard.ids {
        assert!(everything.ids.contains(id), "places are the same for everybody");
    }

    // Cut off after any event, one comes back with its id and gets the rest.
    for (place, id) in heard.ids.iter().enumerate().step_by(4) {
        let rest = listen(caller, id, |rest| rest.txs.contains(&last)).await;
        assert_eq!(rest.txs, heard.txs[place + 1..], "after {id}");
        assert_clean(&rest.text, &theirs);
    }

    // And live, while others are busy: not even the places of theirs are told.
    let from = heard.ids.last().unwrap().clone();
    let (live, (_, more)) = tokio::join!(
        listen(caller, &from, |heard| {
            heard.txs.iter().filter(|tx| tx.ends_with("\"CONFIRMED\"")).count() == 2
        }),
        send_in_turns(admin, 2, "live"),
    );
    assert_clean(&live.text, &more);
    let bare = live.text.matches("id: ").count() - live.ids.len();
    assert_eq!(bare, 1, "but for where it began: {}", live.text);
}

async fn what_happens_to_their_signers_is_not_told(backend: Backend) {
    let chain = chain().await;
    let admin = backend.key("admin", "admin", "all").await;
    let key = backend.key("ours", "read,operate", OURS).await;
    let node = backend.node_on(&chain).start().await;
    let (admin, caller) = (node.with(&admin), node.with(&key));
    let (_, theirs) = send_in_turns(admin, 1, "signers").await;
    for signer in [THEIRS, OURS] {
        let reason = json!({ "reason": "key rotation" });
        admin.post(&format!("/api/v1/signers/{signer}/pause"), reason).await.ok();
    }
    let paused = |heard: &Heard| heard.text.matches("\"PAUSED\"").count();
    let heard = listen(caller, "0-0", |heard| paused(heard) == 1).await;
    assert_clean(&heard.text, &theirs);
    assert!(heard.text.contains("event: signer"), "{}", heard.text);
    let everything = listen(admin, "0-0", |heard| paused(heard) == 2).await;
    assert!(everything.text.contains(THEIRS), "there was something to hide");

    let history = caller.get(&format!("/api/v1/signers/{OURS}/history")).await;
    assert_clean(&history.text, &theirs);
    assert_eq!(history.ok()["items"][0]["kind"], "PAUSED");
    let hidden = caller.get(&format!("/api/v1/signers/{THEIRS}/history")).await;
    assert_eq!((hidden.status, hidden.problem().as_str()), (404, "unknown-signer"));
}
