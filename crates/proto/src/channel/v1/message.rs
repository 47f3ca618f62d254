//! The three JSON messages. Unknown members are ignored, the last of a repeated member counts; base64url without padding.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::channel::ChannelError;
use crate::channel::limits::HANDSHAKE_NONCE_LEN;

const CHANNEL_ID: &str = "channel_id";
const CLIENT_FEATURES: &str = "client_features";
const CLIENT_PUBLIC: &str = "client_eph_pub_b64u";
const NONCE_C: &str = "nonce_c_b64u";
const HANDSHAKE_ID: &str = "handshake_id";
const SERVER_PUBLIC: &str = "server_eph_pub_b64u";
const NONCE_S: &str = "nonce_s_b64u";
const SERVER_FEATURES: &str = "server_features";
const TIMESTAMP: &str = "timestamp_unix_s";
const AUTH_TAG: &str = "auth_tag_b64u";

pub(crate) struct Init {
    pub(crate) channel_id: String,
    pub(crate) role: u8,
    pub(crate) version: u8,
    pub(crate) suite: u16,
    pub(crate) client_public: Vec<u8>,
    pub(crate) nonce_c: [u8; HANDSHAKE_NONCE_LEN],
    pub(crate) client_features: u32,
}

pub(crate) struct Resp {
    pub(crate) handshake_id: String,
    pub(crate) server_public: Vec<u8>,
    pub(crate) nonce_s: [u8; HANDSHAKE_NONCE_LEN],
    pub(crate) server_features: u32,
}

pub(crate) struct Ack {
    pub(crate) handshake_id: String,
    pub(crate) timestamp_s: u64,
    /// As received: its length is checked later, in the order of the spec.
    pub(crate) auth_tag: Vec<u8>,
}

/// Encodes bytes as base64url without padding.
pub(crate) fn b64u(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

struct Members(Map<String, Value>);

impl Members {
    fn parse(payload: &[u8]) -> Result<Self, ChannelError> {
        serde_json::from_slice(payload).map(Members).map_err(|_| ChannelError::HandshakeJsonInvalid)
    }

    fn text(&mut self, name: &'static str) -> Result<String, ChannelError> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(ChannelError::HandshakeFieldInvalid(name)),
        }
    }

    fn number<T: TryFrom<u64>>(&self, name: &'static str) -> Result<T, ChannelError> {
        let number = self.0.get(name).and_then(Value::as_u64).and_then(|number| T::try_from(number).ok());
        number.ok_or(ChannelError::HandshakeFieldInvalid(name))
    }

    /// Decodes a canonical text, so that no bit of a message can be changed.
    fn bytes(&mut self, name: &'static str) -> Result<Vec<u8>, ChannelError> {
        URL_SAFE_NO_PAD.decode(self.text(name)?).map_err(|_| ChannelError::HandshakeFieldInvalid(name))
    }

    fn nonce(&mut self, name: &'static str) -> Result<[u8; HANDSHAKE_NONCE_LEN], ChannelError> {
        self.bytes(name)?.try_into().map_err(|_| ChannelError::HandshakeFieldInvalid(name))
    }
}

impl Init {
    pub(crate) fn encode(&self) -> String {
        // The channel's name is the one member that may need escaping.
        format!(
            r#"{{"{CHANNEL_ID}":{},"role":{},"version":{},"suite":{},"{CLIENT_PUBLIC}":"{}","{NONCE_C}":"{}","{CLIENT_FEATURES}":{}}}"#,
            Value::from(self.channel_id.as_str()),
            self.role,
            self.version,
            self.suite,
            b64u(&self.client_public),
            b64u(&self.nonce_c),
            self.client_features
        )
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, ChannelError> {
        let mut members = Members::parse(payload)?;
        Ok(Init {
            channel_id: members.text(CHANNEL_ID)?,
            role: members.number("role")?,
            version: members.number("version")?,
            suite: members.number("suite")?,
            client_public: members.bytes(CLIENT_PUBLIC)?,
            nonce_c: members.nonce(NONCE_C)?,
            client_features: members.number(CLIENT_FEATURES)?,
        })
    }
}

impl Resp {
    pub(crate) fn encode(&self) -> String {
        format!(
            r#"{{"{HANDSHAKE_ID}":"{}","{SERVER_PUBLIC}":"{}","{NONCE_S}":"{}","{SERVER_FEATURES}":{}}}"#,
            self.handshake_id,
            b64u(&self.server_public),
            b64u(&self.nonce_s),
            self.server_features
        )
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, ChannelError> {
        let mut members = Members::parse(payload)?;
        let resp = Resp {
            handshake_id: members.text(HANDSHAKE_ID)?,
            server_public: members.bytes(SERVER_PUBLIC)?,
            nonce_s: members.nonce(NONCE_S)?,
            server_features: members.number(SERVER_FEATURES)?,
        };
        if resp.handshake_id.is_empty() {
            return Err(ChannelError::HandshakeFieldInvalid(HANDSHAKE_ID));
        }
        Ok(resp)
    }
}

impl Ack {
    pub(crate) fn encode(&self) -> String {
        format!(
            r#"{{"{HANDSHAKE_ID}":{},"{TIMESTAMP}":{},"{AUTH_TAG}":"{}"}}"#,
            // The handshake id is text of the server, which may need escaping.
            Value::from(self.handshake_id.as_str()),
            self.timestamp_s,
            b64u(&self.auth_tag)
        )
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, ChannelError> {
        let mut members = Members::parse(payload)?;
        Ok(Ack {
            handshake_id: members.text(HANDSHAKE_ID)?,
            timestamp_s: members.number(TIMESTAMP)?,
            auth_tag: members.bytes(AUTH_TAG)?,
        })
    }
}
