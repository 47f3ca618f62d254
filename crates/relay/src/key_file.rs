//! Key files of issuers: the issuer has one, and a relay has its public half in a keyset.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Binding, IssuerKey, KEYSET_LEN_MAX};
use zeroize::{Zeroize, Zeroizing};

/// An error of reading or writing a key file: a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct KeyFileError(String);

/// Reads an issuer's key file.
///
/// # Errors
/// [`KeyFileError`], naming the file.
pub fn read_issuer_key(path: &Path) -> Result<IssuerKey, KeyFileError> {
    let explain = |err: &dyn fmt::Display| KeyFileError(format!("{}: {err}", path.display()));
    let file = fs::File::open(path).map_err(|err| explain(&err))?;
    // The whole capacity at once: a buffer that grows leaves copies of a key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEYSET_LEN_MAX + 2));
    file.take(KEYSET_LEN_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|err| explain(&err))?;
    IssuerKey::parse(&bytes, default_signatures()).map_err(|err| explain(&err))
}

/// Creates an issuer's key (a new file that only its owner may read) and the keyset with its public half and its binding.
///
/// # Errors
/// [`KeyFileError`], also if the key file exists already.
pub fn make_keys(kid: &str, binding: &Binding, key_file: &Path, keyset_file: &Path) -> Result<(), KeyFileError> {
    let explain = |path: &Path, err: &dyn fmt::Display| KeyFileError(format!("{}: {err}", path.display()));
    let mut seed = [0; 32];
    let drawn = default_provider().fill_random(&mut seed);
    drawn.map_err(|_| KeyFileError("the crypto module gives no random bytes".into()))?;
    let key = IssuerKey::from_seed(kid, &seed, default_signatures()).map_err(|err| KeyFileError(err.to_string()));
    let text = IssuerKey::encode_seed(kid, &seed);
    seed.zeroize();
    let key = key?;
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(key_file);
    let mut file = file.map_err(|err| match err.kind() {
        ErrorKind::AlreadyExists => explain(key_file, &"the file must not exist yet: a key is not overwritten"),
        _ => explain(key_file, &err),
    })?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|err| explain(key_file, &err))?;
    let mut keyset = key.bound_keyset_text(binding);
    keyset.push('\n');
    fs::write(keyset_file, keyset).map_err(|err| {
        // A key without its keyset is of no use, and would be in the way of the next attempt.
        let _ = fs::remove_file(key_file);
        explain(keyset_file, &err)
    })
}

#[cfg(test)]
mod tests {
    use sealway_proto::relay::{Grant, Issuer, Keyset, Minting, Requirements, verify};

    use super::*;

    #[test]
    fn a_minted_token_verifies_with_the_written_keyset() {
        let folder = tempfile::tempdir().unwrap();
        let (key_file, keyset_file) = (folder.path().join("issuer.json"), folder.path().join("keys.json"));
        let binding = Binding { iss: Some("i".into()), aud: Some(vec!["a".into()]) };
        make_keys("k1", &binding, &key_file, &keyset_file).unwrap();
        assert!(make_keys("k1", &binding, &key_file, &keyset_file).is_err(), "a key is not overwritten");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&key_file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let keys = Keyset::parse(&fs::read(&keyset_file).unwrap(), default_signatures()).unwrap();
        let expected = Requirements { aud: vec!["a".into()], iss: vec!["i".into()], lifetime_max_s: 120 };
        for minting in [Minting::native("ws://r/ws", "a", "i"), Minting::flowersec_v1("ws://r/ws", "a", "i")] {
            let is_native = minting.suites != [1];
            let issuer = Issuer::new(read_issuer_key(&key_file).unwrap(), minting, default_provider()).unwrap();
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
