//! Loads `vectors/channel`, as strictly as [`crate::vectors`] loads the rest.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Deserialize;

use crate::vectors::{Head, Hex, body, folder, head, load_with, scenario_part};

/// One scenario of the channel vectors.
#[derive(Debug)]
pub struct ChannelVector {
    /// The file's name without `.json`.
    pub name: String,
    /// The purpose of the scenario.
    pub comment: String,
    /// The inputs and outputs of the scenario.
    pub scenario: ChannelScenario,
}

/// The content of a scenario, by its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum ChannelScenario {
    V1(Box<V1>),
    V1Transcript(V1Transcript),
    V1Record(V1Record),
    Noise(Box<Noise>),
    Native(Box<Native>),
}

scenario_part!(
    /// A record of v1, as sent.
    V1Talk { sender: String, kind: String, plaintext_hex: Hex, message_hex: Hex }
);
scenario_part!(
    /// `channel-v1`: a handshake and the records that follow.
    V1 {
        suite: u16, channel_id: String, psk_hex: Hex, client_features: u32, server_features: u32,
        client_nonce_hex: Hex, server_nonce_hex: Hex, client_private_hex: Hex, server_private_hex: Hex,
        handshake_id_random_hex: Hex, timestamp_s: u64, shared_hex: Hex, transcript_hex: Hex, auth_tag_hex: Hex,
        client_key_hex: Hex, server_key_hex: Hex, rekey_base_hex: Hex, client_nonce_prefix_hex: Hex,
        server_nonce_prefix_hex: Hex, init: String, resp: String, ack: String, records: Vec<V1Talk>,
    }
);
scenario_part!(
    /// `channel-v1-transcript`: the transcript's hash, alone.
    V1Transcript {
        suite: u16, client_features: u32, server_features: u32, channel_id: String, client_nonce_hex: Hex,
        server_nonce_hex: Hex, client_public_hex: Hex, server_public_hex: Hex, transcript_hex: Hex,
    }
);
scenario_part!(
    /// `channel-v1-record`: a record under a given key.
    V1Record {
        key_hex: Hex, nonce_prefix_hex: Hex, kind: String, seq: u64, plaintext_hex: Hex, message_hex: Hex,
    }
);
scenario_part!(
    /// A message of a Noise handshake.
    NoiseMessage { payload_hex: Hex, message_hex: Hex }
);
scenario_part!(
    /// `noise`: a published handshake of the Noise framework.
    Noise {
        noise_name: String, prologue_hex: Hex, psk_hex: Hex, client_static_hex: Hex, server_static_hex: Hex,
        client_ephemeral_hex: Hex, server_ephemeral_hex: Hex, messages: Vec<NoiseMessage>, handshake_hash_hex: Hex,
        client_key_hex: Hex, server_key_hex: Hex,
    }
);
scenario_part!(
    /// A handshake frame of the native profile.
    NativeMessage { sender: String, message_hex: Hex }
);
scenario_part!(
    /// A native record, as sent.
    NativeTalk { sender: String, kind: String, content_hex: Hex, message_hex: Hex }
);
scenario_part!(
    /// `channel-native`: a channel from its first message to its close.
    Native {
        suite: u16, noise_name: String, channel_id: String, psk_hex: Hex, init_expires_s: u64, audience: String,
        issuer: String, allowed_suites: Vec<u16>, prologue_hex: Hex, client_static_hex: Hex, server_static_hex: Hex,
        client_ephemeral_hex: Hex, server_ephemeral_hex: Hex, kem_private_hex: Hex, kem_ciphertext_hex: Hex,
        kem_secret_hex: Hex, rekey_after_records: u64, pad_to: usize, messages: Vec<NativeMessage>,
        client_key_hex: Hex, server_key_hex: Hex, records: Vec<NativeTalk>,
    }
);

/// Loads every scenario of `vectors/channel`, by name.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_channel() -> Result<Vec<ChannelVector>> {
    load_with(&folder().join("channel"), read)
}

fn read(path: &Path) -> Result<ChannelVector> {
    let Head { kind, name, comment, members } = head(path, "channel.md#")?;
    let scenario = match kind.as_str() {
        "channel-v1" => ChannelScenario::V1(body(members)?),
        "channel-v1-transcript" => ChannelScenario::V1Transcript(body(members)?),
        "channel-v1-record" => ChannelScenario::V1Record(body(members)?),
        "noise" => ChannelScenario::Noise(body(members)?),
        "channel-native" => ChannelScenario::Native(body(members)?),
        unknown => bail!("nobody knows the type {unknown}"),
    };
    Ok(ChannelVector { name, comment, scenario })
}
