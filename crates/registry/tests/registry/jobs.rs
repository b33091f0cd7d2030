//! What schedulers do, everywhere alike.

use std::time::Duration;

use stile_registry::{
    Capacity, Health, Heartbeat, Mode, Registration, RegistryError, ResourceReport, Status,
};
use testkit::eventually;

use crate::common::{Stage, everywhere, id, names, pool, query, request, speech};

everywhere!(
    a_node_registers_is_read_chosen_and_given_a_job,
    full_nodes_refuse_and_free_slots_are_found,
    slots_are_reserved_confirmed_and_released,
    current_jobs_is_what_the_capacity_record_says,
    a_selection_says_whom_it_left_out,
    sessions_stay_in_their_pool,
);

async fn a_node_registers_is_read_chosen_and_given_a_job(mut stage: Stage) {
    let registry = stage.instance().await;
    assert_eq!(registry.mode(), Mode::Normal);
    let registered = registry.register(&speech("node-12345", 10, &["1", "2"])).await.unwrap();
    assert_eq!(registered.sequence, 1);
    assert!(registered.last_heartbeat_ms > 1_700_000_000_000);

    let node = registry.get_node(&id("node-12345")).await.unwrap().unwrap();
    assert_eq!(node, registered);
    assert_eq!(node.resources.max_concurrency, 10);

    let selection = registry.select(&query("1", "asr,nmt,tts")).await.unwrap();
    assert_eq!(names(&selection.nodes), ["node-12345"]);

    let job = registry.dispatch(&request("s", "asr:zh,tts", None)).await.unwrap();
    assert_eq!(job.node_id, id("node-12345"));
    assert!([pool("1"), pool("2")].contains(&job.pool));
    assert_eq!(job.job_id.node(), &job.node_id);
    assert!(job.expires_at > registered.last_heartbeat_ms);

    let beat = Heartbeat {
        resources: Some(ResourceReport {
            max_concurrency: 12,
            cpu_usage: 0.5,
            ..Default::default()
        }),
        ..Heartbeat::of(registered.incarnation)
    };
    let node = registry.heartbeat(&id("node-12345"), &beat).await.unwrap();
    assert_eq!((node.sequence, node.resources.current_jobs), (2, 1));
    assert_eq!((node.resources.max_concurrency, node.resources.cpu_usage), (12, 0.5));
    assert_eq!(node.services, registered.services, "what was not said stays");

    registry.complete(&job.job_id).await.unwrap();
    let capacity = registry.capacity(&id("node-12345")).await.unwrap();
    assert_eq!(capacity, Some(Capacity { max: 12, running: 0, reserved: 0 }));
    registry.shutdown().await;
}

async fn full_nodes_refuse_and_free_slots_are_found(mut stage: Stage) {
    let (one, other) = (stage.instance().await, stage.instance().await);
    for name in ["a", "b", "c"] {
        one.register(&speech(name, 2, &["p"])).await.unwrap();
    }
    let job = request("s", "asr", Some("p"));
    let mut jobs = Vec::new();
    for number in 0..6 {
        let registry = if number % 2 == 0 { &one } else { &other };
        jobs.push(registry.dispatch(&job).await.unwrap());
    }
    for name in ["a", "b", "c"] {
        assert_eq!(jobs.iter().filter(|job| job.node_id == id(name)).count(), 2, "{name}");
    }
    for registry in [&one, &other] {
        let error = registry.dispatch(&job).await.unwrap_err();
        assert_eq!(error.code(), "nodes-full");
        assert!(matches!(error, RegistryError::Full { tried: 3, .. }), "{error}");
        assert!(error.retry_after().is_some());
    }
    let freed = jobs.pop().unwrap();
    other.complete(&freed.job_id).await.unwrap();
    assert_eq!(one.dispatch(&job).await.unwrap().node_id, freed.node_id);
    assert_eq!(one.complete(&freed.job_id).await.unwrap_err().code(), "job-over");
    assert!(one.dispatch(&job).await.is_err(), "the second word freed nothing");
}

async fn slots_are_reserved_confirmed_and_released(mut stage: Stage) {
    stage.set(|settings| settings.job_ttl = Duration::from_millis(500));
    let registry = stage.instance().await;
    registry.register(&speech("n", 2, &[])).await.unwrap();
    let capacity = async || registry.capacity(&id("n")).await.unwrap().unwrap();
    let first = registry.reserve(&id("n")).await.unwrap().unwrap();
    let second = registry.reserve(&id("n")).await.unwrap().unwrap();
    assert_eq!(registry.reserve(&id("n")).await.unwrap(), None);
    assert_eq!(capacity().await, Capacity { max: 2, running: 0, reserved: 2 });
    let confirmed_until = registry.confirm(&first.job).await.unwrap();
    assert!(confirmed_until >= first.expires_at_ms);
    assert!(registry.release(&second.job).await.unwrap());
    assert!(!registry.release(&second.job).await.unwrap());
    let now = capacity().await;
    assert!(now.running <= 1 && now.reserved == 0, "{now:?}");
    eventually("the slot to run out", async || (capacity().await.used() == 0).then_some(())).await;
    assert_eq!(registry.confirm(&first.job).await.unwrap_err().code(), "job-over");
    assert_eq!(registry.reserve(&id("nobody")).await.unwrap(), None);
}

