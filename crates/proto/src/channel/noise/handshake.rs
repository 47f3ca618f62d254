//! The Noise handshake of either side. The reader of the last handshake message answers with a ping, which is record 1 of its
//! direction, and reports that it is connected; the other side reports it once it has decrypted that ping. So neither side
//! reports before the peer has proved itself: not where the pattern's last message proves nothing to its sender (XXpsk3), and
//! not where a first message may be a replayed one (the patterns of two messages). `spec/channel.md#native-handshake`.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use snow::params::{BaseChoice, CipherChoice, DHChoice, HandshakeChoice, HandshakeModifier, HandshakeModifierList};
use snow::params::{HandshakePattern, HashChoice, NoiseParams};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::hybrid;
use super::record::{NativeOpener, NativeSealer};
use super::resolver::{FailureFlag, Seam};
use crate::channel::frame::{Profile, handshake, parse_handshake};
use crate::channel::handshake::Progress;
use crate::channel::record::{Content, Opener, OpenerProfile, RecordContent, Sealer, SealerProfile};
use crate::channel::settings::{ChannelSettings, HandshakeRandoms, KemRandoms};
use crate::channel::{ChannelError, NativeSuite, Pattern};
use crate::crypto::agreement::{AgreementProvider, Cipher, KemKey};
use crate::crypto::is_equal;

const LABEL: &[u8] = b"sealway-channel-v1";
/// Room for a public key, an encrypted static key and a tag, beside the payload.
const NOISE_OVERHEAD: usize = 128;

/// The side of the handshake, client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A side of the handshake, by its state.
pub(crate) enum Noise {
    Message(Box<Talking>),
    Ping(Sealer, Opener),
    Done(Sealer, Opener),
}

pub(crate) struct Talking {
    settings: ChannelSettings,
    suite: NativeSuite,
    provider: &'static dyn AgreementProvider,
    role: Role,
    noise: Box<HandshakeState>,
    failed: FailureFlag,
    /// The type of the message that this side expects.
    awaits: u8,
    kem: Option<Box<dyn KemKey>>,
    kem_randoms: KemRandoms,
}

impl Noise {
    /// Begins as the client, and returns its first message.
    pub(crate) fn client(
        settings: ChannelSettings,
        suite: NativeSuite,
        provider: &'static dyn AgreementProvider,
        randoms: HandshakeRandoms,
    ) -> Result<(Self, Vec<u8>), ChannelError> {
        let mut talking = Talking::new(settings, suite, provider, randoms, Role::Client)?;
        talking.kem = hybrid::generate(provider, suite, &talking.kem_randoms)?;
        let payload = talking.kem.as_ref().map(|key| key.public().to_vec()).unwrap_or_default();
        let first = talking.write(1, &[], &payload)?;
        talking.awaits = 2;
        Ok((Noise::Message(Box::new(talking)), first))
    }

    /// Begins as the server, which waits for message 1.
    pub(crate) fn server(
        settings: ChannelSettings,
        suite: NativeSuite,
        provider: &'static dyn AgreementProvider,
        randoms: HandshakeRandoms,
    ) -> Result<Self, ChannelError> {
        Ok(Noise::Message(Box::new(Talking::new(settings, suite, provider, randoms, Role::Server)?)))
    }

    /// Reads one message of the peer.
    pub(crate) fn read(self, message: &[u8], now_s: u64) -> Result<(Self, Progress), ChannelError> {
        match self {
            Noise::Message(talking) => talking.read(message, now_s),
            Noise::Ping(sealer, mut opener) => match opener.open(&mut message.to_vec())? {
                RecordContent::Ping(_) => Ok((Noise::Done(sealer, opener), Progress::Done)),
                _ => Err(ChannelError::Unconfirmed),
            },
            Noise::Done(..) => Err(ChannelError::HandshakeState),
        }
    }
}

