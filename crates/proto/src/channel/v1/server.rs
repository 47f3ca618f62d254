//! The server's side of the v1 handshake: Init in, Resp out, Ack in, and a ping out that proves the server's keys.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::message::{Ack, Init, Resp, b64u};
use super::record::{V1Opener, V1Sealer};
use super::schedule::{Transcript, auth_tag, keys};
use super::{ACK, INIT, RESP};
use crate::channel::ChannelError;
use crate::channel::error::of_provider;
use crate::channel::frame::{Profile, handshake, parse_handshake};
use crate::channel::handshake::Progress;
use crate::channel::record::{Content, Opener, OpenerProfile, Sealer, SealerProfile};
use crate::channel::settings::{ChannelSettings, HandshakeRandoms};
use crate::crypto::agreement::{AgreementKey, AgreementProvider, Curve};
use crate::crypto::is_equal;

/// A server, by its state.
#[allow(clippy::large_enum_variant, reason = "one for a connection, and in its last state when it lives longest")]
pub(crate) enum V1Server {
    Init(Box<AwaitsInit>),
    Ack(Box<AwaitsAck>),
    Done(Sealer, Opener),
}

pub(crate) struct AwaitsInit {
    settings: ChannelSettings,
    curve: Curve,
    provider: &'static dyn AgreementProvider,
    randoms: HandshakeRandoms,
}

pub(crate) struct AwaitsAck {
    settings: ChannelSettings,
    provider: &'static dyn AgreementProvider,
    ephemeral: Box<dyn AgreementKey>,
    client_public: Vec<u8>,
    transcript: [u8; 32],
    handshake_id: String,
    /// The hash of the answered Init, and the answer: both belong to this connection only.
    init: [u8; 32],
    resp: Vec<u8>,
}

impl V1Server {
    pub(crate) fn begin(
        settings: ChannelSettings,
        curve: Curve,
        provider: &'static dyn AgreementProvider,
        randoms: HandshakeRandoms,
    ) -> Self {
        V1Server::Init(Box::new(AwaitsInit { settings, curve, provider, randoms }))
    }

    /// Reads one message of the client.
    pub(crate) fn read(self, message: &[u8], now_s: u64) -> Result<(Self, Progress), ChannelError> {
        match self {
            V1Server::Init(state) => {
                let next = state.read_init(message)?;
                let resp = next.resp.clone();
                Ok((V1Server::Ack(Box::new(next)), Progress::Send(resp)))
            }
            V1Server::Ack(state) => {
                if parse_handshake(Profile::V1, INIT, message).is_ok() {
                    // A client that received no answer may send its Init again, with the same bytes.
                    if is_equal(&state.provider.sha256(&[message]), &state.init) {
                        let resp = state.resp.clone();
                        return Ok((V1Server::Ack(state), Progress::Send(resp)));
                    }
                    return Err(ChannelError::InitChanged);
                }
                let (mut sealer, opener) = state.read_ack(message, now_s)?;
                let mut ping = Vec::new();
                sealer.seal(Content::Ping(0), &[], &mut ping, 0)?;
                Ok((V1Server::Done(sealer, opener), Progress::SendThenDone(ping)))
            }
            V1Server::Done(..) => Err(ChannelError::HandshakeState),
        }
    }
}

impl AwaitsInit {
    // SPEC channel.md#v1-handshake: the checks, in this order.
    fn read_init(self, message: &[u8]) -> Result<AwaitsAck, ChannelError> {
        let AwaitsInit { settings, curve, provider, randoms } = self;
        let init = Init::parse(parse_handshake(Profile::V1, INIT, message)?)?;
        let suite = settings.suite.id();
        if init.version != 1 {
            return Err(ChannelError::VersionMismatch);
        }
        if init.role != 1 {
            return Err(ChannelError::RoleMismatch);
        }
        if init.channel_id != settings.channel_id {
            return Err(ChannelError::ChannelMismatch);
        }
        // Suite 0 stands for the server's own, as the first server read it; the transcript has the server's own number either
        // way.
        if init.suite != suite && init.suite != 0 {
            return Err(ChannelError::SuiteMismatch);
        }
        let ephemeral = super::ephemeral(provider, curve, &randoms)?;
        let resp = Resp {
            handshake_id: b64u(&randoms.handshake_id),
            server_public: ephemeral.public().to_vec(),
            nonce_s: randoms.nonce,
            server_features: settings.features,
        };
        let transcript = Transcript {
            suite,
            client_features: init.client_features,
            server_features: resp.server_features,
            channel_id: &settings.channel_id,
            nonce_c: &init.nonce_c,
            nonce_s: &resp.nonce_s,
            client_public: &init.client_public,
            server_public: &resp.server_public,
        };
        Ok(AwaitsAck {
            transcript: transcript.hash(provider)?,
            resp: handshake(Profile::V1, RESP, resp.encode().as_bytes())?,
            handshake_id: resp.handshake_id,
            client_public: init.client_public,
            init: provider.sha256(&[message]),
            settings,
            provider,
            ephemeral,
        })
    }
}

impl AwaitsAck {
    // SPEC channel.md#v1-handshake: the checks, in this order.
    fn read_ack(&self, message: &[u8], now_s: u64) -> Result<(Sealer, Opener), ChannelError> {
        let AwaitsAck { settings, provider, .. } = self;
        let ack = Ack::parse(parse_handshake(Profile::V1, ACK, message)?)?;
        if ack.handshake_id != self.handshake_id {
            return Err(ChannelError::HandshakeIdMismatch);
        }
        if now_s.abs_diff(ack.timestamp_s) > settings.skew_s {
            return Err(ChannelError::HandshakeTimestamp);
        }
        if ack.timestamp_s > settings.init_expires_s.saturating_add(settings.skew_s) {
            return Err(ChannelError::InitExpired);
        }
        if ack.auth_tag.len() != 32 {
            return Err(ChannelError::HandshakeFieldInvalid("auth_tag_b64u"));
        }
        let tag = auth_tag(*provider, &settings.psk, &self.transcript, ack.timestamp_s);
        if !is_equal(tag.as_slice(), &ack.auth_tag) {
            return Err(ChannelError::HandshakeUnauthentic);
        }
        super::check_point(self.ephemeral.public(), &self.client_public)?;
        let shared = self.ephemeral.agree(&self.client_public).map_err(of_provider)?;
        let keys = keys(*provider, &settings.psk, &shared, &self.transcript);
        let sealer = V1Sealer::new(*provider, keys.s2c, settings.record_max)?;
        let opener = V1Opener::new(*provider, keys.c2s, settings.record_max)?;
        Ok((Sealer::new(SealerProfile::V1(sealer)), Opener::new(OpenerProfile::V1(opener))))
    }
}
