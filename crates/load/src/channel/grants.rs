//! Grants of channels, from an issuer's key, a file, or a control plane.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sealway_client::channel::Grant;
use sealway_client::channel::mint::{Issuer, encode_pair, pair, parse_pair};
use sealway_runtime::config::read_bounded;
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use super::{ChannelFailure, FailureStage};

/// Upper bound of a file of grants, in bytes.
const FILE_LEN_MAX: u64 = 512 * 1024 * 1024;
/// Upper bound of a control plane's response, in bytes.
const ANSWER_LEN_MAX: usize = 256 * 1024;
/// Default path of a control plane's URL.
const INIT_PATH: &str = "/v1/channel/init";

/// Grants of a channel: the client's and the server's.
pub(crate) type Pair = (Grant, Grant);

/// Source of the grants of a run. Its `Debug` shows no secret.
pub struct Grants {
    source: Source,
    /// Grants that are ready: those of a file, and one that was looked at before the run.
    ready: Mutex<VecDeque<Pair>>,
}

enum Source {
    Issuer(Box<Issuer>),
    File,
    Control { uri: Uri, token: Option<String>, timeout: Duration },
}

impl std::fmt::Debug for Grants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.source {
            Source::Issuer(_) => "Grants(minted)",
            Source::File => "Grants(of a file)",
            Source::Control { .. } => "Grants(of a control plane)",
        })
    }
}

impl Grants {
    /// Creates a source that mints grants with this issuer.
    pub(crate) fn minted(issuer: Issuer) -> Self {
        Grants { source: Source::Issuer(Box::new(issuer)), ready: Mutex::default() }
    }

    /// Reads a file that [`Grants::write`] wrote: a pair a line.
    ///
    /// # Errors
    /// If the file cannot be read or holds no grants, or a line is not a pair; then with its number.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = Zeroizing::new(read_bounded(file, FILE_LEN_MAX).map_err(|err| err.to_string())?);
        let mut pairs = VecDeque::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let pair = parse_pair(line.as_bytes())
                .map_err(|err| format!("{}, line {}: {}", file.display(), index + 1, err.text))?;
            pairs.push_back(pair);
        }
        if pairs.is_empty() {
            return Err(format!("{}: contains no grants", file.display()));
        }
        Ok(Grants { source: Source::File, ready: Mutex::new(pairs) })
    }

    /// Creates a source that asks a control plane over plain HTTP; `token` is sent as a bearer token.
    pub(crate) fn control(uri: Uri, token: Option<String>, timeout: Duration) -> Self {
        Grants { source: Source::Control { uri, token, timeout }, ready: Mutex::default() }
    }

    /// Returns the number of pairs that are left in a file; `None` for a source without a bound.
    pub(crate) fn len(&self) -> Option<usize> {
        matches!(self.source, Source::File).then(|| self.ready.lock().len())
    }

    /// Returns the relay's URL and the suite of the next channel, without taking its grants.
    ///
    /// # Errors
    /// As [`Grants::next`].
    pub(crate) async fn peek(&self) -> Result<(String, u16), ChannelFailure> {
        if self.ready.lock().is_empty() {
            let pair = self.next().await?;
            self.ready.lock().push_front(pair);
        }
        let ready = self.ready.lock();
        let pair = ready
            .front()
            .ok_or_else(|| ChannelFailure::new(FailureStage::ChannelInit, "grants_spent", "there are no grants"))?;
        Ok((pair.0.tunnel_url.clone(), pair.0.default_suite))
    }

    /// Takes the grants of the next channel.
    ///
    /// # Errors
    /// A failure at the stage `channel_init` or `psk_decode`.
    pub(crate) async fn next(&self) -> Result<Pair, ChannelFailure> {
        if let Some(pair) = self.ready.lock().pop_front() {
            return Ok(pair);
        }
        match &self.source {
            Source::Issuer(issuer) => pair(issuer).map_err(|err| of_grant(&err)),
            Source::File => Err(ChannelFailure::new(
                FailureStage::ChannelInit,
                "grants_spent",
                "the file has no more grants; write more with --grants-out",
            )),
            Source::Control { uri, token, timeout } => {
                let asked = tokio::time::timeout(*timeout, ask(uri, token.as_deref())).await;
                let late = || {
                    ChannelFailure::new(
                        FailureStage::ChannelInit,
                        "timeout",
                        format!("no grants arrived within {timeout:?}"),
                    )
                };
                asked.unwrap_or_else(|_| Err(late()))
            }
        }
    }

    /// Writes `count` pairs into a new file that only its owner may read; an existing file is an error.
    ///
    /// # Errors
    /// The failure in words.
    pub(crate) async fn write(&self, file: &Path, count: u64) -> Result<(), String> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let failure = |err: io::Error| format!("{}: {err}", file.display());
        let opened =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failure)?;
        let mut out = io::BufWriter::new(opened);
        for _ in 0..count {
            let (client, server) = self.next().await.map_err(|failure| failure.words)?;
            out.write_all(encode_pair(&client, &server).as_bytes())
                .and_then(|()| out.write_all(b"\n"))
                .map_err(failure)?;
        }
        out.flush().map_err(failure)
    }
}

