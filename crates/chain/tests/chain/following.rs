//! Which endpoint is followed, and which ones are believed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use stile_chain::{ChainPool, PoolOptions, SendClass};
use stile_domain::{B256, HeaderWindow, Verdict, Votes};
use testkit::{Anvil, AnvilOptions, RpcProxy, TcpProxy, eventually};

use crate::support::*;

/// A pool that gives up on silent endpoints soon.
fn impatient<const N: usize>(urls: [String; N]) -> Arc<ChainPool> {
    let answer_timeout = Duration::from_millis(2500);
    pool_with(urls, PoolOptions { answer_timeout, ..PoolOptions::default() })
}

fn url_of(proxy: &TcpProxy) -> String {
    format!("http://{}", proxy.addr())
}

async fn followed(pool: &ChainPool) -> Option<String> {
    Some(pool.view().await.ok()?.endpoint().to_owned())
}

async fn until_followed(pool: &ChainPool, endpoint: &str) {
    eventually("the endpoint to be followed", async || {
        (followed(pool).await? == endpoint).then_some(())
    })
    .await;
}

async fn until_usable(pool: &ChainPool, place: usize, usable: bool) {
    eventually("the endpoint to be taken in or set aside", async || {
        let _ = pool.view().await;
        (pool.endpoints()[place].usable == usable).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_endpoint_is_followed_until_it_fails_and_not_left_when_the_other_comes_back() {
    let (first, second) = (anvil().await, anvil().await);
    let proxies = [
        TcpProxy::start(address_of(first.url())).await,
        TcpProxy::start(address_of(second.url())).await,
    ];
    let pool = impatient([url_of(&proxies[0]), url_of(&proxies[1])]);
    let shown = [proxies[0].addr().to_string(), proxies[1].addr().to_string()];
    assert_eq!(followed(&pool).await.as_ref(), Some(&shown[0]));
    // Two blocks ahead is no reason to change.
    second.mine(2).await;
    for _ in 0..5 {
        assert_eq!(followed(&pool).await.as_ref(), Some(&shown[0]));
    }
    proxies[0].cut().await;
    until_followed(&pool, &shown[1]).await;
    assert!(!pool.endpoints()[0].usable);
    assert_eq!(pool.endpoints()[0].why.as_deref(), Some("cannot be reached"));
    proxies[0].heal().await;
    until_usable(&pool, 0, true).await;
    assert_eq!(followed(&pool).await.as_ref(), Some(&shown[1]), "it stays with what works");
    // Silence is as bad as refusal.
    proxies[1].freeze();
    until_followed(&pool, &shown[0]).await;
    assert!(pool.endpoints()[1].why.as_deref().unwrap().starts_with("no answer in"));
    proxies[1].heal().await;
    until_usable(&pool, 1, true).await;
    // With nobody there it is an error, and never a panic.
    proxies[0].cut().await;
    proxies[1].cut().await;
    eventually("the chain to be out of reach", async || pool.view().await.err()).await;
    let error = eventually("the chain to be out of reach", async || pool.view().await.err()).await;
    assert!(error.to_string().contains(&shown[0]), "{error}");
    proxies[1].heal().await;
    until_followed(&pool, &shown[1]).await;
}

/// While one endpoint hangs, the other is followed without waiting for the first each time.
#[tokio::test]
async fn a_hanging_endpoint_is_waited_for_once() {
    let (first, second) = (anvil().await, anvil().await);
    let proxy = TcpProxy::start(address_of(second.url())).await;
    // Longer than the test waits for anything: had a look to wait for it, the test would fail.
    let answer_timeout = Duration::from_secs(2);
    let options = PoolOptions { answer_timeout, ..PoolOptions::default() };
    let pool = pool_with([first.url().to_owned(), url_of(&proxy)], options);
    pool.view().await.unwrap();
    proxy.freeze();
    until_usable(&pool, 1, false).await;
    let looks = async {
        for _ in 0..200 {
            pool.view().await.unwrap();
        }
    };
    tokio::time::timeout(testkit::DEADLINE, looks).await.expect("two hundred looks, not waits");
}

#[tokio::test]
async fn an_endpoint_that_stays_behind_is_set_aside_until_it_catches_up() {
    let (first, second) = (anvil().await, anvil().await);
    let pool = pool([first.url(), second.url()]);
    assert_eq!(followed(&pool).await, Some(shown(first.url())));
    second.mine(3).await;
    until_followed(&pool, &shown(second.url())).await;
    assert!(!pool.endpoints()[0].usable);
    assert_eq!(pool.endpoints()[0].why.as_deref(), Some("lags behind the other endpoints"));
    assert_eq!(pool.endpoints()[0].head, Some(0));
    first.mine(2).await;
    until_usable(&pool, 0, true).await;
    assert_eq!(followed(&pool).await, Some(shown(second.url())));
}

#[tokio::test]
async fn an_endpoint_of_another_chain_is_never_used() {
    let other = Anvil::start(AnvilOptions { chain_id: 5, ..AnvilOptions::default() }).await;
    let right = anvil().await;
    let both = pool([other.url(), right.url()]);
    assert_eq!(followed(&both).await, Some(shown(right.url())));
    assert_eq!(both.endpoints()[0].why.as_deref(), Some("serves chain 5, not 31337"));
    let answer = both.send_raw(&[signed(0).raw]).await.remove(0);
    assert_eq!(answer.said.len(), 1, "{answer:?}");
    let head = *both.view().await.unwrap().head();
    assert_eq!(
        both.votes(head.height, head.hash).await,
        Votes { agree: 1, disagree: 0, silent: 1 }
    );
    let alone = pool([other.url()]);
    let error = alone.view().await.unwrap_err().to_string();
    assert!(error.contains("serves chain 5, not 31337"), "{error}");
}

#[tokio::test]
async fn endpoints_vote_on_a_block() {
    let (first, second, third) = (anvil().await, anvil().await, anvil().await);
    let pool = pool([first.url(), second.url(), third.url()]);
    let genesis = *pool.view().await.unwrap().head();
    assert_eq!(genesis.height, 0);
    // anvil's genesis has the time it was started at, so these may be three chains from the start.
    first.mine(2).await;
    second.rpc("evm_setNextBlockTimestamp", serde_json::json!([4_000_000_000u64])).await;
    second.mine(2).await;
    let view = pool.view().await.unwrap();
    assert_eq!(view.endpoint(), shown(first.url()));
    let hash = view.head().hash;
    let votes = pool.votes(2, hash).await;
    assert_eq!(votes, Votes { agree: 1, disagree: 1, silent: 1 }, "the third has not come so far");
    assert_eq!(pool.quorum().verdict(votes), Verdict::Contradicted);
    let nobody = Votes { agree: 0, disagree: 0, silent: 3 };
    assert_eq!(pool.votes(9, hash).await, nobody);
}

/// An endpoint that lies with its head, and a load balancer: neither makes others look late, and
/// both are named.
#[tokio::test]
async fn hole_23_a_leap_that_nobody_confirms_is_not_followed() {
    let anvil = anvil().await;
    anvil.mine(5).await;
    let liar = RpcProxy::start(anvil.url()).await;
    let pool = pool([liar.url(), anvil.url().to_owned(), anvil.url().to_owned()]);
    assert_eq!(followed(&pool).await, Some(shown(&liar.url())));
    liar.lie("eth_blockNumber", |_, _| Some(json!("0x3ed")));
    liar.lie("eth_getBlockByNumber", |params, _| (params[0] == "latest").then(|| block(1005)));
    until_usable(&pool, 0, false).await;
    for _ in 0..5 {
        assert_eq!(followed(&pool).await, Some(shown(anvil.url())));
    }
    let status = &pool.endpoints()[0];
    let words = "claims block 1005, which no other endpoint has";
    assert_eq!(
        (status.why.as_deref(), status.contradiction.as_deref()),
        (Some(words), Some(words))
    );
    assert!(pool.endpoints()[1..].iter().all(|status| status.usable));
    // It votes at the heights it has.
    let head = *pool.view().await.unwrap().head();
    let all = Votes { agree: 3, disagree: 0, silent: 0 };
    assert_eq!(pool.votes(head.height, head.hash).await, all);
}

#[tokio::test]
async fn hole_23_an_endpoint_that_is_behind_votes_at_the_heights_it_has() {
    let anvil = anvil().await;
    anvil.mine(20).await;
    let slow = RpcProxy::start(anvil.url()).await;
    slow.lie("eth_blockNumber", |_, _| Some(json!("0xa")));
    slow.lie("eth_getBlockByNumber", |params, _| {
        let height = u64::from_str_radix(params[0].as_str()?.strip_prefix("0x")?, 16).ok()?;
        (height > 10).then_some(json!(null))
    });
    let pool = pool([anvil.url().to_owned(), anvil.url().to_owned(), slow.url()]);
    until_usable(&pool, 2, false).await;
    let vote = async |height| {
        let hash = pool.view().await.unwrap().headers(&[height]).await.unwrap()[0].unwrap().hash;
        pool.votes(height, hash).await
    };
    assert_eq!(vote(10).await, Votes { agree: 3, disagree: 0, silent: 0 });
    assert_eq!(vote(11).await, Votes { agree: 2, disagree: 0, silent: 1 });
}

#[tokio::test]
async fn hole_24_a_head_that_goes_back_and_forth_is_set_aside() {
    let anvil = anvil().await;
    anvil.mine(20).await;
    let balancer = RpcProxy::start(anvil.url()).await;
    let pool = pool([anvil.url().to_owned(), balancer.url()]);
    pool.view().await.unwrap();
    let turn = AtomicU64::new(0);
    balancer.lie("eth_blockNumber", move |_, _| {
        // It is level every other time, so that it never lags for long.
        let back = turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        back.then(|| json!("0xc"))
    });
    let words = "its head goes back and forth: 12 after 20";
    eventually("the load balancer to be set aside", async || {
        let _ = pool.view().await;
        (pool.endpoints()[1].why.as_deref() == Some(words)).then_some(())
    })
    .await;
    assert!(pool.endpoints()[0].usable);
}

/// Fails if nothing can be asked any more where every endpoint is a load balancer.
#[tokio::test]
async fn hole_24_where_all_heads_go_back_and_forth_one_is_followed_all_the_same() {
    let anvil = anvil().await;
    anvil.mine(20).await;
    let older = anvil.block(12).await.unwrap();
    let balancers = [RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await];
    for balancer in &balancers {
        let turn = Arc::new(AtomicU64::new(0));
        let is_back = move || !turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let (first, second, older) = (is_back.clone(), is_back, older.clone());
        balancer.lie("eth_blockNumber", move |_, _| first().then(|| json!("0xc")));
        balancer.lie("eth_getBlockByNumber", move |params, _| {
            (params[0] == "latest" && second()).then(|| older.clone())
        });
    }
    let pool = pool(balancers.each_ref().map(RpcProxy::url));
    let is_named = || {
        let all = pool.endpoints();
        all.iter().all(|status| status.contradiction.is_some())
    };
    eventually("both heads to have gone back many times", async || {
        pool.view().await.unwrap();
        is_named().then_some(())
    })
    .await;
    for _ in 0..5 {
        pool.view().await.unwrap();
        let usable = pool.endpoints().iter().filter(|status| status.usable).count();
        assert!(usable > 0, "{:?}", pool.endpoints());
    }
}

/// A node at this height, which calls this block finalized and takes every transaction.
async fn node_at(height: u64, finalized: u64) -> Fake {
    Fake::start(move |method, params| match (method, params[0].as_str()) {
        ("eth_getBlockByNumber", Some("safe" | "finalized")) => Ok(block(finalized)),
        ("eth_getTransactionByHash", _) => Ok(json!(null)),
        ("eth_sendRawTransaction", Some(raw)) => {
            let raw: stile_domain::Bytes = raw.parse().unwrap();
            Ok(json!(alloy::primitives::keccak256(&raw)))
        }
        _ => look(method, height).ok_or_else(not_found),
    })
    .await
}

/// Of two, one that shows a few blocks more makes the other one late, and nothing else.
#[tokio::test]
async fn hole_23_of_two_being_ahead_silences_nobody() {
    let (honest, liar) = (node_at(10, 4).await, node_at(13, 10).await);
    let pool = pool([honest.url(), liar.url()]);
    until_usable(&pool, 0, false).await;
    assert_eq!(followed(&pool).await, Some(shown(liar.url())));
    // What it calls finalized counts.
    let heads = pool.heads(13, &HeaderWindow::default(), true).await;
    assert_eq!((heads.safe, heads.finalized), (Some(4), Some(4)));
    // It is sent to, and asked what it knows.
    let tx = signed(0);
    let said = pool.send_to(0, std::slice::from_ref(&tx.raw)).await.unwrap().remove(0);
    assert_eq!((said.class, said.stands_still), (SendClass::Accepted, false), "{said:?}");
    assert_eq!(pool.known_by_each(&[tx.hash]).await, [Some(vec![false]), Some(vec![false])]);
    assert!(!pool.endpoints()[0].usable, "{:?}", pool.endpoints());
}

/// Whoever is to be followed next must have what is known, or a quorum must agree to what it has.
#[tokio::test]
async fn hole_23_an_endpoint_on_a_fork_of_its_own_is_not_followed() {
    let anvil = anvil().await;
    anvil.mine(5).await;
    let proxies = [RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await];
    let urls = [proxies[0].url(), proxies[1].url(), anvil.url().to_owned()];
    let pool = impatient(urls);
    let head = *pool.view().await.unwrap().head();
    pool.set_known(HeaderWindow::new(8, [head]));
    proxies[1].lie("eth_getBlockByNumber", |params, told| {
        let mut forged = (params[0] == "0x5" || params[0] == "latest").then(|| told.clone())?;
        forged["hash"] = json!(format!("0x{:064x}", 0xbad));
        Some(forged)
    });
    proxies[0].refuse().await;
    until_followed(&pool, &shown(anvil.url())).await;
    // The third one goes as well: then nobody confirms the fork.
    let alone = impatient([proxies[0].url(), proxies[1].url(), "http://127.0.0.1:1".to_owned()]);
    alone.set_known(HeaderWindow::new(8, [head]));
    let error = eventually("nobody to be followed", async || alone.view().await.err()).await;
    let words = format!("as block 5, where {} is known", head.hash);
    assert!(error.to_string().contains(&words), "{error}");
}

/// What is known, with another newest block than the chain has.
async fn with_another_tip(
    pool: &ChainPool,
    heights: std::ops::RangeInclusive<u64>,
) -> HeaderWindow {
    let heights: Vec<u64> = heights.collect();
    let headers = pool.view().await.unwrap().headers(&heights).await.unwrap();
    let mut headers: Vec<_> = headers.into_iter().flatten().collect();
    headers.last_mut().unwrap().hash = B256::repeat_byte(0xad);
    HeaderWindow::new(8, headers)
}

/// The endpoint that was followed went away with a newest block that did not last. Nobody is left who
/// has it: whoever links to what is below goes on, and what replaces known blocks is not for the pool
/// to believe.
#[tokio::test]
async fn hole_23_whoever_has_replaced_the_newest_block_is_asked_meanwhile() {
    let anvil = anvil().await;
    anvil.mine(8).await;
    let proxies = [RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await];
    let urls = [proxies[0].url(), proxies[1].url(), "http://127.0.0.1:1".to_owned()];
    let pool = impatient(urls);
    let known = with_another_tip(&pool, 3..=6).await;
    pool.set_known(known.clone());
    proxies[0].refuse().await;
    // Two blocks ahead of what is known, and the only one of three: too few to agree to anything.
    until_followed(&pool, &shown(&proxies[1].url())).await;
    assert!(pool.endpoints()[1].usable, "{:?}", pool.endpoints()[1]);
    // One that has another block wherever one is known does not lead.
    let strangers = HeaderWindow::new(
        8,
        known.from(0).map(|header| stile_domain::Header {
            hash: B256::with_last_byte(header.height as u8),
            parent: B256::with_last_byte(header.height as u8 - 1),
            ..*header
        }),
    );
    assert_eq!(strangers.bottom(), Some(3));
    pool.set_known(strangers);
    let error = eventually("nobody to be followed", async || pool.view().await.err()).await;
    assert!(error.to_string().contains("as block 6, where"), "{error}");
}

/// A liar that replaced the newest block, and is ahead, leads only while nobody has what is known.
#[tokio::test]
async fn hole_23_whoever_has_what_is_known_leads_whoever_is_bolder() {
    let anvil = anvil().await;
    anvil.mine(5).await;
    let start = || RpcProxy::start(anvil.url());
    let [gone, liar, honest] = [start().await, start().await, start().await];
    let pool = impatient([gone.url(), liar.url(), honest.url()]);
    let known = pool.view().await.unwrap().headers(&[3, 4, 5]).await.unwrap();
    pool.set_known(HeaderWindow::new(8, known.into_iter().flatten()));
    liar.lie("eth_blockNumber", |_, _| Some(json!("0x8")));
    liar.lie("eth_getBlockByNumber", |params, _| match params[0].as_str()? {
        "latest" => Some(block(8)),
        "0x5" => Some(block(5)),
        _ => None,
    });
    gone.refuse().await;
    until_followed(&pool, &shown(&honest.url())).await;
    for _ in 0..5 {
        assert_eq!(followed(&pool).await, Some(shown(&honest.url())));
    }
    honest.refuse().await;
    until_followed(&pool, &shown(&liar.url())).await;
    honest.heal().await;
    until_followed(&pool, &shown(&honest.url())).await;
    // Ahead by a few blocks of what is known is where a new one usually is.
    honest.refuse().await;
    gone.heal().await;
    anvil.mine(2).await;
    until_followed(&pool, &shown(&gone.url())).await;
}
