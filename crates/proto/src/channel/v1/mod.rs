//! Profile `flowersec-v1`: a JSON handshake and binary records. `spec/channel.md#flowersec-v1`.
//!
//! Key material belongs to one connection only. Connections share no cache of pending handshakes: with one, a relay that
//! replays Init and Ack on a second connection would get two sessions with one key and one run of nonces.

pub(crate) mod client;
pub(crate) mod message;
pub(crate) mod record;
pub(crate) mod schedule;
pub(crate) mod server;

/// Types of handshake frames: Init.
pub(crate) const INIT: u8 = 1;
pub(crate) const RESP: u8 = 2;
pub(crate) const ACK: u8 = 3;

use alloc::boxed::Box;

use crate::channel::ChannelError;
use crate::channel::settings::HandshakeRandoms;
use crate::crypto::agreement::{AgreementKey, AgreementProvider, Curve};

fn ephemeral(
    provider: &'static dyn AgreementProvider,
    curve: Curve,
    randoms: &HandshakeRandoms,
) -> Result<Box<dyn AgreementKey>, ChannelError> {
    let key = match &randoms.ephemeral {
        Some(private) => provider.agreement_from_private(curve, private),
        None => provider.agreement_generate(curve),
    };
    key.map_err(|_| ChannelError::AgreementProvider)
}

/// Checks that the two keys have one length. The wire knows one form of a key, which is the form of this side's key; the seam
/// reads compressed points too.
fn check_point(own: &[u8], peer: &[u8]) -> Result<(), ChannelError> {
    if own.len() == peer.len() { Ok(()) } else { Err(ChannelError::PeerKeyInvalid) }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use sealway_testkit::channel_vectors::{ChannelScenario, V1, load_channel};

    use super::record::V1Sealer;
    use super::schedule::{Direction, Transcript, auth_tag, keys};
    use crate::channel::record::Content;
    use crate::crypto::agreement::{Curve, default_agreement_provider};

    fn assert_keys(v: &V1) {
        let provider = default_agreement_provider();
        let curve = if v.suite == 1 { Curve::X25519 } else { Curve::P256 };
        let client = provider.agreement_from_private(curve, &v.client_private_hex.array()).unwrap();
        let server = provider.agreement_from_private(curve, &v.server_private_hex.array()).unwrap();
        let shared = client.agree(server.public()).unwrap();
        assert_eq!(shared.as_slice(), v.shared_hex.0);
        assert_eq!(server.agree(client.public()).unwrap().as_slice(), v.shared_hex.0);
        let transcript = Transcript {
            suite: v.suite,
            client_features: v.client_features,
            server_features: v.server_features,
            channel_id: &v.channel_id,
            nonce_c: &v.client_nonce_hex.array(),
            nonce_s: &v.server_nonce_hex.array(),
            client_public: client.public(),
            server_public: server.public(),
        };
        let transcript = transcript.hash(provider).unwrap();
        assert_eq!(transcript.as_slice(), v.transcript_hex.0);
        let psk = v.psk_hex.array();
        assert_eq!(auth_tag(provider, &psk, &transcript, v.timestamp_s).as_slice(), v.auth_tag_hex.0);
        let keys = keys(provider, &psk, &shared, &transcript);
        assert_eq!(keys.c2s.key.as_slice(), v.client_key_hex.0);
        assert_eq!(keys.s2c.key.as_slice(), v.server_key_hex.0);
        assert_eq!(keys.c2s.nonce_prefix.as_slice(), v.client_nonce_prefix_hex.0);
        assert_eq!(keys.s2c.nonce_prefix.as_slice(), v.server_nonce_prefix_hex.0);
        assert_eq!(keys.c2s.rekey.base(), v.rekey_base_hex.0);
    }

    #[test]
    fn transcripts_keys_and_records_are_those_of_the_vectors() {
        let provider = default_agreement_provider();
        let mut found = [0; 3];
        for vector in load_channel().unwrap() {
            match &vector.scenario {
                ChannelScenario::V1(v) => {
                    assert_keys(v);
                    found[0] += 1;
                }
                ChannelScenario::V1Transcript(v) => {
                    let transcript = Transcript {
                        suite: v.suite,
                        client_features: v.client_features,
                        server_features: v.server_features,
                        channel_id: &v.channel_id,
                        nonce_c: &v.client_nonce_hex.array(),
                        nonce_s: &v.server_nonce_hex.array(),
                        client_public: &v.client_public_hex.0,
                        server_public: &v.server_public_hex.0,
                    };
                    assert_eq!(transcript.hash(provider).unwrap().as_slice(), v.transcript_hex.0);
                    found[1] += 1;
                }
                ChannelScenario::V1Record(v) => {
                    assert_eq!((v.kind.as_str(), v.seq), ("data", 1), "no sealer begins elsewhere");
                    let mut direction = keys(provider, &[0; 32], &[0; 32], &[0; 32]).c2s;
                    direction = Direction {
                        key: v.key_hex.array().into(),
                        nonce_prefix: v.nonce_prefix_hex.array(),
                        rekey: direction.rekey,
                    };
                    let mut out = Vec::new();
                    let mut sealer = V1Sealer::new(provider, direction, 1 << 20).unwrap();
                    sealer.seal(&Content::Data, &v.plaintext_hex.0, &mut out).unwrap();
                    assert_eq!(out, v.message_hex.0);
                    found[2] += 1;
                }
                ChannelScenario::Noise(_) | ChannelScenario::Native(_) => {}
            }
        }
        assert_eq!(found, [2, 1, 1]);
    }
}
