//! What somebody is told that there is no room for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// So many are told at a time. Each has a file open meanwhile, and there are few left.
const MOST: usize = 64;

/// How long somebody may take to hear it.
const PATIENCE: Duration = Duration::from_secs(1);

const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Tells those that there is no room for, without making room for them.
#[derive(Debug)]
pub(super) struct Farewell {
    places: Arc<Semaphore>,
}

impl Farewell {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST)) }
    }

    /// Says that there is no room, and ends the connection. Where many are told at once, it is only
    /// ended.
    pub(super) fn say(&self, stream: TcpStream, tasks: &TaskTracker, stop: &CancellationToken) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        let stop = stop.clone();
        tasks.spawn(async move {
            let said = stop.run_until_cancelled(tokio::time::timeout(PATIENCE, say(stream)));
            let _ = said.await;
            drop(place);
        });
    }
}

/// A connection that is dropped with something unread is reset, and the last word may be lost. So what
/// the other side has to say is read, and forgotten.
async fn say(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(NO_ROOM).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    /// On one thread, where nobody can have seen yet that the socket can be written to; and to somebody
    /// who has said something that nobody reads.
    #[tokio::test]
    async fn hole_45_whoever_there_is_no_room_for_is_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        caller.write_all(&[b' '; 4096]).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (farewell, tasks, stop) =
            (Farewell::new(), TaskTracker::new(), CancellationToken::new());
        farewell.say(stream, &tasks, &stop);
        let mut heard = Vec::new();
        caller.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, NO_ROOM);
        drop(caller);
        tasks.close();
        tasks.wait().await;
        assert_eq!(farewell.places.available_permits(), MOST);
    }
}