async fn current_jobs_is_what_the_capacity_record_says(mut stage: Stage) {
    let registry = stage.instance().await;
    let node = registry.register(&speech("n", 5, &["p"])).await.unwrap();
    registry.dispatch(&request("s", "", Some("p"))).await.unwrap();
    registry.dispatch(&request("s", "", Some("p"))).await.unwrap();
    registry.reserve(&id("n")).await.unwrap().unwrap();
    let claims = ResourceReport { max_concurrency: 5, current_jobs: Some(4), ..Default::default() };
    let beat = Heartbeat { resources: Some(claims), ..Heartbeat::of(node.incarnation) };
    let node = registry.heartbeat(&id("n"), &beat).await.unwrap();
    assert_eq!(node.resources.current_jobs, 2, "what runs, not what is reserved or claimed");
    let other = stage.instance().await;
    let jobs = async |number| {
        eventually("the other to see what runs", async || {
            let node = other.get_node(&id("n")).await.unwrap().unwrap();
            (node.resources.current_jobs == number).then_some(())
        })
        .await;
    };
    jobs(2).await;
    let job = registry.dispatch(&request("s", "", Some("p"))).await.unwrap();
    registry.heartbeat(&id("n"), &beat).await.unwrap();
    jobs(3).await;
    registry.complete(&job.job_id).await.unwrap();
    eventually("the answer to show what runs", async || {
        let node = registry.heartbeat(&id("n"), &beat).await.unwrap();
        (node.resources.current_jobs == 2).then_some(())
    })
    .await;
    jobs(2).await;
}

async fn a_selection_says_whom_it_left_out(mut stage: Stage) {
    let registry = stage.instance().await;
    for name in ["a", "b", "c"] {
        registry.register(&speech(name, 4, &["p"])).await.unwrap();
    }
    let mut no_tts = speech("no-tts", 4, &["p"]);
    no_tts.services.retain(|service, _| service.as_str() != "tts");
    registry.register(&no_tts).await.unwrap();
    registry
        .register(&Registration { status: Status::Offline, ..speech("off", 4, &["p"]) })
        .await
        .unwrap();
    registry
        .register(&Registration { health: Health::NotReady, ..speech("not", 4, &["p"]) })
        .await
        .unwrap();
    registry.register(&speech("elsewhere", 4, &["q"])).await.unwrap();
    registry.dispatch(&request("s", "tts", Some("p"))).await.unwrap();

    let selection = registry.select(&query("p", "asr,tts:zh")).await.unwrap();
    assert_eq!(selection.nodes.len(), 3);
    let out = selection.left_out;
    assert_eq!((out.lacking, out.not_ready, out.dead, out.elsewhere), (1, 2, 0, 0), "{out}");
    let busy = registry.capacity(&selection.nodes[2].id).await.unwrap().unwrap();
    assert_eq!(busy.running, 1, "the one with a job comes last");

    let mut few = query("p", "asr,tts:zh");
    few.limit = Some(1);
    let best = registry.select(&few).await.unwrap().nodes;
    assert_eq!((best.len(), &best[0]), (1, &selection.nodes[0]));
    assert!(registry.select(&query("p", "tts:fr")).await.unwrap().nodes.is_empty());
    assert!(registry.select(&query("nobody-is-in-it", "")).await.unwrap().nodes.is_empty());
    let error = registry.dispatch(&request("s", "ocr", None)).await.unwrap_err();
    assert!(matches!(error, RegistryError::Full { tried: 0, .. }), "{error}");
}

async fn sessions_stay_in_their_pool(mut stage: Stage) {
    let (one, other) = (stage.instance().await, stage.instance().await);
    for (name, pool) in [("a", "pa"), ("b", "pb"), ("c", "pc")] {
        one.register(&speech(name, 100, &[pool])).await.unwrap();
    }
    let mut pools = std::collections::BTreeMap::new();
    for session in (0..30).map(|number| format!("session-{number}")) {
        let job = one.dispatch(&request(&session, "asr", None)).await.unwrap();
        pools.insert(session, job.pool);
    }
    let used: std::collections::BTreeSet<_> = pools.values().collect();
    assert_eq!(used.len(), 3, "sessions are spread");
    one.register(&speech("d", 100, &["pd"])).await.unwrap();
    for (session, pool) in &pools {
        for registry in [&one, &other] {
            let job = registry.dispatch(&request(session, "asr", None)).await.unwrap();
            assert_eq!(job.pool, *pool, "{session}");
        }
    }
    one.remove(&id("a"), None).await.unwrap();
    let (moved, _) = pools.iter().find(|(_, in_pool)| **in_pool == pool("pa")).unwrap();
    let job = one.dispatch(&request(moved, "asr", None)).await.unwrap();
    assert_ne!(job.pool, pool("pa"), "nobody is left there");
    assert_eq!(one.dispatch(&request(moved, "asr", None)).await.unwrap().pool, job.pool);
}
