//! Grants for channels, minted by whoever holds an issuer's key: what a control plane does, without its HTTP and without a
//! word on who may ask. SPEC relay.md#grants
//!
//! It may not know: how relays verify.

use std::time::Duration;

use sealway_proto::channel::Suite;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Claims, Grant, GrantInvalid, IssuerKey, Role, b64u_encode};
use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::error::{Error, Stage};
use super::handshake::now_s;

/// Bytes of a channel's name and of a token's, before base64url.
const NAME_LEN: usize = 24;

/// Signs tokens. Its `Debug` shows the key's name alone.
#[derive(Debug)]
pub struct Issuer(IssuerKey);

/// What grants are minted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minting {
    /// The relay: `ws://` or `wss://`.
    pub relay_url: String,
    /// The audience that the relay is; may be empty.
    pub aud: String,
    /// The issuer's name; may be empty.
    pub iss: String,
    /// The suite, by its number.
    pub suite: u16,
    /// How long a token may be used, in whole seconds; no longer than the channel may take to begin.
    pub token_time: Duration,
    /// How long the channel may take to begin, in whole seconds.
    pub init_time: Duration,
    /// How long the channel may stay without a message: what the grant says, and not the token.
    pub idle_timeout: Duration,
}

impl Minting {
    /// With v1's times: tokens for 60 s, channels that begin within 120 s and may be idle for 60 s.
    pub fn new(relay_url: impl Into<String>, suite: u16) -> Self {
        Minting {
            relay_url: relay_url.into(),
            aud: String::new(),
            iss: String::new(),
            suite,
            token_time: Duration::from_secs(60),
            init_time: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(60),
        }
    }
}

impl Issuer {
    /// A new key that nobody else has.
    ///
    /// # Errors
    /// Where the crypto module has no randomness.
    pub fn draw(kid: &str) -> Result<Self, Error> {
        let mut seed = Zeroizing::new([0; 32]);
        fill(&mut seed[..])?;
        IssuerKey::from_seed(kid, &seed, default_signatures())
            .map(Issuer)
            .map_err(|err| fault("issuer_key_invalid", &err))
    }

    /// Reads an issuer's key file.
    ///
    /// # Errors
    /// What is wrong with it, without its content.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        IssuerKey::parse(bytes, default_signatures()).map(Issuer).map_err(|err| fault("issuer_key_invalid", &err))
    }

    /// The keyset by which a relay verifies what this key signs.
    pub fn keyset_text(&self) -> String {
        self.0.keyset_text()
    }

    /// Mints the grants of a new channel: the client's and the server's.
    ///
    /// # Errors
    /// An unknown suite, or no randomness.
    pub fn mint(&self, what: &Minting) -> Result<(Grant, Grant), Error> {
        let suite = Suite::from_id(what.suite).map_err(|err| fault("suite_unsupported", &err))?;
        let mut psk = Zeroizing::new([0; 32]);
        fill(&mut psk[..])?;
        let now = i64::try_from(now_s()).unwrap_or(i64::MAX);
        let in_seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let init_exp = now.saturating_add(in_seconds(what.init_time));
        let channel_id = name()?;
        let grant = |role: Role| -> Result<Grant, Error> {
            let claims = Claims {
                kid: self.0.kid().to_owned(),
                aud: what.aud.clone(),
                iss: what.iss.clone(),
                channel_id: channel_id.clone(),
                role: i64::from(role.number()),
                token_id: name()?,
                init_exp,
                iat: now,
                exp: init_exp.min(now.saturating_add(in_seconds(what.token_time))),
                idle_timeout_s: None,
            };
            Ok(Grant {
                tunnel_url: what.relay_url.clone(),
                channel_id: channel_id.clone(),
                init_exp_s: init_exp,
                idle_timeout_s: u32::try_from(what.idle_timeout.as_secs()).unwrap_or(u32::MAX),
                role,
                token: claims.sign(&self.0),
                psk: psk.clone(),
                allowed_suites: vec![what.suite],
                default_suite: what.suite,
                noise_pattern: match suite {
                    Suite::Native(native) => Some(native.pattern.name().to_owned()),
                    Suite::V1(_) => None,
                },
                peer_static: None,
            })
        };
        Ok((grant(Role::Client)?, grant(Role::Server)?))
    }
}

/// Suites whose ends have no keys of their own, so that a grant is all they need: number, name, whether it is native.
pub fn keyless_suites() -> Vec<(u16, String, bool)> {
    let keyless = |suite: &Suite| match suite {
        Suite::Native(native) => !native.pattern.has_static_keys(),
        Suite::V1(_) => true,
    };
    Suite::all().filter(keyless).map(|suite| (suite.id(), suite.name(), suite.is_native())).collect()
}

