//! Channels: two peers, end to end, over a relay that can read nothing, or directly. SPEC channel.md, relay.md, rpc.md
//!
//! ```text
//! Grant -> connect -> Channel -> open / accept -> Stream -> bytes, or Rpc
//! ```
//!
//! * [`attach`], [`connect_direct`], [`accept_direct`] — from a grant to a channel.
//! * [`rpc`] — remote calls on a stream.
//! * [`Grants`], [`keep`], [`reconnect`] — grants from a control plane, and reconnection after a channel has ended.
//! * [`mint`] — grants, for holders of an issuer's key.
//! * [`forward`] — TCP and HTTP connections carried over a channel.
//!
//! The module does not know how relays are built, or which peers may connect. The wire formats live in `sealway_proto`.

mod dial;
mod ends;
mod error;
pub mod forward;
mod grants;
mod handshake;
mod identity;
pub mod keep;
pub mod mint;
mod pulse;
pub mod reconnect;
pub mod rpc;
mod secure;
mod socket;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use sealway_proto::channel::{Opener, Sealer};
pub use sealway_proto::crypto::agreement::Curve;
pub use sealway_proto::relay::{DirectInfo, Grant, Role};
pub use sealway_proto::rpc::Hello;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot, watch};

pub use dial::{Instance, accept_direct, attach, attach_on, connect_direct, connect_direct_on};
pub use error::{Error, Stage};
pub use grants::{Control, GrantFile, Grants};
pub use identity::Identity;
use pulse::{Due, Pulse};
use secure::Records;
pub use socket::{Connecting, Io};
use streams::{Command, Opening};
pub use streams::{Incoming, Liveness, STREAMS_MAX, Stream, V1_STREAMS_MAX};

/// Options for connecting and keeping channels.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options of the connection to the relay or the peer.
    pub connecting: Connecting,
    /// Longest handshake once the peer is connected. Default 10 s.
    pub handshake_timeout: Duration,
    /// Longest wait for the peer to connect. Default: until the grant's time to begin is over.
    pub peer_timeout: Option<Duration>,
    /// Detection of a peer that has gone silent.
    pub liveness: Liveness,
    /// Static key of this side, for suites that have one.
    pub identity: Option<Identity>,
    /// v1, as client: report the channel as connected before the server has proven its key; for servers of older
    /// releases.
    pub accept_unconfirmed: bool,
    /// Native: records are padded to a multiple of this many bytes; 0 disables padding.
    pub pad_to: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connecting: Connecting::default(),
            handshake_timeout: Duration::from_secs(10),
            peer_timeout: None,
            liveness: Liveness::default(),
            identity: None,
            accept_unconfirmed: false,
            pad_to: 0,
        }
    }
}

/// Steps of a connection, reported in this order for measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The WebSocket connection is open.
    Open,
    /// The attach message was sent; not reported without a relay.
    Attached,
    /// The peer's first message has arrived.
    Heard,
    /// The handshake is complete on this side.
    Secured,
}

/// A sealed channel between two peers, with streams opened by both. [`Channel::close`] ends it in order; dropping it
/// ends it too, but breaks off its open streams.
pub struct Channel {
    commands: mpsc::Sender<Command>,
    incoming: Mutex<mpsc::Receiver<Incoming>>,
    over: watch::Receiver<bool>,
    places: Arc<Semaphore>,
    pulse: Arc<Pulse>,
    role: Role,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel(over {})", *self.over.borrow())
    }
}

impl Channel {
    fn start(socket: socket::Socket, keys: (Sealer, Opener), role: Role, is_native: bool, liveness: Liveness) -> Self {
        let pulse = Arc::new(Pulse::new());
        let records = Records::new(socket, keys, pulse.clone(), is_native);
        let ends = streams::start(records, role == Role::Client, pulse.clone(), liveness);
        Channel {
            commands: ends.commands,
            incoming: Mutex::new(ends.incoming),
            over: ends.over,
            places: Arc::new(Semaphore::new(streams::streams_max(is_native))),
            pulse,
            role,
        }
    }

    /// Opens a stream and sends its purpose. If [`STREAMS_MAX`] streams of this side are open ([`V1_STREAMS_MAX`] with
    /// a peer of v1), it waits until one has ended. The peer may not have received the stream when this returns:
    /// written bytes wait for it, within the stream's window.
    ///
    /// # Errors
    /// The reason why the channel is over.
    pub async fn open(&self, hello: &Hello) -> Result<Stream, Error> {
        let mut stream = self.open_unsaid().await?;
        let mut said = Vec::new();
        hello.append(&mut said).map_err(|err| Error::new(Stage::Stream, "hello_invalid", err.to_string()))?;
        stream.write_all(&said).await.map_err(|_| streams::over(&self.pulse))?;
        Ok(stream)
    }

    async fn open_unsaid(&self) -> Result<Stream, Error> {
        let over = || streams::over(&self.pulse);
        let place = self.places.clone().acquire_owned().await.map_err(|_| over())?;
        let (answer, opened) = oneshot::channel();
        self.commands.send(Command::Open(Opening { answer, place })).await.map_err(|_| over())?;
        opened.await.map_err(|_| over())?
    }

    /// Returns the next stream that the peer opened, with its prologue read; `None` once the channel is over.
    pub async fn accept(&self) -> Option<Incoming> {
        self.incoming.lock().await.recv().await
    }

    /// Ends the channel in order: the peer receives the code (0 for nothing special) and the reason (at most 123
    /// bytes), authenticated. A peer of v1 receives only the reason, which the relay can read. Returns when the peer or
    /// the relay has closed the connection in answer, after all data of the streams; or after 5 s to 10 s without
    /// progress, or after 60 s.
    pub async fn close(&self, code: u16, reason: &str) {
        let end = reason.char_indices().map(|(at, sign)| at + sign.len_utf8()).take_while(|end| *end <= REASON_LEN_MAX);
        self.pulse.say(code, reason.get(..end.last().unwrap_or(0)).unwrap_or_default());
        let _ = self.commands.send(Command::Close).await;
        self.over().await;
    }

    /// Waits until the channel is over, and returns the reason: the code `ended` if one side ended it in order.
    pub async fn over(&self) -> Error {
        let _ = self.over.clone().wait_for(|over| *over).await;
        streams::over(&self.pulse)
    }

    /// Role of this side: client or server.
    pub fn role(&self) -> Role {
        self.role
    }

    /// True once the channel is over.
    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Changes the key of this side's records now. The native profile also does so by itself.
    pub fn rekey(&self) {
        self.pulse.send(Due::Rekey);
    }

    /// Last round trip measured by pings: to the peer in the native profile, to the next hop in v1. `None` before the
    /// first.
    pub fn round_trip(&self) -> Option<Duration> {
        self.pulse.rtt()
    }

    /// Numbers of records received and sent.
    pub fn records(&self) -> (u64, u64) {
        self.pulse.records()
    }
}

/// Longest reason of a close, in bytes: the bound of a WebSocket close frame.
const REASON_LEN_MAX: usize = 123;
