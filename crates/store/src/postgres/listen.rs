//! Hearing what nodes tell each other.
//!
//! One connection of its own, past any pooler: a pooler in transaction mode hands a session to
//! others, and what it listened for with it. While it is away nothing is heard, and that is said.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, stream};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{connect, news};
use crate::{Heard, StoreError};

/// How much may wait to be taken up before the connection is no longer read.
const WAITING: usize = 1024;

/// How long a broken connection is left alone at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often a quiet connection is asked whether it is there still.
const CHECK: Duration = Duration::from_secs(10);

/// Listens for as long as somebody hears.
pub(super) fn start(config: Config) -> mpsc::Receiver<Heard> {
    let (ears, heard) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let mut pause = Duration::from_millis(100);
        while !ears.is_closed() {
            let listens = AssertUnwindSafe(listen(&config, &ears, &mut pause)).catch_unwind();
            match listens.await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::debug!(%error, "notifications are not heard"),
                // It begins anew with a connection of its own, and nothing else is kept.
                Err(_) => tracing::error!("listening has panicked; it begins anew"),
            }
            if ears.send(Heard::Deaf).await.is_err() {
                return;
            }
            tokio::select! {
                () = ears.closed() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    });
    heard
}

/// `Ok` once nobody hears any more.
async fn listen(
    config: &Config,
    ears: &mpsc::Sender<Heard>,
    pause: &mut Duration,
) -> Result<(), StoreError> {
    let tls = MakeRustlsConnect::new(connect::tls()?);
    let (client, mut connection) = config.connect(tls).await?;
    let messages = stream::poll_fn(move |context| connection.poll_message(context));
    let mut messages = std::pin::pin!(messages);
    // The connection only moves while its messages are asked for.
    while_driven(&mut messages, ears, client.batch_execute("LISTEN stile")).await??;
    if ears.send(Heard::Listening).await.is_err() {
        return Ok(());
    }
    *pause = Duration::from_millis(100);
    loop {
        tokio::select! {
            () = ears.closed() => return Ok(()),
            message = messages.next() => hear(message, ears).await?,
            () = tokio::time::sleep(CHECK) => {
                let check = tokio::time::timeout(CHECK, client.batch_execute(""));
                let answered = while_driven(&mut messages, ears, check).await?;
                answered.map_err(|_| StoreError::Unavailable("no answer".into()))??;
            }
        }
    }
}

/// Waits for an answer on a connection, and hears what comes meanwhile.
async fn while_driven<T>(
    messages: &mut (impl Stream<Item = Result<AsyncMessage, Error>> + Unpin),
    ears: &mpsc::Sender<Heard>,
    answer: impl Future<Output = T>,
) -> Result<T, StoreError> {
    let mut answer = std::pin::pin!(answer);
    loop {
        tokio::select! {
            answer = &mut answer => return Ok(answer),
            message = messages.next() => hear(message, ears).await?,
        }
    }
}

async fn hear(
    message: Option<Result<AsyncMessage, Error>>,
    ears: &mpsc::Sender<Heard>,
) -> Result<(), StoreError> {
    match message {
        None => Err(StoreError::Unavailable("the connection was closed".into())),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(AsyncMessage::Notification(told))) => {
            let news = news::read(told.payload());
            if !news.is_empty() {
                // Nobody may be there any more, which the caller notices.
                let _ = ears.send(Heard::News(news)).await;
            }
            Ok(())
        }
        Some(Ok(_)) => Ok(()),
    }
}
