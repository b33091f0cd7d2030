//! Round trips to Redis, beside a bare one.

use stile_registry::{
    Heartbeat, JobRequest, NodeId, PoolId, Registration, Registry, Requirement, ResourceReport,
    Settings,
};
use testkit::Redis;

use crate::measure::{by_turns, one_by_one};

const TIMES: usize = 5_000;

pub(crate) async fn run() {
    let server = Redis::start().await;
    let mut settings = Settings { key_prefix: "bench".to_owned(), ..Settings::default() };
    settings.redis_timeout = std::time::Duration::from_secs(5);
    let registry = Registry::connect(&server.url(), settings).await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();

    let id = NodeId::new("node").unwrap();
    let mut registration = Registration::new(id.clone(), 1_000_000);
    registration.pools = vec![PoolId::new("p").unwrap()];
    let services = r#"{"asr":["zh","en"],"nmt":["zh","en"],"tts":["zh","en"]}"#;
    registration.services = serde_json::from_str(services).unwrap();
    let node = registry.register(&registration).await.unwrap();
    // The same start again and again, so that its heartbeats go on to count.
    registration.incarnation = Some(node.incarnation);

    // Three rounds, so that a machine that gets busier is seen in all of them alike.
    for _ in 0..3 {
        let usage =
            ResourceReport { max_concurrency: 1_000_000, cpu_usage: 0.5, ..Default::default() };
        let beat = Heartbeat { resources: Some(usage), ..Heartbeat::of(node.incarnation) };
        let [bare, beats] = by_turns(
            TIMES,
            async || {
                let mut connection = connection.clone();
                let _: Option<String> =
                    redis::cmd("GET").arg("nothing").query_async(&mut connection).await.unwrap();
            },
            async || {
                registry.heartbeat(&id, &beat).await.unwrap();
            },
        )
        .await;
        bare.show("redis: a bare round trip (GET)");
        beats.show("redis: heartbeat");
        let number = std::cell::Cell::new(0);
        let news = one_by_one(TIMES, async || {
            number.set(number.get() + 1);
            let services = vec![number.get().to_string()];
            let beat = Heartbeat { installed_services: Some(services), ..beat.clone() };
            registry.heartbeat(&id, &beat).await.unwrap();
        });
        news.await.show("redis: heartbeat with news (script)");
        let reserves = one_by_one(TIMES, async || {
            registry.reserve(&id).await.unwrap().unwrap();
        })
        .await;
        reserves.show("redis: reserve");
        let registers = one_by_one(TIMES, async || {
            registry.register(&registration).await.unwrap();
        });
        registers.await.show("redis: register (script and lists)");
        let request = JobRequest {
            session: "s".to_owned(),
            services: Requirement::list("asr:zh").unwrap(),
            pool: Some(PoolId::new("p").unwrap()),
        };
        let jobs = one_by_one(TIMES, async || {
            let job = registry.dispatch(&request).await.unwrap();
            registry.complete(&job.job_id).await.unwrap();
        });
        jobs.await.show("redis: dispatch and complete");
        let share = |times: &crate::measure::Times| {
            times.median().as_secs_f64() / bare.median().as_secs_f64()
        };
        println!(
            "heartbeat {:.2} of a bare round trip, reserve {:.2}\n",
            share(&beats),
            share(&reserves)
        );
    }
}
