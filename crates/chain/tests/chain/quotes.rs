//! What endpoints say that the chain asks for.

use std::time::Duration;

use serde_json::json;
use stile_chain::PoolOptions;
use stile_domain::FeeQuote;
use testkit::RpcProxy;

use crate::support::*;

/// A node that asks for this much, if it is one that answers.
async fn asks_for(price: Option<u64>) -> Fake {
    Fake::start(move |method, _| match (method, price) {
        ("eth_gasPrice", Some(price)) => Ok(json!(format!("{price:#x}"))),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await
}

/// Money is spent by it: fewer than a quorum quote nothing.
#[tokio::test]
async fn hole_23_fewer_than_a_quorum_quote_nothing() {
    type Case<'a> = (&'a [Option<u64>], Option<(u64, u64)>);
    let cases: [Case<'_>; 6] = [
        (&[Some(7)], Some((7, 7))),
        (&[Some(7), None], Some((7, 7))),
        (&[Some(7), Some(1)], Some((1, 7))),
        (&[Some(1_000_000), None, None], None),
        (&[Some(1_000_000), Some(7), None], Some((7, 1_000_000))),
        (&[Some(1_000_000), Some(7), Some(8)], Some((8, 8))),
    ];
    for (told, quoted) in cases {
        let mut nodes = Vec::new();
        for price in told {
            nodes.push(asks_for(*price).await);
        }
        let pool = pool(nodes.iter().map(Fake::url));
        let found = pool.fee_quotes().await.map(|quotes| (quotes.offered, quotes.highest));
        let legacy = |price: u64| FeeQuote::Legacy { gas_price: price.into() };
        let expected = quoted.map(|(low, high)| (legacy(low), legacy(high)));
        assert_eq!(found.as_ref().ok(), expected.as_ref(), "{told:?} {found:?}");
    }
}

/// Of two endpoints the one that lies answers at once.
#[tokio::test]
async fn hole_42_the_slower_of_two_endpoints_is_heard_before_money_is_spent() {
    let (liar, honest) = (asks_for(Some(1_000_000)).await, asks_for(Some(7)).await);
    let slow = RpcProxy::start(honest.url()).await;
    slow.delay("eth_gasPrice", Duration::from_secs(1));
    let pool = pool([liar.url().to_owned(), slow.url()]);
    let quotes = pool.fee_quotes().await.unwrap();
    assert_eq!(quotes.offered, FeeQuote::Legacy { gas_price: 7 });
    assert!(!quotes.is_alone, "{quotes:?}");
}

/// Each answer of the honest one comes in time, and all that a quote takes do not come within that time.
///
/// Fails if the quote as a whole has the time of one answer.
#[tokio::test]
async fn hole_42_an_endpoint_is_heard_however_many_slow_answers_its_quote_takes() {
    let (liar, honest) = (asks_for(Some(1_000_000)).await, asks_for(Some(7)).await);
    let slow = RpcProxy::start(honest.url()).await;
    let each = Duration::from_millis(1_200);
    slow.delay("eth_feeHistory", each);
    slow.delay("eth_gasPrice", each);
    let options = PoolOptions { answer_timeout: Duration::from_secs(2), ..Default::default() };
    let pool = pool_with([liar.url().to_owned(), slow.url()], options);
    let quotes = pool.fee_quotes().await.unwrap();
    assert_eq!((quotes.offered, quotes.is_alone), (FeeQuote::Legacy { gas_price: 7 }, false));
}

#[tokio::test]
async fn hole_42_a_word_that_nobody_else_has_is_known_for_one() {
    let (first, second) = (asks_for(Some(9)).await, asks_for(Some(7)).await);
    let silent = RpcProxy::start(second.url()).await;
    silent.hold("eth_gasPrice");
    let options = PoolOptions { answer_timeout: Duration::from_secs(2), ..Default::default() };
    let two = pool_with([first.url().to_owned(), silent.url()], options);
    let quotes = two.fee_quotes().await.unwrap();
    assert_eq!((quotes.offered, quotes.is_alone), (FeeQuote::Legacy { gas_price: 9 }, true));
    let only = pool([first.url()]).fee_quotes().await.unwrap();
    assert!(!only.is_alone, "there is nobody else");
}
