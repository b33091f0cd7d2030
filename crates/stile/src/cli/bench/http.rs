//! One connection, kept open: as little as a caller can do, so that what is measured is the server.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Failure;

#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // Its end shows as the failure of the next call.
            let _ = connection.await;
        });
        Ok(Self { sender, host: address.to_string() })
    }

    pub(super) async fn post(
        &mut self,
        path: &str,
        json: String,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let request = match json.as_str() {
            "" => Request::post(path),
            _ => Request::post(path).header(CONTENT_TYPE, "application/json"),
        };
        self.call(request, json).await
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes), Failure> {
        self.call(Request::get(path), String::new()).await
    }

    async fn call(
        &mut self,
        request: hyper::http::request::Builder,
        body: String,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let request = request.header(HOST, &self.host).body(Full::from(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}
