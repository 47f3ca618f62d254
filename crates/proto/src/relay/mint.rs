//! Minting: an issuer makes the two grants of a channel, or a fresh token for a grant. SPEC relay.md#grants
//!
//! The relay itself takes no part in it: it knows public keys only.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::{Claims, Grant, IssuerKey, NATIVE_SUITE_MIN, Role, TokenForm, b64u};
use crate::crypto::Provider;

/// Random bytes of a channel's or a token's name.
const NAME_LEN: usize = 24;
/// The default native suite of minted grants: NNpsk0 on X25519 with AES-256-GCM and ML-KEM-768.
pub const DEFAULT_NATIVE_SUITE: u16 = 0x104;
/// Longest name of a channel that may be asked for, in bytes.
const CHANNEL_ID_LEN_MAX: usize = 256;

/// The cause for which minting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintInvalid {
    /// No suite, too many, or suites of two profiles.
    #[error("the suites of a grant are 1 to 64, of one profile")]
    Suites,
    /// The channel's name is empty or too long.
    #[error("a channel's name has 1 to {CHANNEL_ID_LEN_MAX} bytes")]
    ChannelName,
    /// The channel's time to begin is over: a fresh token would be of no use.
    #[error("the channel's time to begin is over")]
    InitOver,
    /// The crypto module failed to draw random bytes.
    #[error("the crypto module gives no random bytes")]
    NoRandom,
}

/// The settings of an issuer's grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minting {
    /// The relay's URL, `ws://` or `wss://`.
    pub tunnel_url: String,
    /// The audience: the relay's `--aud`.
    pub aud: String,
    /// The issuer's name; may be empty.
    pub iss: String,
    /// Time that a channel has to begin, in seconds.
    pub init_window_s: u32,
    /// Lifetime of a token, in seconds; at most until the channel must have begun.
    pub token_ttl_s: u32,
    /// Longest time that a channel may stay without a message, in seconds.
    pub idle_timeout_s: u32,
    /// Puts the idle time into tokens too, so that the relay enforces it. v1's first issuers did not.
    pub idle_claim: bool,
    /// The form of tokens. `FST2` always states the idle time, at least 1 s.
    pub token_form: TokenForm,
    /// The suites that are allowed, the default one first; 1 to 64, all of one profile.
    pub suites: Vec<u16>,
    /// The Noise pattern, for native suites.
    pub noise_pattern: String,
    /// Static public keys of client and server endpoint, if they are pinned; the grant of each contains the other's.
    pub statics: [Option<Vec<u8>>; 2],
}

impl Minting {
    /// Returns the defaults of v1: suite 1 alone.
    pub fn flowersec_v1(tunnel_url: &str, aud: &str, iss: &str) -> Self {
        Minting {
            tunnel_url: tunnel_url.into(),
            aud: aud.into(),
            iss: iss.into(),
            init_window_s: 120,
            token_ttl_s: 60,
            idle_timeout_s: 60,
            idle_claim: false,
            token_form: TokenForm::Fst1,
            suites: vec![1],
            noise_pattern: String::new(),
            statics: [None, None],
        }
    }

    /// Returns the defaults of the native profile.
    pub fn native(tunnel_url: &str, aud: &str, iss: &str) -> Self {
        Minting {
            idle_claim: true,
            suites: vec![DEFAULT_NATIVE_SUITE],
            noise_pattern: "NNpsk0".into(),
            ..Minting::flowersec_v1(tunnel_url, aud, iss)
        }
    }

    fn is_native(&self) -> bool {
        self.suites.first().is_some_and(|suite| *suite >= NATIVE_SUITE_MIN)
    }
}

/// An issuer of grants and tokens. Its `Debug` shows the key's name alone.
#[derive(Debug)]
pub struct Issuer {
    key: IssuerKey,
    minting: Minting,
    provider: &'static dyn Provider,
}