/// Reads what a control plane answers: `{"grant_client":{…},"grant_server":{…}}`.
///
/// # Errors
/// `psk_invalid` where a channel's secret is at fault, else `grant_invalid`; with the member.
pub fn parse_pair(bytes: &[u8]) -> Result<(Grant, Grant), Error> {
    let invalid = |text: String| Error::new(Stage::Grant, "grant_invalid", text);
    let mut pair: Value = serde_json::from_slice(bytes).map_err(|_| invalid("the answer is not JSON".into()))?;
    let mut one = |name: &str, role: Role| -> Result<Grant, Error> {
        let mut value = pair.get_mut(name).map(Value::take).unwrap_or_default();
        let text = Zeroizing::new(value.to_string());
        if let Some(Value::String(secret)) = value.get_mut("e2ee_psk_b64u") {
            secret.zeroize();
        }
        let grant = Grant::parse(text.as_bytes()).map_err(|err| of_grant(name, &err))?;
        if grant.role != role {
            return Err(invalid(format!("{name} is of the other role")));
        }
        Ok(grant)
    };
    let grants = (one("grant_client", Role::Client)?, one("grant_server", Role::Server)?);
    if grants.0.channel_id != grants.1.channel_id {
        return Err(invalid("the two grants are of different channels".into()));
    }
    Ok(grants)
}

/// The text that [`parse_pair`] reads, on one line; it holds secrets.
pub fn encode_pair(client: &Grant, server: &Grant) -> Zeroizing<String> {
    let (client, server) = (client.encode(), server.encode());
    let mut out = Zeroizing::new(String::with_capacity(client.len() + server.len() + 64));
    for part in [r#"{"grant_client":"#, &client, r#","grant_server":"#, &server, "}"] {
        out.push_str(part);
    }
    out
}

fn of_grant(name: &str, err: &GrantInvalid) -> Error {
    let code = if err.0 == "e2ee_psk_b64u" { "psk_invalid" } else { "grant_invalid" };
    Error::new(Stage::Grant, code, format!("{name}: {err}"))
}

fn name() -> Result<String, Error> {
    let mut bytes = [0; NAME_LEN];
    fill(&mut bytes)?;
    Ok(b64u_encode(&bytes))
}

fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    default_provider().fill_random(bytes).map_err(|err| fault("provider", &err))
}

fn fault(code: &'static str, err: &dyn std::fmt::Display) -> Error {
    Error::new(Stage::Grant, code, err.to_string())
}

#[cfg(test)]
mod tests {
    use sealway_proto::relay::{Expected, Keyset, verify};

    use super::*;

    #[test]
    fn a_relay_takes_both_tokens_of_a_minted_channel_and_the_grants_agree() {
        let issuer = Issuer::draw("k1").unwrap();
        let keys = Keyset::parse(issuer.keyset_text().as_bytes(), default_signatures()).unwrap();
        for (suite, name, is_native) in keyless_suites() {
            let minting = Minting { aud: "here".into(), ..Minting::new("ws://127.0.0.1:1/ws", suite) };
            let (client, server) = issuer.mint(&minting).unwrap();
            assert_eq!((client.is_native(), client.psk == server.psk), (is_native, true), "{name}");
            let expected = Expected { aud: vec!["here".into()], ..Expected::default() };
            for grant in [&client, &server] {
                let claims = verify(&grant.token, &keys, &expected, now_s() as i64).unwrap();
                assert_eq!((claims.role, &claims.channel_id), (i64::from(grant.role.number()), &client.channel_id));
            }
            assert_ne!(client.token, server.token);
            let read = parse_pair(encode_pair(&client, &server).as_bytes()).unwrap();
            assert_eq!(read, (client, server));
        }
    }

    #[test]
    fn a_pair_with_a_bad_secret_another_role_or_no_json_is_refused_by_name() {
        let issuer = Issuer::draw("k1").unwrap();
        let (client, server) = issuer.mint(&Minting::new("ws://127.0.0.1:1/ws", 0x100)).unwrap();
        let good = encode_pair(&client, &server);
        let secret = b64u_encode(&client.psk[..]);
        let code = |text: &str| parse_pair(text.as_bytes()).unwrap_err().code;
        assert_eq!(code(&good.replace(&secret, "AAAA")), "psk_invalid");
        assert_eq!(code(&encode_pair(&server, &client)), "grant_invalid");
        assert_eq!(code("{"), "grant_invalid");
        assert_eq!(code("{}"), "grant_invalid");
    }
}
