//! Bearer tokens: accepted key files, and rejection of the many ways to forge a token. Each run makes new keys; tokens
//! are assembled by hand, since a library would not write most of them.
#![allow(clippy::disallowed_methods, reason = "tokens are checked against the system's clock by their library")]

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealway_sessions::Refusal;
use sealway_sessions::authentication::{ClaimNames, Scheme, Token, credential};
use sealway_sessions::token::{TokenPolicy, TokenVerifier};
use serde_json::{Value, json};

enum Signer {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn es256() -> Self {
        Signer::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn all() -> [Self; 3] {
        [
            Signer::es256(),
            Signer::Rs256(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
            Signer::EdDsa(Ed25519KeyPair::generate().unwrap()),
        ]
    }

    fn alg(&self) -> &'static str {
        match self {
            Signer::Es256(_) => "ES256",
            Signer::Rs256(_) => "RS256",
            Signer::EdDsa(_) => "EdDSA",
        }
    }

    fn public(&self) -> Vec<u8> {
        match self {
            Signer::Es256(key) => key.public_key().as_ref().to_vec(),
            Signer::Rs256(key) => key.public_key().as_ref().to_vec(),
            Signer::EdDsa(key) => key.public_key().as_ref().to_vec(),
        }
    }

    fn jwk(&self, kid: &str) -> Value {
        let public = self.public();
        match self {
            Signer::Es256(_) => {
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": b64(&public[1..33]), "y": b64(&public[33..])})
            }
            Signer::Rs256(key) => {
                let parts = PublicKeyComponents::<Vec<u8>>::from(key.public_key());
                json!({"kty": "RSA", "kid": kid, "alg": "RS256", "n": b64(parts.n), "e": b64(parts.e)})
            }
            Signer::EdDsa(_) => json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(public)}),
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Signer::Es256(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Signer::Rs256(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Signer::EdDsa(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// Returns a value for `Authorization` with a signed token.
    fn bearer(&self, kid: &str, claims: &Value) -> String {
        self.bearer_with(&json!({"alg": self.alg(), "typ": "JWT", "kid": kid}), claims)
    }

    fn bearer_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = self.sign(message.as_bytes());
        format!("Bearer {message}.{}", b64(signature))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn good() -> Value {
    json!({"sub": "alice", "iss": "https://login.example", "aud": "sealway", "exp": now() + 600})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = good();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = good();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

struct Keys(tempfile::TempDir);

impl Keys {
    fn new(keys: Value) -> Self {
        let file = Keys(tempfile::tempdir().unwrap());
        std::fs::write(file.path(), json!({ "keys": keys }).to_string()).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("keys.json")
    }

    /// Rewrites the file with a modification time `age_sec` seconds ahead.
    fn rewrite(&self, text: &str, age_sec: u64) {
        std::fs::write(self.path(), text).unwrap();
        let file = std::fs::File::options().write(true).open(self.path()).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(age_sec)).unwrap();
    }

    fn try_load(&self, issuer: Option<&str>, audience: Option<&str>) -> Result<TokenVerifier, String> {
        TokenVerifier::load(TokenPolicy {
            jwks_file: self.path(),
            issuer: issuer.map(Into::into),
            audience: audience.map(Into::into),
            leeway_sec: 60,
        })
        .map_err(|err| err.to_string())
    }

    fn load(&self) -> TokenVerifier {
        self.try_load(Some("https://login.example"), Some("sealway")).unwrap()
    }
}

/// Verifies as an init does: scheme, token, subject.
fn verify(verifier: &TokenVerifier, authorization: &str) -> Result<Option<Box<str>>, Refusal> {
    let (Scheme::Bearer, token) = credential(authorization)? else { return Err(Refusal::Token("not a bearer token")) };
    Ok(Token::read(&verifier.verify(token)?, &ClaimNames::default())?.subject)
}

/// Asserts a rejection; neither the error nor its debug form contains the token or a part of it.
#[track_caller]
fn refused(verifier: &TokenVerifier, authorization: &str) -> &'static str {
    let refusal = verify(verifier, authorization).expect_err("a token that must not pass");
    for text in [refusal.to_string(), format!("{refusal:?}"), refusal.class().to_owned(), format!("{verifier:?}")] {
        for part in authorization.split(['.', ' ']).filter(|part| part.len() > 12) {
            assert!(!text.contains(part), "an error holds a part of the token: {text}");
        }
        assert!(!text.contains("alice"), "an error holds a claim: {text}");
    }
    match refusal {
        Refusal::Token(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tokens_of_each_kind_of_key_verify_and_name_their_subject() {
    let signers = Signer::all();
    let file = Keys::new(json!([signers[0].jwk("k0"), signers[1].jwk("k1"), signers[2].jwk("k2")]));
    let verifier = file.load();
    for (n, signer) in signers.iter().enumerate() {
        let subject = verify(&verifier, &signer.bearer(&format!("k{n}"), &good())).unwrap();
        assert_eq!(subject.as_deref(), Some("alice"), "{}", signer.alg());
        // Without a kid every key of the algorithm is tried.
        let subject = verify(&verifier, &signer.bearer_with(&json!({"alg": signer.alg()}), &good())).unwrap();
        assert_eq!(subject.as_deref(), Some("alice"), "{}", signer.alg());
        let changed = signer.bearer(&format!("k{n}"), &good()).replacen("Bearer ", "bEARER  ", 1);
        verify(&verifier, &changed).unwrap();
    }
    assert_eq!(verify(&verifier, &signers[0].bearer("k0", &without("sub"))).unwrap(), None);
    let many = with("aud", json!(["other", "sealway"]));
    assert_eq!(verify(&verifier, &signers[0].bearer("k0", &many)).unwrap().as_deref(), Some("alice"));
}

#[test]
fn claims_that_do_not_hold_are_refused() {
    let signer = Signer::es256();
    let verifier = Keys::new(json!([signer.jwk("k")])).load();
    let long = "x".repeat(257);
    for (claims, reason) in [
        (with("exp", json!(now() - 61)), "expired"),
        (without("exp"), "a claim is missing"),
        (with("exp", json!("soon")), "malformed"),
        (with("exp", Value::Null), "a claim is missing"),
        (with("nbf", json!(now() + 120)), "not yet valid"),
        (with("iss", json!("https://evil.example")), "issuer"),
        (without("iss"), "a claim is missing"),
        (with("aud", json!("another-service")), "audience"),
        (with("aud", json!([])), "audience"),
        (without("aud"), "a claim is missing"),
        (with("sub", json!(long)), "subject is too long"),
        (with("sub", json!(7)), "malformed"),
        (json!("not an object"), "malformed"),
    ] {
        let got = refused(&verifier, &signer.bearer("k", &claims));
        assert!(got == reason || reason == "malformed" && got == "a claim is missing", "{claims}: {got}");
    }
    // Within the leeway.
    verify(&verifier, &signer.bearer("k", &with("exp", json!(now() - 30)))).unwrap();
    verify(&verifier, &signer.bearer("k", &with("nbf", json!(now() + 30)))).unwrap();
}

#[test]
fn issuer_and_audience_are_required_only_if_configured_and_an_expiry_always() {
    let signer = Signer::es256();
    let verifier = Keys::new(json!([signer.jwk("k")])).try_load(None, None).unwrap();
    verify(&verifier, &signer.bearer("k", &good())).unwrap();
    verify(&verifier, &signer.bearer("k", &json!({"exp": now() + 60}))).unwrap();
    assert_eq!(refused(&verifier, &signer.bearer("k", &json!({"sub": "alice"}))), "a claim is missing");
}

#[test]
fn forged_tokens_are_refused() {
    let signers = Signer::all();
    let file = Keys::new(json!([signers[0].jwk("k0"), signers[1].jwk("k1"), signers[2].jwk("k2")]));
    let verifier = file.load();
    let claims = b64(good().to_string());

    // No signature at all.
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        let header = b64(json!({"alg": alg, "kid": "k0"}).to_string());
        refused(&verifier, &format!("Bearer {header}.{claims}."));
        refused(&verifier, &format!("Bearer {header}.{claims}"));
    }
    // A symmetric algorithm, keyed with public values.
    for (n, signer) in signers.iter().enumerate() {
        let jwk = signer.jwk(&format!("k{n}")).to_string().into_bytes();
        for secret in [signer.public(), jwk, Vec::new()] {
            for header in [json!({"alg": "HS256", "kid": format!("k{n}")}), json!({"alg": "HS256"})] {
                let message = format!("{}.{claims}", b64(header.to_string()));
                let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
                refused(&verifier, &format!("Bearer {message}.{}", b64(tag.as_ref())));
            }
        }
    }
    // Another key's signature, another algorithm's name, and a key from the token itself.
    let stranger = Signer::es256();
    assert_eq!(refused(&verifier, &stranger.bearer("k0", &good())), "signature");
    refused(&verifier, &signers[0].bearer_with(&json!({"alg": "RS256", "kid": "k0"}), &good()));
    refused(&verifier, &signers[1].bearer_with(&json!({"alg": "PS256", "kid": "k1"}), &good()));
    // The key file says RS256: a valid signature of another kind by the same key is rejected.
    if let Signer::Rs256(key) = &signers[1] {
        let message = format!("{}.{claims}", b64(json!({"alg": "PS256", "kid": "k1"}).to_string()));
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(&RSA_PSS_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature).unwrap();
        assert_eq!(refused(&verifier, &format!("Bearer {message}.{}", b64(signature))), "no key for it");
    }
    let own = json!({"alg": "ES256", "kid": "k0", "jwk": stranger.jwk("k0"), "jku": "https://evil.example/keys"});
    assert_eq!(refused(&verifier, &stranger.bearer_with(&own, &good())), "signature");
    // The token was changed after it was signed.
    let token = signers[0].bearer("k0", &good());
    let mut parts: Vec<String> = token.split('.').map(Into::into).collect();
    parts[1] = b64(with("sub", json!("mallory")).to_string());
    assert_eq!(refused(&verifier, &parts.join(".")), "signature");
}

#[test]
fn an_unknown_key_id_is_refused_even_if_the_signature_would_verify() {
    let signer = Signer::es256();
    let verifier = Keys::new(json!([signer.jwk("k")])).load();
    assert_eq!(refused(&verifier, &signer.bearer("other", &good())), "no key for it");
}

#[test]
fn a_token_with_a_critical_extension_that_is_not_understood_is_refused() {
    let signer = Signer::es256();
    let verifier = Keys::new(json!([signer.jwk("k")])).load();
    let header = json!({"alg": "ES256", "kid": "k", "crit": ["policy"], "policy": "none"});
    assert_eq!(refused(&verifier, &signer.bearer_with(&header, &good())), "critical extension");
}

#[test]
fn malformed_bearer_tokens_are_rejected() {
    let signer = Signer::es256();
    let verifier = Keys::new(json!([signer.jwk("k")])).load();
    let token = signer.bearer("k", &good());
    let oversized = signer.bearer("k", &with("filler", json!("x".repeat(8 * 1024))));
    for authorization in [
        oversized.as_str(),
        &token.replacen("Bearer", "Basic", 1),
        &token.replacen("Bearer ", "", 1),
        "Bearer",
        "Bearer ",
        "Bearer a.b.c",
        "Bearer ....",
        "Bearer \u{fe}\u{ff}",
    ] {
        refused(&verifier, authorization);
    }
}

#[test]
fn a_key_file_with_anything_but_public_signature_keys_is_refused_by_name() {
    let ec = Signer::es256().jwk("k");
    let oct = json!({"kty": "oct", "kid": "s", "k": b64([7; 32])});
    let p521 = json!({"kty": "EC", "crv": "P-521", "x": b64([1; 66]), "y": b64([1; 66])});
    let mut encrypts = ec.clone();
    encrypts["use"] = json!("enc");
    let mut misnamed = ec.clone();
    misnamed["alg"] = json!("RS256");
    let mut symmetric = ec.clone();
    symmetric["alg"] = json!("HS256");
    for (name, keys, says) in [
        ("oct", json!([ec, oct]), "keys[1]"),
        ("P-521", json!([p521]), "keys[0]"),
        ("encryption alone", json!([encrypts]), "no key may verify"),
        ("another type's alg", json!([misnamed]), "keys[0].alg"),
        ("symmetric alg", json!([symmetric]), "keys[0].alg"),
        ("none", json!([]), "expected 1 to 64 keys"),
        ("too many", json!(vec![ec.clone(); 65]), "expected 1 to 64 keys"),
        ("no array", json!(7), "not a JSON Web Key Set"),
    ] {
        let err = Keys::new(keys).try_load(None, None).err().unwrap_or_else(|| panic!("{name} was taken"));
        assert!(err.contains("keys.json") && err.contains(says), "{name}: {err}");
        assert!(!err.contains(&b64([7; 32])), "{name}: the error tells a key");
    }
}

#[test]
fn a_changed_file_is_read_again_and_a_broken_one_leaves_the_old_keys() {
    let (old, new) = (Signer::es256(), Signer::es256());
    let file = Keys::new(json!([old.jwk("old")]));
    let verifier = file.load();
    let (with_former, with_new) = (old.bearer("old", &good()), new.bearer("new", &good()));
    verify(&verifier, &with_former).unwrap();
    refused(&verifier, &with_new);

    let whole = json!({"keys": [new.jwk("new")]}).to_string();
    for (age_sec, broken) in [(1, &whole[..whole.len() / 2]), (2, ""), (3, "{\"keys\":[]}")] {
        file.rewrite(broken, age_sec);
        verifier.reload_if_changed();
        verify(&verifier, &with_former).unwrap();
    }
    std::fs::remove_file(file.path()).unwrap();
    verifier.reload_if_changed();
    verify(&verifier, &with_former).unwrap();

    file.rewrite(&whole, 4);
    verifier.reload_if_changed();
    verify(&verifier, &with_new).unwrap();
    assert_eq!(refused(&verifier, &with_former), "no key for it");
}
