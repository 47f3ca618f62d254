//! The wire's Benchmark operation: durations of the bare operations in this process, under the names that its clients
//! know.
//!
//! Runs grow as in Go: more and more rounds until a run lasts long enough. Here that is a fifth of a second each, so
//! that a call takes about two seconds and not fifteen. The keys below serve the benchmark only: they are in every copy
//! of this program.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sealway_runtime::clock::{Clock, SystemClock};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::certificate::{self, Bound, Flavour, Issuer, Request};
use crate::hash;
use crate::profile::policy::{
    CertificatePolicy, CertificateSignature, HashAlgorithm, IssuerChecks, KeyConstraints, KeyUsage, Offset, Purpose,
    SignatureHash, SizeRange, SkiHash,
};
use crate::settings::BenchmarkFiles;

/// Shortest duration of a benchmark's last run.
const RUN: Duration = Duration::from_millis(200);
/// Most rounds of one run.
const ROUNDS_MAX: u64 = 1_000_000_000;
/// Length of the hashed input, in bytes.
const INPUT_LEN: usize = 420;
/// Longest configured file, in bytes.
const FILE_LEN_MAX: u64 = 64 * 1024;

const PREFIX: &str = "BenchmarkLibraryNative_";

/// A CA with its key, and a request.
#[derive(Clone)]
struct Issue {
    csr: String,
    ca_certificate: String,
    ca_key: Zeroizing<String>,
}

/// Certificates and requests that the benchmark signs with.
#[derive(Clone)]
pub struct Inputs {
    rsa: Issue,
    p521: Issue,
    p384: Issue,
}

impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs").finish_non_exhaustive()
    }
}

impl Default for Inputs {
    fn default() -> Inputs {
        let issue = |csr: &str, certificate: &str, key: &str| Issue {
            csr: csr.to_owned(),
            ca_certificate: certificate.to_owned(),
            ca_key: Zeroizing::new(key.to_owned()),
        };
        let p256 = include_str!("benchmark/p256.csr");
        Inputs {
            rsa: issue(p256, include_str!("benchmark/rsa4096.crt"), include_str!("benchmark/rsa4096.key")),
            p521: issue(
                include_str!("benchmark/p521.csr"),
                include_str!("benchmark/p521.crt"),
                include_str!("benchmark/p521.key"),
            ),
            p384: issue(p256, include_str!("benchmark/p384.crt"), include_str!("benchmark/p384.key")),
        }
    }
}

impl Inputs {
    /// Loads the inputs. Configured values replace the RSA authority and its request; each is a PEM text or the path of
    /// a file.
    ///
    /// # Errors
    /// A file cannot be read; the text leaves out its content.
    pub fn load(files: &BenchmarkFiles) -> Result<Inputs, String> {
        let mut inputs = Inputs::default();
        let read = |name: &str, given: &Option<String>| -> Result<Option<Zeroizing<String>>, String> {
            given.as_deref().map(|given| pem(given).map_err(|err| format!("{name}: {err}"))).transpose()
        };
        if let Some(text) = read("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_CSR", &files.csr)? {
            inputs.rsa.csr = text.to_string();
        }
        if let Some(text) = read("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_CA_CERT", &files.ca_certificate)? {
            inputs.rsa.ca_certificate = text.to_string();
        }
        if let Some(text) = read("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_PRIVATE_KEY", &files.private_key)? {
            inputs.rsa.ca_key = text;
        }
        Ok(inputs)
    }
}

fn pem(given: &str) -> Result<Zeroizing<String>, String> {
    use std::io::Read;
    if given.trim_start().starts_with("-----BEGIN") {
        return Ok(Zeroizing::new(given.to_owned()));
    }
    let file = std::fs::File::open(given).map_err(|err| format!("{given}: {err}"))?;
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_LEN_MAX).read_to_string(&mut text).map_err(|err| format!("{given}: {err}"))?;
    Ok(text)
}

