//! The client's side of the v1 handshake: Init out, Resp in, Ack out, and the server's first ping in.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::message::{Ack, Init, Resp};
use super::record::{V1Opener, V1Sealer};
use super::schedule::{Transcript, auth_tag, keys};
use super::{ACK, INIT, RESP};
use crate::channel::ChannelError;
use crate::channel::error::of_provider;
use crate::channel::frame::{Profile, handshake, parse_handshake};
use crate::channel::handshake::Progress;
use crate::channel::record::{Opener, OpenerProfile, RecordContent, Sealer, SealerProfile};
use crate::channel::settings::{ChannelSettings, HandshakeRandoms};
use crate::crypto::agreement::{AgreementKey, AgreementProvider, Curve};

/// A client, by its state.
pub(crate) enum V1Client {
    Resp(Box<AwaitsResp>),
    Ping(Sealer, Opener),
    Done(Sealer, Opener),
}

pub(crate) struct AwaitsResp {
    settings: ChannelSettings,
    provider: &'static dyn AgreementProvider,
    ephemeral: Box<dyn AgreementKey>,
    nonce_c: [u8; 32],
}

impl V1Client {
    /// Begins as the client, and returns its Init.
    pub(crate) fn begin(
        settings: ChannelSettings,
        curve: Curve,
        provider: &'static dyn AgreementProvider,
        randoms: &HandshakeRandoms,
    ) -> Result<(Self, Vec<u8>), ChannelError> {
        let ephemeral = super::ephemeral(provider, curve, randoms)?;
        let init = Init {
            channel_id: settings.channel_id.clone(),
            role: 1,
            version: 1,
            suite: settings.suite.id(),
            client_public: ephemeral.public().to_vec(),
            nonce_c: randoms.nonce,
            client_features: settings.features,
        };
        let message = handshake(Profile::V1, INIT, init.encode().as_bytes())?;
        let state = AwaitsResp { settings, provider, ephemeral, nonce_c: randoms.nonce };
        Ok((V1Client::Resp(Box::new(state)), message))
    }

    /// Reads one message of the server.
    pub(crate) fn read(self, message: &[u8], now_s: u64) -> Result<(Self, Progress), ChannelError> {
        match self {
            V1Client::Resp(state) => {
                let accept_unconfirmed = state.settings.accept_unconfirmed;
                let (sealer, opener, ack) = state.read_resp(message, now_s)?;
                Ok(if accept_unconfirmed {
                    (V1Client::Done(sealer, opener), Progress::SendThenDone(ack))
                } else {
                    (V1Client::Ping(sealer, opener), Progress::Send(ack))
                })
            }
            V1Client::Ping(sealer, mut opener) => {
                // This record proves the server's keys, and nothing before it does.
                match opener.open(&mut message.to_vec())? {
                    RecordContent::Ping(_) => Ok((V1Client::Done(sealer, opener), Progress::Done)),
                    _ => Err(ChannelError::Unconfirmed),
                }
            }
            V1Client::Done(..) => Err(ChannelError::HandshakeState),
        }
    }
}

impl AwaitsResp {
    fn read_resp(self, message: &[u8], now_s: u64) -> Result<(Sealer, Opener, Vec<u8>), ChannelError> {
        let AwaitsResp { settings, provider, ephemeral, nonce_c } = self;
        let resp = Resp::parse(parse_handshake(Profile::V1, RESP, message)?)?;
        let transcript = Transcript {
            suite: settings.suite.id(),
            client_features: settings.features,
            server_features: resp.server_features,
            channel_id: &settings.channel_id,
            nonce_c: &nonce_c,
            nonce_s: &resp.nonce_s,
            client_public: ephemeral.public(),
            server_public: &resp.server_public,
        };
        let transcript = transcript.hash(provider)?;
        super::check_point(ephemeral.public(), &resp.server_public)?;
        let shared = ephemeral.agree(&resp.server_public).map_err(of_provider)?;
        let keys = keys(provider, &settings.psk, &shared, &transcript);
        let auth_tag = auth_tag(provider, &settings.psk, &transcript, now_s).to_vec();
        let ack = Ack { handshake_id: resp.handshake_id, timestamp_s: now_s, auth_tag };
        let sealer = V1Sealer::new(provider, keys.c2s, settings.record_max)?;
        let opener = V1Opener::new(provider, keys.s2c, settings.record_max)?;
        Ok((
            Sealer::new(SealerProfile::V1(sealer)),
            Opener::new(OpenerProfile::V1(opener)),
            handshake(Profile::V1, ACK, ack.encode().as_bytes())?,
        ))
    }
}
