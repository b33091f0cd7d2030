//! One connection, kept open: as little as a caller can do, so that what is measured is the server.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Failure;

#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    key: Option<HeaderValue>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        Self::over(TcpStream::connect(address).await?, address).await
    }

    /// Over a connection that there is already.
    pub(super) async fn over(stream: TcpStream, address: SocketAddr) -> Result<Self, Failure> {
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // Its end shows as the failure of the next call.
            let _ = connection.await;
        });
        Ok(Self { sender, host: address.to_string(), key: None })
    }

    /// Sends this API key with every call from now on.
    pub(super) fn use_key(&mut self, token: &str) -> Result<(), Failure> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
        value.set_sensitive(true);
        self.key = Some(value);
        Ok(())
    }

    pub(super) async fn post(
        &mut self,
        path: &str,
        json: String,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
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
        let mut request = request.header(HOST, &self.host).body(Full::from(body))?;
        if let Some(key) = &self.key {
            request.headers_mut().insert(AUTHORIZATION, key.clone());
        }
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}