/// The library's own parser does not know P256, so the parameters are built by hand: the name states the curve, and the
/// resolver provides it whatever the choice.
fn params(suite: NativeSuite) -> NoiseParams {
    let pattern = match suite.pattern {
        Pattern::NNpsk0 => HandshakePattern::NN,
        Pattern::KKpsk0 => HandshakePattern::KK,
        Pattern::IKpsk1 => HandshakePattern::IK,
        Pattern::XXpsk3 => HandshakePattern::XX,
    };
    let mut list = vec![HandshakeModifier::Psk(suite.pattern.psk_place())];
    if suite.hybrid {
        list.push(HandshakeModifier::Psk(hybrid::PSK_PLACE as u8));
    }
    let cipher = match suite.cipher {
        Cipher::Aes256Gcm => CipherChoice::AESGCM,
        Cipher::ChaCha20Poly1305 => CipherChoice::ChaChaPoly,
    };
    let choice = HandshakeChoice { pattern, modifiers: HandshakeModifierList { list } };
    NoiseParams::new(suite.noise_name(), BaseChoice::Noise, choice, DHChoice::Curve25519, cipher, HashChoice::SHA256)
}

/// The prologue, which both ends must compute alike: the channel, its time, the roles, the common claims of their tokens, the
/// suite, and the other allowed suites. Every part has a fixed length or one that precedes it.
fn prologue(settings: &ChannelSettings) -> Vec<u8> {
    // Both counts are bounded by ChannelSettings::check.
    let id_len = settings.channel_id.len() as u16;
    let suites = settings.allowed_suites.len() as u8;
    let mut out = Vec::with_capacity(128 + settings.channel_id.len());
    out.extend_from_slice(LABEL);
    out.extend_from_slice(&id_len.to_be_bytes());
    out.extend_from_slice(settings.channel_id.as_bytes());
    out.extend_from_slice(&settings.init_expires_s.to_be_bytes());
    // Initiator and responder, by the numbers that roles have in tokens.
    out.extend_from_slice(&[1, 2]);
    out.extend_from_slice(&settings.binding);
    out.extend_from_slice(&settings.suite.id().to_be_bytes());
    out.push(suites);
    for suite in &settings.allowed_suites {
        out.extend_from_slice(&suite.to_be_bytes());
    }
    out
}

fn of_noise(error: snow::Error) -> ChannelError {
    match error {
        snow::Error::Decrypt => ChannelError::HandshakeUnauthentic,
        snow::Error::Dh => ChannelError::PeerKeyInvalid,
        snow::Error::Input => ChannelError::HandshakeFrameInvalid,
        snow::Error::State(_) => ChannelError::HandshakeState,
        _ => ChannelError::AgreementProvider,
    }
}

impl Drop for Talking {
    /// The library does not wipe its chaining key and its copies of the pre-shared keys. A blank state written over its own
    /// overwrites them; later calls overwrite what it left on the stack.
    fn drop(&mut self) {
        let suite = NativeSuite { pattern: Pattern::NNpsk0, hybrid: false, ..self.suite };
        let seam = Seam { provider: self.provider, suite, ephemeral: None, failed: FailureFlag::default() };
        let blank = Builder::with_resolver(params(suite), Box::new(seam)).psk(0, &[0; 32]);
        if let Ok(blank) = blank.and_then(Builder::build_initiator) {
            *self.noise = blank;
            // Otherwise the compiler could leave out a write to memory that is freed next.
            core::hint::black_box(&mut *self.noise);
        }
    }
}

impl Talking {
    fn new(
        settings: ChannelSettings,
        suite: NativeSuite,
        provider: &'static dyn AgreementProvider,
        randoms: HandshakeRandoms,
        role: Role,
    ) -> Result<Self, ChannelError> {
        let failed = FailureFlag::default();
        let seam = Seam { provider, suite, ephemeral: randoms.ephemeral, failed: failed.clone() };
        let prologue = prologue(&settings);
        let mut builder = Builder::with_resolver(params(suite), Box::new(seam))
            .prologue(&prologue)
            .and_then(|builder| builder.psk(suite.pattern.psk_place(), &settings.psk))
            .map_err(of_noise)?;
        if let (true, Some(private)) = (suite.pattern.has_static_keys(), &settings.local_static) {
            builder = builder.local_private_key(private.as_slice()).map_err(of_noise)?;
        }
        // XX sends both keys, and IK the client's: these are compared with the pinned ones when they arrive.
        let knows_peer = match suite.pattern {
            Pattern::KKpsk0 => true,
            Pattern::IKpsk1 => role == Role::Client,
            Pattern::NNpsk0 | Pattern::XXpsk3 => false,
        };
        if let (true, Some(public)) = (knows_peer, &settings.peer_static) {
            builder = builder.remote_public_key(public).map_err(of_noise)?;
        }
        let noise = match role {
            Role::Client => builder.build_initiator(),
            Role::Server => builder.build_responder(),
        };
        let noise = Box::new(noise.map_err(of_noise)?);
        if failed.is_set() {
            // The one thing that was given and may be no key.
            return Err(ChannelError::SettingInvalid("local_static"));
        }
        let kem_randoms = randoms.kem;
        Ok(Talking { settings, suite, provider, role, noise, failed, awaits: 1, kem: None, kem_randoms })
    }

