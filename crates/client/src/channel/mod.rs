//! Channels: two peers, end to end, over a relay that can read nothing, or directly. SPEC channel.md, relay.md, rpc.md
//!
//! ```text
//! Grant -> connect -> Channel -> open / accept -> Stream -> bytes, or Rpc
//! ```
//!
//! * [`attach`], [`connect_direct`], [`accept_direct`] — from a grant to a channel.
//! * [`rpc`] — remote calls on a stream.
//! * [`Grants`], [`keep`], [`reconnect`] — grants from a control plane, and another channel when one ends.
//! * [`mint`] — grants, for whoever holds an issuer's key.
//! * [`forward`] — TCP and HTTP connections carried over a channel.
//!
//! It may not know: how relays are built, who may talk to whom. Bytes of the wires are `sealway_proto`'s.

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

/// How channels are made and kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// How to get to the relay or the peer.
    pub connecting: Connecting,
    /// How long the handshake may take once the peer is there; 10 s unless said.
    pub handshake_timeout: Duration,
    /// How long to wait for the peer to come; until the grant's time to begin is over unless said.
    pub peer_timeout: Option<Duration>,
    /// How it is noticed that the peer is gone.
    pub liveness: Liveness,
    /// This side's static key, for suites that have one.
    pub identity: Option<Identity>,
    /// v1, as client: be connected before the server has proved anything; for servers older than that.
    pub accept_unconfirmed: bool,
    /// Native: records are padded to a multiple of so many bytes; 0 pads nothing.
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

/// How far a connection has come: told in this order, for whoever measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The WebSocket is open.
    Open,
    /// The attach was written; not said where there is no relay.
    Attached,
    /// The peer's first message has come.
    Heard,
    /// The handshake is done.
    Secured,
}

/// A channel: sealed end to end, with streams of both sides on it. It ends when it is dropped, though streams that are open
/// then break off; [`Channel::close`] ends it in order.
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

    /// Opens a stream and says what it is for. Where [`STREAMS_MAX`] of this side are open ([`V1_STREAMS_MAX`] with a peer of v1), it waits
    /// for one to end. The
    /// peer may not have heard of it when this returns: what is written waits for it, within the stream's window.
    ///
    /// # Errors
    /// Why the channel is over.
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

    /// The next stream that the peer opened, with its prologue read; none when the channel is over.
    pub async fn accept(&self) -> Option<Incoming> {
        self.incoming.lock().await.recv().await
    }

    /// Ends the channel in order: the peer hears the code (0 for nothing special) and the reason (at most 123 bytes),
    /// authenticated. A peer of v1 hears the reason alone, which the relay can read. Returns when the peer or the relay has closed
    /// the connection in answer, which is after all that streams had sent; or after 5 s to 10 s in which nothing moves, or 60 s.
    pub async fn close(&self, code: u16, reason: &str) {
        let end = reason.char_indices().map(|(at, sign)| at + sign.len_utf8()).take_while(|end| *end <= REASON_LEN_MAX);
        self.pulse.say(code, reason.get(..end.last().unwrap_or(0)).unwrap_or_default());
        let _ = self.commands.send(Command::Close).await;
        self.over().await;
    }

    /// Waits until the channel is over, and tells why: the code `ended` where one side ended it in order.
    pub async fn over(&self) -> Error {
        let _ = self.over.clone().wait_for(|over| *over).await;
        streams::over(&self.pulse)
    }

    /// This side's end.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Changes the key of this side's records now. The native profile does so by itself.
    pub fn rekey(&self) {
        self.pulse.send(Due::Rekey);
    }

    /// The time of the last round trip that was measured, by pings: to the peer in the native profile, to the next hop in
    /// v1.
    pub fn round_trip(&self) -> Option<Duration> {
        self.pulse.rtt()
    }

    /// Records that came and that were sent.
    pub fn records(&self) -> (u64, u64) {
        self.pulse.records()
    }
}

/// Longest reason of a close, in bytes: what a WebSocket close frame holds.
const REASON_LEN_MAX: usize = 123;
