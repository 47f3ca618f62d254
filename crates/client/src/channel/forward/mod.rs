//! Local connections carried over a channel. One side listens on a port and opens a stream for each connection; the
//! other side connects each stream to a server that it can reach.
//!
//! The module does not know how channels are made.

mod http;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sealway_proto::rpc::Hello;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::error::{Error, Stage};
use super::{Channel, Incoming, Stream};

/// Kind of streams that carry a connection.
pub const KIND: &str = "forward";
/// Buffer for each direction of a connection, in bytes.
const BUFFER: usize = 64 * 1024;
/// Longest time for connecting to the server.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Server to which streams are forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Raw bytes, to a host and port.
    Tcp(String),
    /// Requests of HTTP/1.1, to a host and port, with the target as `Host` and without hop-by-hop headers.
    Http(String),
}

impl Target {
    /// Parses `tcp://HOST:PORT` or `http://HOST[:PORT]` into a target.
    ///
    /// # Errors
    /// A sentence that names the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("\"{text}\" is neither tcp://HOST:PORT nor http://HOST[:PORT]");
        let uri: ::http::Uri = text.parse().map_err(|_| bad())?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or_else(bad)?;
        let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        if authority.as_str().contains('@') || !is_bare && uri.scheme_str() == Some("tcp") {
            return Err(bad());
        }
        let place = |port| format!("{}:{port}", authority.host());
        match (uri.scheme_str(), authority.port_u16()) {
            (Some("tcp"), Some(port)) => Ok(Target::Tcp(place(port))),
            (Some("http"), port) if is_bare => Ok(Target::Http(place(port.unwrap_or(80)))),
            _ => Err(bad()),
        }
    }

    async fn serve(&self, stream: Stream) -> Result<(), Error> {
        match self {
            Target::Tcp(place) => carry(connect(place).await?, stream).await,
            Target::Http(place) => http::serve(stream, place).await,
        }
    }
}

/// Forwards streams of a channel to a target until the channel is over, and returns the reason. A stream of another
/// kind is reset. `failed` is called for connections that could not be made.
pub async fn serve(channel: &Channel, target: &Target, failed: impl Fn(&Error) + Send + Sync + 'static) -> Error {
    let (target, failed) = (Arc::new(target.clone()), Arc::new(failed));
    while let Some(Incoming { hello, stream }) = channel.accept().await {
        if hello.kind != KIND {
            let text = format!("a stream is for \"{}\", and only \"{KIND}\" is served here", hello.kind.escape_debug());
            failed(&Error::new(Stage::Stream, "kind_unknown", text));
            continue;
        }
        let (target, failed) = (target.clone(), failed.clone());
        tokio::spawn(async move {
            if let Err(err) = target.serve(stream).await {
                failed(&err);
            }
        });
    }
    channel.over().await
}

/// Opens a stream of the kind [`KIND`].
pub(super) async fn open(channel: &Channel) -> Result<Stream, Error> {
    let hello = Hello::new(KIND).map_err(|err| Error::new(Stage::Stream, "hello_invalid", err.to_string()))?;
    channel.open(&hello).await
}

/// Carries one local connection over its own stream.
///
/// # Errors
/// The reason why there is no stream, or why it broke off.
pub async fn carry_over(channel: &Channel, local: TcpStream) -> Result<(), Error> {
    match open(channel).await {
        Ok(stream) => carry(local, stream).await,
        Err(err) => {
            reset(local);
            Err(err)
        }
    }
}

/// Joins a stream with an input and an output. It returns once both directions are finished; with `is_input_awaited`
/// false, once the peer has finished.
///
/// # Errors
/// The reason why one of the two broke off.
pub async fn join(
    stream: Stream,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    is_input_awaited: bool,
) -> Result<(), Error> {
    let (mut from_peer, mut to_peer) = tokio::io::split(stream);
    let mut sending = std::pin::pin!(async {
        tokio::io::copy(&mut input, &mut to_peer).await?;
        to_peer.shutdown().await
    });
    let mut receiving = std::pin::pin!(async {
        tokio::io::copy(&mut from_peer, &mut output).await?;
        output.flush().await
    });
    let (mut is_sent, mut is_received) = (false, false);
    while !(is_received && (is_sent || !is_input_awaited)) {
        let done = tokio::select! {
            sent = &mut sending, if !is_sent => {
                is_sent = true;
                sent
            }
            received = &mut receiving, if !is_received => {
                is_received = true;
                received
            }
        };
        done.map_err(|err| broken(&err))?;
    }
    Ok(())
}

/// Returns the channel's own error inside an I/O error, if there is one.
fn broken(err: &io::Error) -> Error {
    let told = err.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    if let Some(told) = told {
        return told.clone();
    }
    Error::new(Stage::Stream, "broken_off", format!("a connection broke off: {err}"))
}

async fn connect(place: &str) -> Result<TcpStream, Error> {
    let unreachable = |err: io::Error| Error::new(Stage::Listen, "target_unreachable", format!("{place}: {err}"));
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_TIME:?}"));
    let connected = timeout(CONNECT_TIME, TcpStream::connect(place)).await.map_err(late).and_then(|inner| inner);
    connected.map_err(unreachable)
}

/// Copies both ways until both ends are finished: one side's end is passed on while the other direction continues. If
/// one side breaks off, the other is reset: a failure must not look like an orderly end.
pub(super) async fn carry(mut local: TcpStream, mut stream: Stream) -> Result<(), Error> {
    let _ = local.set_nodelay(true);
    let carried = copy_bidirectional_with_sizes(&mut local, &mut stream, BUFFER, BUFFER).await;
    if carried.is_err() {
        reset(local);
    }
    carried.map(|_| ()).map_err(|err| broken(&err))
}

/// Ends a connection with a reset instead of an orderly end.
pub(super) fn reset(local: TcpStream) {
    // If it fails, the connection ends in order; there is no better way.
    let _ = local.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_or_the_reason_says_what_is_expected() {
        assert_eq!(Target::parse("tcp://127.0.0.1:5432"), Ok(Target::Tcp("127.0.0.1:5432".into())));
        assert_eq!(Target::parse("tcp://[::1]:5432"), Ok(Target::Tcp("[::1]:5432".into())));
        assert_eq!(Target::parse("http://localhost"), Ok(Target::Http("localhost:80".into())));
        assert_eq!(Target::parse("http://localhost:8080/"), Ok(Target::Http("localhost:8080".into())));
        for bad in ["", "5432", "tcp://a", "tcp://:1", "tcp://u@a:1", "udp://a:1", "http://a/path", "https://a"] {
            assert!(Target::parse(bad).unwrap_err().contains("tcp://HOST:PORT"), "{bad}");
        }
    }
}
