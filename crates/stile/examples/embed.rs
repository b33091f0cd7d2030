use stile::{Address, Payload, Stile, TxRequest, U256};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A development chain, and a key that every one of them has funded.
    let endpoint = std::env::args().nth(1).unwrap_or("http://127.0.0.1:8545".to_owned());
    let key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let directory = tempfile::tempdir()?;
    let database = format!("sqlite://{}", directory.path().join("stile.db").display());

    let stile =
        Stile::builder(database).chain(31337, endpoint).key(key).confirmations(1).start().await?;

    // Once it is taken it lands, whatever happens to this process. Under the same request id it is
    // the same transaction, however often it is handed over.
    let payload = Payload {
        to: Some(Address::repeat_byte(0x77)),
        value: U256::from(1_000_000_000),
        ..Payload::default()
    };
    let request = TxRequest::new(stile.lanes()[0], payload).request_id("invoice-4711");
    let accepted = stile.transactions().send(request).await?;
    println!("{} is taken", accepted.tx.id);

    let tx = stile.wait(accepted.tx.id).await?;
    println!("{} with nonce {:?}: {:#?}", tx.standing.state, tx.nonce, tx.receipt);

    stile.shutdown().await;
    Ok(())
}
