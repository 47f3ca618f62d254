//! Grants for channels, minted with an issuer's key: a control plane's work without its HTTP and its access rules.
//! SPEC relay.md#grants
//!
//! The module does not know how relays verify tokens.

use sealway_proto::channel::Suite;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Grant, GrantInvalid, Role};
pub use sealway_proto::relay::{Issuer, IssuerKey, Minting};
use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::error::{Error, Stage};
use super::handshake::now_s;

/// Generates a new issuer key at random.
///
/// # Errors
/// `provider`, if the crypto module has no randomness.
pub fn draw_key(kid: &str) -> Result<IssuerKey, Error> {
    let mut seed = Zeroizing::new([0; 32]);
    default_provider().fill_random(&mut seed[..]).map_err(|err| fault("provider", &err))?;
    IssuerKey::from_seed(kid, &seed, default_signatures()).map_err(|err| fault("issuer_key_invalid", &err))
}

/// Reads an issuer's key from the bytes of its file.
///
/// # Errors
/// `issuer_key_invalid` with the defect, without the file's content.
pub fn parse_key(bytes: &[u8]) -> Result<IssuerKey, Error> {
    IssuerKey::parse(bytes, default_signatures()).map_err(|err| fault("issuer_key_invalid", &err))
}

/// Creates an issuer that mints with `key` by the settings in `minting`.
///
/// # Errors
/// `suite_unsupported` for suites of two profiles, or none.
pub fn issuer(key: IssuerKey, minting: Minting) -> Result<Issuer, Error> {
    Issuer::new(key, minting, default_provider()).map_err(|err| fault("suite_unsupported", &err))
}

/// Mints the grants of a new channel: the client's and the server's.
///
/// # Errors
/// `provider`, if the crypto module has no randomness.
pub fn pair(issuer: &Issuer) -> Result<(Grant, Grant), Error> {
    let now = i64::try_from(now_s()).unwrap_or(i64::MAX);
    let [client, server] = issuer.pair(None, now).map_err(|err| fault("provider", &err))?;
    Ok((client, server))
}

/// Settings for grants of one suite without static keys.
///
/// # Errors
/// `suite_unsupported` for a number that no suite has.
pub fn minting(relay_url: &str, aud: &str, iss: &str, suite: u16) -> Result<Minting, Error> {
    let known = Suite::from_id(suite).map_err(|err| fault("suite_unsupported", &err))?;
    let noise_pattern = match known {
        Suite::Native(native) => native.pattern.name().to_owned(),
        Suite::V1(_) => String::new(),
    };
    // Idle settings are left out, so that the relay's own default applies.
    Ok(Minting { suites: vec![suite], noise_pattern, ..Minting::flowersec_v1(relay_url, aud, iss) })
}

/// Suites without static keys, which need nothing but a grant: number, name, and a flag for the native profile.
pub fn keyless_suites() -> Vec<(u16, String, bool)> {
    let keyless = |suite: &Suite| match suite {
        Suite::Native(native) => !native.pattern.has_static_keys(),
        Suite::V1(_) => true,
    };
    Suite::all().filter(keyless).map(|suite| (suite.id(), suite.name(), suite.is_native())).collect()
}

/// Reads the answer of a control plane: `{"grant_client":{…},"grant_server":{…}}`.
///
/// # Errors
/// `psk_invalid` if a channel's secret is malformed, else `grant_invalid`; both name the member.
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

/// Encodes two grants as the one line that [`parse_pair`] reads; it holds secrets.
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

fn fault(code: &'static str, err: &dyn std::fmt::Display) -> Error {
    Error::new(Stage::Grant, code, err.to_string())
}

#[cfg(test)]
mod tests {
    use sealway_proto::relay::{Keyset, Requirements, b64u_encode, verify};

    use super::*;

    fn minted(suite: u16) -> (Keyset, (Grant, Grant)) {
        let key = draw_key("k1").unwrap();
        let keys = Keyset::parse(key.keyset_text().as_bytes(), default_signatures()).unwrap();
        let minting = minting("ws://127.0.0.1:1/ws", "here", "", suite).unwrap();
        (keys, pair(&issuer(key, minting).unwrap()).unwrap())
    }

    #[test]
    fn a_relay_takes_both_tokens_of_a_minted_channel_and_the_grants_agree() {
        for (suite, name, is_native) in keyless_suites() {
            let (keys, (client, server)) = minted(suite);
            assert_eq!((client.is_native(), client.psk == server.psk), (is_native, true), "{name}");
            let expected = Requirements { aud: vec!["here".into()], ..Requirements::default() };
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
        let (_, (client, server)) = minted(0x100);
        let good = encode_pair(&client, &server);
        let secret = b64u_encode(&client.psk[..]);
        let code = |text: &str| parse_pair(text.as_bytes()).unwrap_err().code;
        assert_eq!(code(&good.replace(&secret, "AAAA")), "psk_invalid");
        assert_eq!(code(&encode_pair(&server, &client)), "grant_invalid");
        assert_eq!(code("{"), "grant_invalid");
        assert_eq!(code("{}"), "grant_invalid");
    }
}
