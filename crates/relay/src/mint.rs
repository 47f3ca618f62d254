//! Minting: an issuer makes the two grants of a channel, or a fresh token for a grant. SPEC relay.md#grants
//!
//! The relay itself has no part in it: it knows public keys alone.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Claims, Grant, IssuerKey, KEYSET_LEN_MAX, NATIVE_SUITE_MIN, Role, b64u_encode};
use zeroize::{Zeroize, Zeroizing};

/// Random bytes of a channel's or a token's name.
const NAME_LEN: usize = 24;
/// Longest name of a channel that may be asked for, in bytes.
pub const CHANNEL_ID_LEN_MAX: usize = 256;

/// What cannot be minted, read or written: a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MintError(String);

/// How grants are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minting {
    /// The relay's URL, `ws://` or `wss://`.
    pub tunnel_url: String,
    /// The audience: the relay's `--aud`.
    pub aud: String,
    /// The issuer's name; may be empty.
    pub iss: String,
    /// How long a channel has to begin, in seconds.
    pub init_window_s: u32,
    /// How long a token may be used, in seconds; at most until the channel must have begun.
    pub token_ttl_s: u32,
    /// How long a channel may stay without a message, in seconds.
    pub idle_timeout_s: u32,
    /// Says that in tokens too, so that the relay holds the channel to it. v1's first issuers did not.
    pub idle_claim: bool,
    /// The suites that are allowed, the default one first; 1 to 64, all of one profile.
    pub suites: Vec<u16>,
    /// The Noise pattern, for native suites.
    pub noise_pattern: String,
    /// Static public keys of client and server endpoint, where they are pinned; each is told the other's.
    pub statics: [Option<Vec<u8>>; 2],
}

impl Minting {
    /// The defaults of v1: suite 1 alone.
    pub fn flowersec_v1(tunnel_url: &str, aud: &str, iss: &str) -> Self {
        Minting {
            tunnel_url: tunnel_url.into(),
            aud: aud.into(),
            iss: iss.into(),
            init_window_s: 120,
            token_ttl_s: 60,
            idle_timeout_s: 60,
            idle_claim: false,
            suites: vec![1],
            noise_pattern: String::new(),
            statics: [None, None],
        }
    }

    /// The defaults of the native profile.
    pub fn native(tunnel_url: &str, aud: &str, iss: &str) -> Self {
        Minting {
            idle_claim: true,
            suites: vec![NATIVE_SUITE_MIN + 1],
            noise_pattern: "NNpsk0".into(),
            ..Minting::flowersec_v1(tunnel_url, aud, iss)
        }
    }

    fn is_native(&self) -> bool {
        self.suites.first().is_some_and(|suite| *suite >= NATIVE_SUITE_MIN)
    }
}

/// Whoever mints.
#[derive(Debug)]
pub struct Issuer {
    key: IssuerKey,
    minting: Minting,
}

impl Issuer {
    /// With a key, checked settings and no more.
    ///
    /// # Errors
    /// [`MintError`] when the suites are of two profiles, or there is none.
    pub fn new(key: IssuerKey, minting: Minting) -> Result<Self, MintError> {
        let is_native = minting.is_native();
        let is_one = minting.suites.iter().all(|suite| (*suite >= NATIVE_SUITE_MIN) == is_native);
        if minting.suites.is_empty() || minting.suites.len() > 64 || !is_one {
            return Err(MintError("the suites of a grant are 1 to 64, of one profile".into()));
        }
        Ok(Issuer { key, minting })
    }