    fn read(mut self: Box<Self>, message: &[u8], now_s: u64) -> Result<(Noise, Progress), ChannelError> {
        let payload = parse_handshake(Profile::Native, self.awaits, message)?;
        if now_s > self.settings.init_expires_s.saturating_add(self.settings.skew_s) {
            return Err(ChannelError::InitExpired);
        }
        let noise = match (self.awaits, &self.kem) {
            (2, Some(kem)) => {
                let (noise, psk) = hybrid::decapsulate(self.provider, kem.as_ref(), payload)?;
                self.noise.set_psk(hybrid::PSK_PLACE, psk.as_slice()).map_err(of_noise)?;
                noise
            }
            _ => payload,
        };
        let mut inside = Zeroizing::new(vec![0; noise.len()]);
        let len = self.noise.read_message(noise, &mut inside).map_err(of_noise)?;
        inside.truncate(len);
        self.check_failed()?;
        self.check_pinned()?;
        let has_kem_key = self.suite.hybrid && self.awaits == 1;
        if !has_kem_key && !inside.is_empty() {
            return Err(ChannelError::HandshakeFieldInvalid("payload"));
        }
        if self.noise.is_handshake_finished() {
            let (mut sealer, opener) = self.records()?;
            let mut ping = Vec::new();
            sealer.seal(Content::Ping(0), &[], &mut ping, 0)?;
            return Ok((Noise::Done(sealer, opener), Progress::SendThenDone(ping)));
        }
        let kind = self.awaits + 1;
        let ciphertext = match has_kem_key {
            true => {
                let randoms = core::mem::take(&mut self.kem_randoms);
                let (ciphertext, psk) = hybrid::encapsulate(self.provider, &inside, randoms)?;
                self.noise.set_psk(hybrid::PSK_PLACE, psk.as_slice()).map_err(of_noise)?;
                ciphertext
            }
            false => Vec::new(),
        };
        let answer = self.write(kind, &ciphertext, &[])?;
        if self.noise.is_handshake_finished() {
            let (sealer, opener) = self.records()?;
            return Ok((Noise::Ping(sealer, opener), Progress::Send(answer)));
        }
        self.awaits = kind + 1;
        Ok((Noise::Message(self), Progress::Send(answer)))
    }

    /// Writes a frame: `before`, then the Noise message.
    fn write(&mut self, kind: u8, before: &[u8], payload: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut out = before.to_vec();
        out.resize(before.len() + payload.len() + NOISE_OVERHEAD, 0);
        let room = out.get_mut(before.len()..).ok_or(ChannelError::AgreementProvider)?;
        let len = self.noise.write_message(payload, room).map_err(|error| match error {
            // Only the peer's key can be wrong here, and it arrived in the peer's last message.
            snow::Error::Dh => ChannelError::PeerKeyInvalid,
            _ => ChannelError::AgreementProvider,
        })?;
        self.check_failed()?;
        out.truncate(before.len() + len);
        handshake(Profile::Native, kind, &out)
    }

    fn check_failed(&self) -> Result<(), ChannelError> {
        if self.failed.is_set() { Err(ChannelError::AgreementProvider) } else { Ok(()) }
    }