#[derive(Debug, Serialize)]
struct Results {
    results: Vec<Figure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figure {
    name: String,
    /// Nanoseconds of one operation, on average.
    avg_time: u64,
}

/// Runs all benchmarks in sequence, which blocks for about two seconds. Returns JSON.
pub fn run(inputs: &Inputs) -> String {
    let input = [0x5a; INPUT_LEN];
    let mut results = Vec::new();
    for (name, algorithm) in [
        ("HashSHA3_256", HashAlgorithm::Sha3_256),
        ("HashSHA3_384", HashAlgorithm::Sha3_384),
        ("HashSHA3_512", HashAlgorithm::Sha3_512),
        ("HashSHA_256", HashAlgorithm::Sha256),
        ("HashSHA_384", HashAlgorithm::Sha384),
        ("HashSHA_512", HashAlgorithm::Sha512),
        ("HashSHA_512_256", HashAlgorithm::Sha512_256),
    ] {
        let avg_time = time(|| drop(black_box(hash::digest(algorithm, black_box(&input)))));
        results.push(Figure { name: format!("{PREFIX}{name}"), avg_time });
    }
    for (name, issue, kind) in [
        ("SignCertificate_CSR_SECP256R1_CA_RSA4096", &inputs.rsa, CertificateSignature::Rsa(SignatureHash::Sha512)),
        (
            "SignCertificate_CSR_SECP521R1_CA_SECP521R1",
            &inputs.p521,
            CertificateSignature::Ecdsa(SignatureHash::Sha512),
        ),
        (
            "SignCertificate_CSR_SECP256R1_CA_SECP384R1",
            &inputs.p384,
            CertificateSignature::Ecdsa(SignatureHash::Sha512),
        ),
    ] {
        let policy = policy(kind);
        let avg_time = time(|| drop(black_box(certificate::issue(&policy, &request(issue)))));
        results.push(Figure { name: format!("{PREFIX}{name}"), avg_time });
    }
    // Strings and numbers always serialize.
    serde_json::to_string(&Results { results }).unwrap_or_default()
}

fn request(issue: &Issue) -> Request<'_> {
    Request {
        csr: issue.csr.as_bytes(),
        ca_certificate: issue.ca_certificate.as_bytes(),
        issuer: Issuer::Pem(issue.ca_key.as_bytes()),
        not_before: Bound::Profile,
        not_after: Bound::Profile,
        subject: None,
        crl_points: &[],
        now_ms: SystemClock.now_ms(),
        wire: Flavour::Open,
    }
}

/// A policy that allows every request of the benchmark.
fn policy(signature: CertificateSignature) -> CertificatePolicy {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let sizes = KeyConstraints {
        rsa: Some(SizeRange { min: 2048, max: 8192 }),
        ecdsa: Some(SizeRange { min: 256, max: 521 }),
        ml_dsa: None,
    };
    CertificatePolicy {
        signature,
        ski: SkiHash::Sha256,
        not_before: Offset { ns: -HOUR_NS },
        not_after: Offset { ns: 24 * HOUR_NS },
        subject: sizes,
        issuer: sizes,
        key_usage: KeyUsage(1),
        purposes: vec![Purpose::ClientAuth],
        is_ca: false,
        path_length: None,
        copies_san: false,
        copies_extensions: Vec::new(),
        checks: IssuerChecks { in_date: false, not_beyond: false, ..IssuerChecks::default() },
    }
}

/// Nanoseconds of one round, measured over enough rounds to last [`RUN`].
fn time(mut round: impl FnMut()) -> u64 {
    let mut rounds: u64 = 1;
    loop {
        let begin = Instant::now();
        for _ in 0..rounds {
            round();
        }
        let took = begin.elapsed();
        let each = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / rounds;
        if took >= RUN || rounds >= ROUNDS_MAX {
            return each;
        }
        let enough = u64::try_from(RUN.as_nanos()).unwrap_or(u64::MAX) / each.max(1);
        // A fifth more than needed, so that the next run is the last; bounded, so that a slow first round does not
        // mislead.
        rounds = (enough + enough / 5).clamp(rounds + 1, rounds.saturating_mul(100)).min(ROUNDS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_certificate_that_is_timed_is_one() {
        let inputs = Inputs::default();
        for (issue, kind) in [
            (&inputs.rsa, CertificateSignature::Rsa(SignatureHash::Sha512)),
            (&inputs.p521, CertificateSignature::Ecdsa(SignatureHash::Sha512)),
            (&inputs.p384, CertificateSignature::Ecdsa(SignatureHash::Sha512)),
        ] {
            certificate::issue(&policy(kind), &request(issue)).unwrap();
        }
    }

    #[test]
    fn configured_files_replace_the_benchmarks_rsa_authority() {
        let ground = tempfile::tempdir().unwrap();
        let file = ground.path().join("a.csr");
        std::fs::write(&file, "-----BEGIN A-----").unwrap();
        let csr = Some(file.display().to_string());
        let private_key = Some("-----BEGIN KEY-----".to_owned());
        let files = BenchmarkFiles { csr, private_key, ca_certificate: None };
        let inputs = Inputs::load(&files).unwrap();
        assert_eq!((inputs.rsa.csr.as_str(), inputs.rsa.ca_key.as_str()), ("-----BEGIN A-----", "-----BEGIN KEY-----"));
        let missing = BenchmarkFiles { csr: Some("/no/such/file".into()), ..BenchmarkFiles::default() };
        assert!(Inputs::load(&missing).unwrap_err().starts_with("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_CSR: "));
    }
}
