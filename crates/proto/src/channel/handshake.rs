//! The handshake, one interface over both profiles and both sides: messages in, messages out, and records at the end.

use alloc::vec::Vec;
use core::fmt;

use crate::channel::noise::handshake::Noise;
use crate::channel::record::{Opener, Sealer};
use crate::channel::settings::{ChannelSettings, HandshakeRandoms};
use crate::channel::v1::client::V1Client;
use crate::channel::v1::server::V1Server;
use crate::channel::{ChannelError, Suite};
use crate::crypto::agreement::AgreementProvider;

/// A handshake in progress. Any error ends it: create a new one on a new connection.
pub struct Handshake(State);

enum State {
    V1Client(V1Client),
    V1Server(V1Server),
    Native(Noise),
    Over,
}

/// The next step after a message of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing to send: wait for the next message.
    Wait,
    /// Send this message, then wait.
    Send(Vec<u8>),
    /// Send this message; then this side may report that it is connected.
    SendThenDone(Vec<u8>),
    /// This side may report that it is connected: the peer has proved that it holds the keys.
    Done,
}

impl Handshake {
    /// Begins as the client. Returns the first message too, which the caller sends.
    ///
    /// # Errors
    /// [`ChannelError::SettingInvalid`], [`ChannelError::InitExpired`], [`ChannelError::AgreementProvider`].
    pub fn client(
        settings: ChannelSettings,
        provider: &'static dyn AgreementProvider,
        randoms: HandshakeRandoms,
        now_s: u64,
    ) -> Result<(Handshake, Vec<u8>), ChannelError> {
        settings.check()?;
        if now_s > settings.init_expires_s.saturating_add(settings.skew_s) {
            return Err(ChannelError::InitExpired);
        }
        match settings.suite {
            Suite::V1(curve) => {
                let (client, init) = V1Client::begin(settings, curve, provider, &randoms)?;
                Ok((Handshake(State::V1Client(client)), init))
            }
            Suite::Native(suite) => {
                let (client, first) = Noise::client(settings, suite, provider, randoms)?;
                Ok((Handshake(State::Native(client)), first))
            }
        }
    }

    /// Begins as the server, which waits for the client's first message.
    ///
    /// # Errors
    /// [`ChannelError::SettingInvalid`], [`ChannelError::AgreementProvider`].
    pub fn server(
        settings: ChannelSettings,
        provider: &'static dyn AgreementProvider,
        randoms: HandshakeRandoms,
    ) -> Result<Handshake, ChannelError> {
        settings.check()?;
        match settings.suite {
            Suite::V1(curve) => Ok(Handshake(State::V1Server(V1Server::begin(settings, curve, provider, randoms)))),
            Suite::Native(suite) => Ok(Handshake(State::Native(Noise::server(settings, suite, provider, randoms)?))),
        }
    }

    /// Reads one BINARY message of the peer.
    ///
    /// # Errors
    /// The defect of the message. Each is fatal: close the connection; the handshake reads nothing more.
    pub fn read(&mut self, message: &[u8], now_s: u64) -> Result<Progress, ChannelError> {
        // Moved out, so that an error leaves no state that could continue.
        let (state, progress) = match core::mem::replace(&mut self.0, State::Over) {
            State::V1Client(client) => {
                let (client, progress) = client.read(message, now_s)?;
                (State::V1Client(client), progress)
            }
            State::V1Server(server) => {
                let (server, progress) = server.read(message, now_s)?;
                (State::V1Server(server), progress)
            }
            State::Native(side) => {
                let (side, progress) = side.read(message, now_s)?;
                (State::Native(side), progress)
            }
            State::Over => return Err(ChannelError::HandshakeState),
        };
        self.0 = state;
        Ok(progress)
    }

    /// Returns the two directions of records, once this side is done.
    ///
    /// # Errors
    /// [`ChannelError::HandshakeState`] before.
    pub fn into_records(self) -> Result<(Sealer, Opener), ChannelError> {
        match self.0 {
            State::V1Client(V1Client::Done(sealer, opener))
            | State::V1Server(V1Server::Done(sealer, opener))
            | State::Native(Noise::Done(sealer, opener)) => Ok((sealer, opener)),
            _ => Err(ChannelError::HandshakeState),
        }
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake(redacted)")
    }
}