fn of_grant(err: &sealway_client::channel::Error) -> ChannelFailure {
    let at = if err.code == "psk_invalid" { FailureStage::PskDecode } else { FailureStage::ChannelInit };
    ChannelFailure::of(at, err)
}

async fn ask(uri: &Uri, token: Option<&str>) -> Result<Pair, ChannelFailure> {
    let broken = |code: &str, words: String| ChannelFailure::new(FailureStage::ChannelInit, code, words);
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let gone =
        |err: &dyn std::fmt::Display| broken("connection_lost", format!("the control plane at {authority}: {err}"));
    let tcp = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await.map_err(|err| gone(&err))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await.map_err(|err| gone(&err))?;
    let path = if matches!(uri.path(), "" | "/") { INIT_PATH } else { uri.path() };
    let mut request = Request::builder().method(Method::POST).uri(path).header("host", &authority);
    request = request.header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from_static(b"{}"))).map_err(|err| gone(&err))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|err| gone(&err))?;
        let status = answer.status();
        let body =
            Limited::new(answer.into_body(), ANSWER_LEN_MAX).collect().await.map_err(|err| gone(&err))?.to_bytes();
        Ok((status, body))
    };
    let (status, body) = tokio::select! {
        answered = exchange => answered?,
        // A connection that ends without an error is no failure: the exchange then yields the response or an error of its own.
        Err(err) = connection => return Err(gone(&err)),
    };
    if !status.is_success() {
        let code = if matches!(status.as_u16(), 401 | 403) { "unauthorized" } else { "control_refused" };
        return Err(broken(
            code,
            format!("the control plane at {authority} responded with status {}", status.as_u16()),
        ));
    }
    parse_pair(&body).map_err(|err| of_grant(&err))
}

#[cfg(test)]
mod tests {
    use sealway_client::channel::mint;

    use super::*;

    #[tokio::test]
    async fn grants_that_were_written_are_read_in_their_order_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grants");
        let minted = Grants::minted(
            mint::issuer(mint::draw_key("k").unwrap(), mint::minting("ws://127.0.0.1:9/ws", "", "", 0x100).unwrap())
                .unwrap(),
        );
        assert_eq!(minted.len(), None);
        minted.write(&file, 3).await.unwrap();
        assert!(minted.write(&file, 1).await.is_err(), "a file that is there is not written over");
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let first = Grants::read(&file).unwrap();
        let second = Grants::read(&file).unwrap();
        assert_eq!(first.len(), Some(3));
        assert_eq!(first.peek().await.unwrap(), ("ws://127.0.0.1:9/ws".to_owned(), 0x100));
        for _ in 0..3 {
            assert_eq!(first.next().await.unwrap(), second.next().await.unwrap());
        }
        assert_eq!(first.next().await.unwrap_err().code, "grants_spent");
        assert!(!format!("{first:?}").contains("FST1"));
    }
}
