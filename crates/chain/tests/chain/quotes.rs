//! What endpoints say that the chain asks for.

use serde_json::json;
use stile_domain::FeeQuote;

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
