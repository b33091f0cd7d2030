use stile::{Address, B256, ChainId, HandlerError, Lane, Sent, Stile};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let database = format!("sqlite://{}", directory.path().join("nonces.db").display());
    let stile = Stile::builder(database).start().await?;
    let nonces = stile.nonces();
    let lane = Lane::new(ChainId::new(31337)?, Address::repeat_byte(0x11));

    // In three steps: take a nonce, send with it, say what became of it.
    let hold = nonces.allocate(lane).await?;
    nonces.mark_used(&hold, B256::repeat_byte(0xaa)).await?;

    // In one: the handler's result says what became of it.
    let sent = nonces
        .with_nonce(lane, |hold| async move {
            println!("sign and send with nonce {}", hold.nonce);
            Ok::<_, HandlerError<std::io::Error>>(Sent::new(B256::repeat_byte(0xbb)))
        })
        .await?;
    println!("sent {}", sent.tx_hash);

    stile.shutdown().await;
    Ok(())
}
