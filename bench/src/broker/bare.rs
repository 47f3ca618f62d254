//! The same cryptography in this process without a server, and the broker's own work on a certificate without a protocol.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use aws_lc_rs::digest::{SHA3_512, SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use sealway_broker::certificate::{Bound, Flavour, Issuer, Request, issue};
use sealway_broker::keys::{Algorithm, Kek, Store, StoreIssuer};
use sealway_broker::profile::{Leniency, Profiles};
use sealway_runtime::clock::{Clock, SystemClock};

use super::cases::INPUT_LEN;
use super::ground::SigningKey;
use crate::table::median;

/// The time for which one operation is repeated in a round.
const SLICE: Duration = Duration::from_millis(40);
const ROUNDS: usize = 9;
/// The typical length of the signed part of a certificate, in bytes.
const TO_BE_SIGNED_LEN: usize = 400;

/// The cost of bare operations, in nanoseconds each.
pub(super) struct Bare {
    pub(super) sha256: f64,
    pub(super) sha3_512: f64,
    pub(super) keys: Vec<BareKey>,
}

/// The cost of operations with one key, in nanoseconds each.
pub(super) struct BareKey {
    pub(super) name: &'static str,
    /// One signature with the key.
    pub(super) sign: f64,
    /// The verification of a P-256 request, followed by a signature.
    pub(super) verify_and_sign: f64,
    /// The broker's handler of a certificate request, from the bytes of the request to those of the certificate.
    pub(super) issue: f64,
}

impl Bare {
    pub(super) fn measure(keys: &[SigningKey]) -> anyhow::Result<Self> {
        let input = vec![7_u8; INPUT_LEN];
        Ok(Bare {
            sha256: time(|| _ = black_box(digest(&SHA256, black_box(&input)))),
            sha3_512: time(|| _ = black_box(digest(&SHA3_512, black_box(&input)))),
            keys: keys.iter().map(BareKey::measure).collect::<anyhow::Result<_>>()?,
        })
    }
}

impl BareKey {
    fn measure(key: &SigningKey) -> anyhow::Result<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(key.pem.as_bytes()).map_err(|err| anyhow!("{err:?}"))?;
        let sign = signer(key.name, der.secret_pkcs8_der())?;
        let message = [7_u8; TO_BE_SIGNED_LEN];
        let random = SystemRandom::new();
        let leaf = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
        let signature = leaf.sign(&random, &message)?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, leaf.public_key().as_ref().to_vec());
        let issue = issuing(key, der.secret_pkcs8_der())?;
        Ok(BareKey {
            name: key.name,
            sign: time(|| drop(black_box(sign(black_box(&message))))),
            verify_and_sign: time(|| {
                public.verify(black_box(&message), signature.as_ref()).unwrap();
                drop(black_box(sign(black_box(&message))));
            }),
            issue,
        })
    }
}

type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

fn signer(name: &str, pkcs8: &[u8]) -> anyhow::Result<Sign> {
    let random = SystemRandom::new();
    if name.starts_with("RSA") {
        let key = RsaKeyPair::from_pkcs8(pkcs8).map_err(|err| anyhow!("{err}"))?;
        return Ok(Box::new(move |message| {
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
            signature
        }));
    }
    let algorithm = if name == "P-384" { &ECDSA_P384_SHA384_ASN1_SIGNING } else { &ECDSA_P256_SHA256_ASN1_SIGNING };
    let key = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8).map_err(|err| anyhow!("{err}"))?;
    Ok(Box::new(move |message| key.sign(&random, message).unwrap().as_ref().to_vec()))
}

fn issuing(key: &SigningKey, pkcs8: &[u8]) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir()?;
    super::ground::files(folder.path())?;
    let kek = Kek::from_file(&folder.path().join("store.kek"))?;
    let store = Store::open(&folder.path().join("keys"), kek)?;
    let algorithm = Algorithm::parse(key.algorithm).context("no such algorithm")?;
    store.import(key.id, algorithm, pkcs8, SystemClock.now_ms())?;
    let profiles = Profiles::parse(sealway_testkit::broker::PROFILES, Leniency::Strict)
        .map_err(|problems| anyhow!("{problems:?}"))?;
    let profile = profiles.get(key.profile).context("no such profile")?;
    let policy = profile.certificate.as_ref().context("it signs no certificates")?;
    let work = || {
        let issuing = StoreIssuer::new(store.get(key.id)?, &key.ca_certificate)?;
        issue(
            policy,
            &Request {
                csr: &key.csr,
                ca_certificate: &key.ca_certificate,
                issuer: Issuer::Key(&issuing),
                not_before: Bound::Profile,
                not_after: Bound::Profile,
                subject: None,
                crl_points: &[],
                now_ms: SystemClock.now_ms(),
                wire: Flavour::Ours,
            },
        )
    };
    work().map_err(|refusal| anyhow!("{}", refusal.text))?;
    Ok(time(|| drop(black_box(work()))))
}

/// Returns the nanoseconds of one call of `work`, the median of all rounds.
fn time(mut work: impl FnMut()) -> f64 {
    // The clock is read rarely, because reading it costs as much as a digest.
    let start = Instant::now();
    work();
    let each = if start.elapsed() > Duration::from_micros(100) { 1 } else { 64 };
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let (start, mut times) = (Instant::now(), 0_u32);
            while start.elapsed() < SLICE {
                (0..each).for_each(|_| work());
                times += each;
            }
            start.elapsed().as_nanos() as f64 / f64::from(times)
        })
        .collect();
    median(&mut rounds)
}