    /// The grants of a channel, the client's first. Without a name it gets a random one.
    ///
    /// # Errors
    /// [`MintError`] for a name that is empty or longer than 256 bytes, or when the generator fails.
    pub fn pair(&self, channel_id: Option<&str>, now_s: i64) -> Result<[Grant; 2], MintError> {
        let channel_id = match channel_id {
            Some(name) if name.is_empty() || name.len() > CHANNEL_ID_LEN_MAX => {
                return Err(MintError(format!("a channel's name has 1 to {CHANNEL_ID_LEN_MAX} bytes")));
            }
            Some(name) => name.to_owned(),
            None => random_name()?,
        };
        let mut psk = Zeroizing::new([0; 32]);
        fill(psk.as_mut_slice())?;
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

    /// The same grant with a fresh token: channel, key and `init_exp` stay.
    ///
    /// # Errors
    /// [`MintError`] when the channel's time to begin is over, or the generator fails.
    pub fn reissue(&self, grant: &Grant, now_s: i64) -> Result<Grant, MintError> {
        if grant.init_exp_s <= now_s {
            return Err(MintError("the channel's time to begin is over".into()));
        }
        let token = self.token(&grant.channel_id, grant.role, grant.init_exp_s, now_s)?;
        Ok(Grant { token, ..grant.clone() })
    }

    fn token(&self, channel_id: &str, role: Role, init_exp_s: i64, now_s: i64) -> Result<String, MintError> {
        let minting = &self.minting;
        let claims = Claims {
            kid: self.key.kid().to_owned(),
            aud: minting.aud.clone(),
            iss: minting.iss.clone(),
            channel_id: channel_id.to_owned(),
            role: i64::from(role.number()),
            token_id: random_name()?,
            init_exp: init_exp_s,
            iat: now_s,
            exp: init_exp_s.min(now_s.saturating_add(i64::from(minting.token_ttl_s))),
            idle_timeout_s: minting.idle_claim.then_some(minting.idle_timeout_s),
        };
        Ok(claims.sign(&self.key))
    }
}

fn fill(out: &mut [u8]) -> Result<(), MintError> {
    default_provider().fill_random(out).map_err(|_| MintError("the crypto module gives no random bytes".into()))
}

fn random_name() -> Result<String, MintError> {
    let mut bytes = [0; NAME_LEN];
    fill(&mut bytes)?;
    Ok(b64u_encode(&bytes))
}

/// Reads an issuer's key file.
///
/// # Errors
/// [`MintError`], naming the file.
pub fn read_issuer_key(path: &Path) -> Result<IssuerKey, MintError> {
    let explain = |err: &dyn fmt::Display| MintError(format!("{}: {err}", path.display()));
    let file = fs::File::open(path).map_err(|err| explain(&err))?;
    // Room for all of it at once: a buffer that grows leaves copies of a key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEYSET_LEN_MAX + 2));
    file.take(KEYSET_LEN_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|err| explain(&err))?;
    IssuerKey::parse(&bytes, default_signatures()).map_err(|err| explain(&err))
}

/// Makes an issuer's key (a new file that its owner alone may read) and the keyset with its public half.
///
/// # Errors
/// [`MintError`], also when the key file is there already.
pub fn make_keys(kid: &str, key_file: &Path, keyset_file: &Path) -> Result<(), MintError> {
    let explain = |path: &Path, err: &dyn fmt::Display| MintError(format!("{}: {err}", path.display()));
    let mut seed = [0; 32];
    fill(&mut seed)?;
    let key = IssuerKey::from_seed(kid, &seed, default_signatures()).map_err(|err| MintError(err.to_string()));
    let text = IssuerKey::encode_seed(kid, &seed);
    seed.zeroize();
    let key = key?;
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(key_file);
    let mut file = file.map_err(|err| explain(key_file, &err))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|err| explain(key_file, &err))?;
    let mut keyset = key.keyset_text();
    keyset.push('\n');
    fs::write(keyset_file, keyset).map_err(|err| explain(keyset_file, &err))
}

#[cfg(test)]
mod tests {
    use sealway_proto::relay::{Expected, Keyset, verify};

    use super::*;

    #[test]
    fn what_is_minted_verifies_with_the_keyset_that_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let (key_file, keyset_file) = (folder.path().join("issuer.json"), folder.path().join("keys.json"));
        make_keys("k1", &key_file, &keyset_file).unwrap();
        assert!(make_keys("k1", &key_file, &keyset_file).is_err(), "a key is not overwritten");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&key_file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let keys = Keyset::parse(&fs::read(&keyset_file).unwrap(), default_signatures()).unwrap();
        let expected = Expected { aud: vec!["a".into()], iss: vec!["i".into()], lifetime_max_s: 120 };
        for minting in [Minting::native("ws://r/ws", "a", "i"), Minting::flowersec_v1("ws://r/ws", "a", "i")] {
            let is_native = minting.is_native();
            let issuer = Issuer::new(read_issuer_key(&key_file).unwrap(), minting).unwrap();
            let [client, server] = issuer.pair(None, 1000).unwrap();
            assert_eq!((client.channel_id.len(), &client.channel_id), (32, &server.channel_id));
            assert!(client.psk == server.psk && client.token != server.token);
            assert_eq!(client.is_native(), is_native);
            for grant in [&client, &server, &issuer.reissue(&client, 1100).unwrap()] {
                let claims = verify(&grant.token, &keys, &expected, 1010)
                    .unwrap_or_else(|_| verify(&grant.token, &keys, &expected, 1110).unwrap());
                assert_eq!(
                    (claims.init_exp, claims.exp.min(1060), claims.idle_timeout_s),
                    (1120, 1060, is_native.then_some(60))
                );
                assert_eq!(&Grant::parse(grant.encode().as_bytes()).unwrap(), grant);
            }
            assert!(issuer.reissue(&client, 1120).is_err() && issuer.pair(Some(""), 1000).is_err());
        }
    }
}