    /// Checks that the static key that the peer has shown is the pinned one.
    fn check_pinned(&self) -> Result<(), ChannelError> {
        match (self.noise.get_remote_static(), &self.settings.peer_static) {
            (Some(shown), Some(pinned)) if is_equal(shown, pinned) => Ok(()),
            (Some(_), _) => Err(ChannelError::PeerKeyUnpinned),
            (None, _) => Ok(()),
        }
    }

    fn records(&mut self) -> Result<(Sealer, Opener), ChannelError> {
        let (client, server) = self.noise.dangerously_get_raw_split();
        let (client, server) = (Zeroizing::new(client), Zeroizing::new(server));
        // Splitting derives keys once more: after a failure they would be zeros.
        self.check_failed()?;
        let (own, peer) = match self.role {
            Role::Client => (client, server),
            Role::Server => (server, client),
        };
        let sealer = NativeSealer::new(self.provider, self.suite.cipher, own, self.role, &self.settings)?;
        let opener = NativeOpener::new(self.provider, self.suite.cipher, peer, self.role)?;
        Ok((Sealer::new(SealerProfile::Native(sealer)), Opener::new(OpenerProfile::Native(opener))))
    }
}

#[cfg(test)]
mod tests {
    use sealway_testkit::channel_vectors::{ChannelScenario, Noise as Published, load_channel};

    use super::*;
    use crate::channel::Suite;
    use crate::crypto::agreement::default_agreement_provider;

    fn side(v: &Published, suite: NativeSuite, role: Role) -> HandshakeState {
        let (own, peer, ephemeral) = match role {
            Role::Client => (&v.client_static_hex, &v.server_static_hex, &v.client_ephemeral_hex),
            Role::Server => (&v.server_static_hex, &v.client_static_hex, &v.server_ephemeral_hex),
        };
        let provider = default_agreement_provider();
        let ephemeral = Some(Zeroizing::new(ephemeral.array()));
        let seam = Seam { provider, suite, ephemeral, failed: FailureFlag::default() };
        let psk = v.psk_hex.array();
        let mut builder = Builder::with_resolver(params(suite), Box::new(seam)).prologue(&v.prologue_hex.0).unwrap();
        builder = builder.psk(suite.pattern.psk_place(), &psk).unwrap();
        if !own.0.is_empty() {
            builder = builder.local_private_key(&own.0).unwrap();
        }
        let peer_public;
        let knows_peer = suite.pattern == Pattern::KKpsk0 || suite.pattern == Pattern::IKpsk1 && role == Role::Client;
        if knows_peer {
            let key = provider.agreement_from_private(suite.curve, &peer.array()).unwrap();
            peer_public = key.public().to_vec();
            builder = builder.remote_public_key(&peer_public).unwrap();
        }
        match role {
            Role::Client => builder.build_initiator().unwrap(),
            Role::Server => builder.build_responder().unwrap(),
        }
    }

    #[test]
    fn the_library_over_our_seam_makes_and_takes_published_handshakes() {
        let mut found = 0;
        for vector in load_channel().unwrap() {
            let ChannelScenario::Noise(v) = &vector.scenario else { continue };
            let Some(Suite::Native(suite)) = Suite::all().find(|suite| suite.name() == v.noise_name) else {
                panic!("{} is no suite", v.noise_name)
            };
            let (mut client, mut server) = (side(v, suite, Role::Client), side(v, suite, Role::Server));
            for (number, message) in v.messages.iter().enumerate() {
                let (writer, reader) = match number % 2 {
                    0 => (&mut client, &mut server),
                    _ => (&mut server, &mut client),
                };
                let mut sent = vec![0; 1000];
                let len = writer.write_message(&message.payload_hex.0, &mut sent).unwrap();
                assert_eq!(sent[..len], message.message_hex.0, "{} message {number}", vector.name);
                let mut read = vec![0; 1000];
                let len = reader.read_message(&message.message_hex.0, &mut read).unwrap();
                assert_eq!(read[..len], message.payload_hex.0);
            }
            assert_eq!(client.get_handshake_hash(), v.handshake_hash_hex.0);
            let keys = (v.client_key_hex.array(), v.server_key_hex.array());
            assert_eq!(client.dangerously_get_raw_split(), keys);
            assert_eq!(server.dangerously_get_raw_split(), keys);
            found += 1;
        }
        assert_eq!(found, 8);
    }
}
