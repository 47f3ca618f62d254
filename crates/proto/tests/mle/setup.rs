//! Keys, and a token opened in one call.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::{
    Alg, JoseProvider, KidSource, Message, NonceGuard, OpenRandoms, Opening, OpeningKey, OpeningKeys, Plaintext,
    Profile, Refusal,
};
use sealway_proto::session::Fresh;
use sealway_testkit::rsa;

pub(crate) const NOW_MS: u64 = 1_790_000_000_123;
pub(crate) const KID: &str = "2c2ac2da-386a-4743-b48f-6a98e549636d";

pub(crate) fn provider() -> &'static AwsLcJose {
    static PROVIDER: LazyLock<AwsLcJose> = LazyLock::new(|| {
        AwsLcJose::new(|key, nonce, aad, data, tag| sealway_awslc::aes_gcm_open(key, nonce, aad, data, tag).is_ok())
    });
    &PROVIDER
}

/// Runs `openssl` on an input and returns its output.
pub(crate) fn openssl(args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs: scripts/setup-tests.sh installs it");
    // A command that reads nothing may have gone.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {args:?}");
    output.stdout
}

pub(crate) fn rsa_pem(bits: usize) -> Vec<u8> {
    openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", &format!("rsa_keygen_bits:{bits}")], b"")
}

/// Makes a certificate of a private key.
pub(crate) fn certificate(private: &[u8], subject: &str) -> Vec<u8> {
    openssl(&["req", "-x509", "-new", "-key", "/dev/stdin", "-subj", subject, "-days", "30", "-sha256"], private)
}

pub(crate) struct Pair {
    pub(crate) private: Vec<u8>,
    pub(crate) certificate: Vec<u8>,
    pub(crate) spki: Vec<u8>,
}

fn pair(subject: &str) -> Pair {
    let private = rsa::private_key().unwrap();
    let certificate = certificate(&private, subject);
    let spki = openssl(&["pkey", "-pubout", "-outform", "DER"], &private);
    Pair { private, certificate, spki }
}

/// The recipient's keys in these tests.
pub(crate) static OWN: LazyLock<Pair> = LazyLock::new(|| pair("/CN=CyberSource_SJC_US/serialNumber=16549"));
/// Another one, whose tokens the recipient cannot open.
pub(crate) static OTHER: LazyLock<Pair> = LazyLock::new(|| pair("/CN=other"));

pub(crate) fn opening_key(alg: Alg) -> OpeningKey {
    let kid = KidSource::Fixed(KID.to_owned());
    OpeningKey::rsa(alg, &OWN.private, Some(&OWN.certificate), &kid, provider()).unwrap()
}

pub(crate) fn opening_keys(alg: Alg) -> OpeningKeys {
    OpeningKeys::new([Arc::new(opening_key(alg))]).unwrap()
}

pub(crate) fn open_at(
    token: &[u8],
    profile: &Profile,
    message: Message,
    keys: &OpeningKeys,
    now_ms: u64,
) -> Result<NonceGuard<Plaintext>, Refusal> {
    let opening = Opening::begin(token, profile, message, keys, now_ms)?;
    let cek = opening.wants().unwrap_here();
    let randoms = OpenRandoms::draw(provider().base()).unwrap();
    opening.unwrapped(cek.as_ref().map(|cek| cek.as_slice()), &randoms, provider())
}

pub(crate) fn release(opened: NonceGuard<Plaintext>) -> Plaintext {
    let fresh = Fresh::reserved(opened.claim());
    opened.release(fresh).unwrap()
}

pub(crate) fn open(token: &[u8], profile: &Profile, message: Message, keys: &OpeningKeys) -> Result<Vec<u8>, Refusal> {
    open_at(token, profile, message, keys, NOW_MS).map(|opened| release(opened).bytes().unwrap().to_vec())
}