impl Issuer {
    /// Creates an issuer from a key and settings, which it checks.
    ///
    /// # Errors
    /// [`MintInvalid`] if the suites are of two profiles, or there is none.
    pub fn new(key: IssuerKey, minting: Minting, provider: &'static dyn Provider) -> Result<Self, MintInvalid> {
        let is_native = minting.is_native();
        let is_one = minting.suites.iter().all(|suite| (*suite >= NATIVE_SUITE_MIN) == is_native);
        if minting.suites.is_empty() || minting.suites.len() > 64 || !is_one {
            return Err(MintInvalid::Suites);
        }
        Ok(Issuer { key, minting, provider })
    }

    /// Mints the two grants of a channel, the client's first. A channel without a name gets a random one.
    ///
    /// # Errors
    /// [`MintInvalid`] for a name that is empty or longer than 256 bytes, or if the generator fails.
    pub fn pair(&self, channel_id: Option<&str>, now_s: i64) -> Result<[Grant; 2], MintInvalid> {
        let channel_id = match channel_id {
            Some(name) if name.is_empty() || name.len() > CHANNEL_ID_LEN_MAX => {
                return Err(MintInvalid::ChannelName);
            }
            Some(name) => name.to_owned(),
            None => random_name(self.provider)?,
        };
        let mut psk = Zeroizing::new([0; 32]);
        self.provider.fill_random(psk.as_mut_slice()).map_err(|_| MintInvalid::NoRandom)?;
        let init_exp_s = now_s.saturating_add(i64::from(self.minting.init_window_s));
        let grant = |role: Role| {
            let minting = &self.minting;
            let peer = match role {
                Role::Client => &minting.statics[1],
                Role::Server => &minting.statics[0],
            };
            Ok(Grant {
                tunnel_url: minting.tunnel_url.clone(),
                channel_id: channel_id.clone(),
                init_exp_s,
                idle_timeout_s: minting.idle_timeout_s,
                role,
                token: self.token(&channel_id, role, init_exp_s, now_s)?,
                psk: psk.clone(),
                allowed_suites: minting.suites.clone(),
                default_suite: minting.suites.first().copied().unwrap_or_default(),
                noise_pattern: minting.is_native().then(|| minting.noise_pattern.clone()),
                peer_static: peer.clone().filter(|_| minting.is_native()),
            })
        };
        Ok([grant(Role::Client)?, grant(Role::Server)?])
    }

    /// Returns the same grant with a fresh token: channel, key and `init_exp` stay.
    ///
    /// # Errors
    /// [`MintInvalid`] if the channel's time to begin is over, or the generator fails.
    pub fn reissue(&self, grant: &Grant, now_s: i64) -> Result<Grant, MintInvalid> {
        if grant.init_exp_s <= now_s {
            return Err(MintInvalid::InitOver);
        }
        let token = self.token(&grant.channel_id, grant.role, grant.init_exp_s, now_s)?;
        Ok(Grant { token, ..grant.clone() })
    }

    fn token(&self, channel_id: &str, role: Role, init_exp_s: i64, now_s: i64) -> Result<String, MintInvalid> {
        let minting = &self.minting;
        let is_fst2 = minting.token_form == TokenForm::Fst2;
        let claims = Claims {
            form: minting.token_form,
            kid: self.key.kid().to_owned(),
            aud: minting.aud.clone(),
            iss: minting.iss.clone(),
            channel_id: channel_id.to_owned(),
            role: i64::from(role.number()),
            token_id: random_name(self.provider)?,
            init_exp: init_exp_s,
            iat: now_s,
            exp: init_exp_s.min(now_s.saturating_add(i64::from(minting.token_ttl_s))),
            idle_timeout_s: (minting.idle_claim || is_fst2).then_some(minting.idle_timeout_s),
        };
        Ok(claims.sign(&self.key))
    }
}

/// Draws a name or a token that nobody can guess: 24 random bytes in base64url.
///
/// # Errors
/// [`MintInvalid::NoRandom`].
pub fn random_name(provider: &dyn Provider) -> Result<String, MintInvalid> {
    let mut bytes = [0; NAME_LEN];
    provider.fill_random(&mut bytes).map_err(|_| MintInvalid::NoRandom)?;
    Ok(b64u::encode(&bytes))
}

#[cfg(test)]
mod tests;
