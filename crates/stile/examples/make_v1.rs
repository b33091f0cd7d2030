//! Makes a V1 database to try `stile import-v1` on: signers with nonces in every state, and a development
//! chain (anvil, started with `--no-mining --gas-limit 30000000000`) on which they have sent.
//!
//! ```sh
//! cargo run --example make_v1 -- postgres://user@host/empty_database http://127.0.0.1:8545 100 1000 40
//! ```
//!
//! The numbers: signers, nonces of each, and how many of those are real transactions.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a script")]
#![allow(dead_code, reason = "the tests use more of it")]

#[path = "../tests/import/make.rs"]
mod make;

use make::{Amount, Chain};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, chain, numbers @ ..] = &arguments[..] else {
        println!("usage: make_v1 DATABASE_URL CHAIN_URL [SIGNERS [NONCES [MINED]]]");
        return;
    };
    let number = |place: usize, default: u64| {
        numbers.get(place).map_or(default, |text| text.parse().unwrap())
    };
    let amount = Amount { signers: number(0, 100), nonces: number(1, 1000), mined: number(2, 40) };
    let (client, connection) =
        tokio_postgres::connect(database, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    make::make(&client, &Chain::at(chain), amount).await;
    println!(
        "{} signers with {} nonces each, the chain at {}",
        amount.signers,
        amount.nonces,
        amount.latest()
    );
}
