//! Bearer tokens: JSON Web Tokens (RFC 7519) verified with the keys of a JWKS file (RFC 7517).

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::Mutex;
use sealway_runtime::config::{ConfigError, read_bounded};
use serde_json::{Map, Value};

use crate::answer::Refusal;

const FILE_LEN_MAX: u64 = 256 * 1024;
const KEYS_MAX: usize = 64;

/// Source of keys and required claims of tokens.
#[derive(Clone, Debug)]
pub struct TokenPolicy {
    /// File with the keys. Read again when it changes.
    pub jwks_file: PathBuf,
    /// The only accepted `iss`; any if `None`.
    pub issuer: Option<String>,
    /// The only accepted `aud`; any if `None`.
    pub audience: Option<String>,
    /// Tolerance for the clock in `exp` and `nbf`, in seconds.
    pub leeway_sec: u64,
}

struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// Verifies tokens with the keys of a file.
pub struct TokenVerifier {
    policy: TokenPolicy,
    keys: ArcSwap<Vec<Key>>,
    modified: Mutex<Option<SystemTime>>,
}

impl TokenVerifier {
    /// Reads the key file of a policy.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and the key at fault.
    pub fn load(policy: TokenPolicy) -> Result<Self, ConfigError> {
        let modified = modified(&policy.jwks_file);
        let keys = load_keys(&policy.jwks_file)?;
        Ok(TokenVerifier { policy, keys: ArcSwap::from_pointee(keys), modified: Mutex::new(modified) })
    }

    /// Reads the key file again if it has changed. If it cannot be read, the old keys stay in force.
    pub fn reload_if_changed(&self) {
        let now = modified(&self.policy.jwks_file);
        let mut known = self.modified.lock();
        if *known == now {
            return;
        }
        match load_keys(&self.policy.jwks_file) {
            Ok(keys) => {
                // Set only now, so that a file that could not be read is tried again.
                *known = now;
                tracing::info!(keys = keys.len(), "token keys reloaded");
                self.keys.store(keys.into());
            }
            Err(err) => tracing::error!(%err, "token keys not reloaded; the loaded ones stay in use"),
        }
    }

    /// Verifies a token; returns its claims.
    ///
    /// # Errors
    /// [`Refusal::Token`].
    pub fn verify(&self, token: &str) -> Result<Map<String, Value>, Refusal> {
        let header = decode_header(token).map_err(|_| Refusal::Token("malformed"))?;
        // RFC 7515 section 4.1.11: an unknown critical extension makes the token invalid. This verifier knows none.
        if header.crit.is_some() {
            return Err(Refusal::Token("critical extension"));
        }
        let keys = self.keys.load();
        let candidates = keys.iter().filter(|key| {
            key.algorithms.contains(&header.alg) && (header.kid.is_none() || key.id.is_none() || key.id == header.kid)
        });
        let mut refusal = Refusal::Token("no key for it");
        for candidate in candidates {
            // The algorithm comes from the key's own type, never from the token alone.
            let mut validation = Validation::new(header.alg);
            validation.leeway = self.policy.leeway_sec;
            validation.validate_nbf = true;
            validation.set_required_spec_claims(&["exp"]);
            match &self.policy.issuer {
                Some(issuer) => {
                    validation.set_issuer(&[issuer]);
                    validation.required_spec_claims.insert("iss".into());
                }
                None => validation.iss = None,
            }
            match &self.policy.audience {
                Some(audience) => {
                    validation.set_audience(&[audience]);
                    validation.required_spec_claims.insert("aud".into());
                }
                None => validation.validate_aud = false,
            }
            match decode(token, &candidate.key, &validation) {
                Ok(data) => return Ok(data.claims),
                Err(err) => refusal = Refusal::Token(reason(&err)),
            }
        }
        Err(refusal)
    }
}

impl std::fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenVerifier").field("policy", &self.policy).finish_non_exhaustive()
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn reason(err: &jsonwebtoken::errors::Error) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match err.kind() {
        ErrorKind::InvalidSignature => "signature",
        ErrorKind::ExpiredSignature => "expired",
        ErrorKind::ImmatureSignature => "not yet valid",
        ErrorKind::InvalidIssuer => "issuer",
        ErrorKind::InvalidAudience => "audience",
        ErrorKind::MissingRequiredClaim(_) => "a claim is missing",
        _ => "malformed",
    }
}

/// Loads the keys of a JWKS file. Public keys only: an `oct` key in a file that many can read would let each reader
/// forge tokens.
fn load_keys(path: &Path) -> Result<Vec<Key>, ConfigError> {
    let fail = |what: String| ConfigError(format!("{}: {what}", path.display()));
    let set: JwkSet = serde_json::from_str(&read_bounded(path, FILE_LEN_MAX)?)
        .map_err(|err| fail(format!("not a JSON Web Key Set: {err}")))?;
    if set.keys.is_empty() || set.keys.len() > KEYS_MAX {
        return Err(fail(format!("expected 1 to {KEYS_MAX} keys")));
    }
    let mut keys = Vec::new();
    for (index, jwk) in set.keys.iter().enumerate() {
        if matches!(&jwk.common.public_key_use, Some(PublicKeyUse::Encryption)) {
            continue;
        }
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
                EllipticCurve::P256 => vec![Algorithm::ES256],
                EllipticCurve::P384 => vec![Algorithm::ES384],
                _ => return Err(fail(format!("keys[{index}].crv: only P-256 and P-384 are taken"))),
            },
            AlgorithmParameters::RSA(_) => vec![
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
            AlgorithmParameters::OctetKeyPair(pair) => match pair.curve {
                EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
                _ => return Err(fail(format!("keys[{index}].crv: only Ed25519 is taken"))),
            },
            _ => return Err(fail(format!("keys[{index}]: only public keys (EC, RSA, OKP) are taken"))),
        };
        if let Some(named) = jwk.common.key_algorithm {
            let named = named.to_string().parse::<Algorithm>();
            let named = named.map_err(|_| fail(format!("keys[{index}].alg: not a signature algorithm")))?;
            algorithms.retain(|algorithm| *algorithm == named);
            if algorithms.is_empty() {
                return Err(fail(format!("keys[{index}].alg: does not fit the key's type")));
            }
        }
        let key = DecodingKey::from_jwk(jwk).map_err(|err| fail(format!("keys[{index}]: {err}")))?;
        keys.push(Key { id: jwk.common.key_id.clone(), algorithms, key });
    }
    if keys.is_empty() {
        return Err(fail("no key may verify signatures".into()));
    }
    Ok(keys)
}
