//! One forwarded connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::faults::{Faults, Response};

/// Forwards until either side ends or the proxy has been told to drop the connection. An error on
/// one side closes the other, as there is nobody else to tell.
pub(super) async fn serve(mut client: TcpStream, target: SocketAddr, faults: Arc<Faults>) {
    faults.wait_until_flowing().await;
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    // Held-back bytes would be a delay that is the proxy's alone. Without it, only slower.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = forward(from_client, to_server, &faults, |_| false);
    let mut response = Response::default();
    let responses =
        forward(from_server, to_client, &faults, |chunk| faults.must_drop(&mut response, chunk));
    // Whatever ended it, both sockets close when this returns.
    let _ = tokio::try_join!(requests, responses);
}

/// Passes bytes on in one direction until the sender is done, and then says so to the receiver.
async fn forward(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    faults: &Faults,
    mut must_drop: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        faults.wait_until_flowing().await;
        let chunk = &buffer[..length];
        if must_drop(chunk) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if chunk.is_empty() {
            return to.shutdown().await;
        }
        to.write_all(chunk).await?;
    }
}
