//! Operations of a profile that need a service that a FIPS module has not approved. Only data: a broker on such a
//! module switches them off, or does not start.
// SPEC broker.md#fips

use std::sync::Arc;

use super::policy::{CertificateSignature, EncryptAlgorithm, EncryptPolicy, SignAlgorithm, SizeRange};
use super::{Problem, Profile, Profiles, RequireFips};

/// Operations that the cipher of a profile switches off if it is not approved.
const SEALING: [&str; 3] = ["EncryptData", "DecryptData", "Rewrap"];
/// Operations that the signature algorithm of a profile switches off if it is not approved.
const SIGNING: [&str; 2] = ["SignData", "VerifyData"];
/// Reason why a key constraint is not approved.
const SMALL_RSA: &str = "RSA keys under 2048 bits are not approved";
/// Reason why ML-DSA is not approved.
const NO_ML_DSA: &str = "ML-DSA is not in a validated module yet";
/// Length of a tag that is not truncated, in bytes.
const WHOLE_TAG_LEN: usize = 16;
/// Smallest approved RSA key, in bits.
const RSA_BITS_MIN: u32 = 2048;
/// Smallest approved key on a curve, in bits: P-224 is below it.
const EC_BITS_MIN: u32 = 256;

/// An operation that needs an unapproved service, and the file's key that causes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the operation in policies.
    pub operation: &'static str,
    /// Path of the key, such as `API.EncryptData.NonceStrategy`.
    pub key: &'static str,
    /// Reason why it is not approved.
    pub why: &'static str,
    /// True if W4 is unaffected: its tags are always whole.
    pub is_done_on_w4: bool,
}

impl Fault {
    /// True if the fault switches an operation off on this wire.
    pub fn stops(&self, operation: &str, wire: &str) -> bool {
        self.operation == operation && !(self.is_done_on_w4 && wire == "w4")
    }
}

/// Returns the faults of a profile, in the order of the file's documentation.
///
/// Approved is what the module's service indicator counts and the library does not exclude (the table in
/// docs/reference/broker.md); doubtful services are not approved. SHA-1 as an identifier of a key needs no approved
/// service.
pub fn unapproved(profile: &Profile) -> Vec<Fault> {
    let mut found = Vec::new();
    if let Some(encrypt) = profile.encrypt {
        add_unapproved_encryption(encrypt, &mut found);
    }
    let algorithm = "API.SignData.SignAlg";
    match profile.sign {
        Some(SignAlgorithm::Ed25519) => {
            let why = "the library rules Ed25519 out where the module is to be approved";
            add(&mut found, &SIGNING, algorithm, why);
        }
        Some(SignAlgorithm::MlDsa(_)) => {
            add(&mut found, &SIGNING, algorithm, NO_ML_DSA);
        }
        Some(SignAlgorithm::RsaPkcs1(_) | SignAlgorithm::RsaPss(_))
            if profile.sign_key_size.is_some_and(|size| allows_below(size, RSA_BITS_MIN)) =>
        {
            add(&mut found, &SIGNING[..1], "API.SignData.KeyConstraints", SMALL_RSA);
        }
        _ => {}
    }
    if profile.sign_digests {
        let why = "the module has approved signatures of messages, not of digests that a caller brings";
        add(&mut found, &["SignDigest", "VerifyDigest"], "API.SignData.Prehashed", why);
    }
    if profile.unwrap.is_some() {
        let why = "the padding of RSA-OAEP is read outside of the module";
        add(&mut found, &["Unwrap"], "API.Unwrap.UnwrapAlg", why);
    }
    if let Some(policy) = &profile.certificate {
        if matches!(policy.signature, CertificateSignature::MlDsa(_)) {
            add(&mut found, &["SignCertificate"], "API.SignCertificate.SignAlg", NO_ML_DSA);
        }
        let sides = [
            (policy.subject, "API.SignCertificate.KeyConstraints.Subject"),
            (policy.issuer, "API.SignCertificate.KeyConstraints.Issuer"),
        ];
        for (side, key) in sides {
            if side.rsa.is_some_and(|size| allows_below(size, RSA_BITS_MIN)) {
                add(&mut found, &["SignCertificate"], key, SMALL_RSA);
            }
            if side.ecdsa.is_some_and(|size| allows_below(size, EC_BITS_MIN)) {
                add(&mut found, &["SignCertificate"], key, "curves under 256 bits are not approved");
            }
        }
    }
    found
}

/// Adds a fault for each of these operations.
fn add(found: &mut Vec<Fault>, operations: &[&'static str], key: &'static str, why: &'static str) {
    found.extend(operations.iter().map(|operation| Fault { operation, key, why, is_done_on_w4: false }));
}

/// Adds the faults of encryption.
fn add_unapproved_encryption(encrypt: EncryptPolicy, found: &mut Vec<Fault>) {
    let algorithm = "API.EncryptData.EncryptAlg";
    match encrypt.algorithm {
        EncryptAlgorithm::Aes128Gcm | EncryptAlgorithm::Aes256Gcm => {}
        EncryptAlgorithm::Aes192Gcm => add(found, &SEALING, "API.EncryptData.KeySize", "AES-192-GCM is not approved"),
        EncryptAlgorithm::Aes256GcmSiv => return add(found, &SEALING, algorithm, "AES-GCM-SIV is not approved"),
        EncryptAlgorithm::ChaCha20Poly1305 => {
            return add(found, &SEALING, algorithm, "ChaCha20-Poly1305 is not approved");
        }
    }
    if encrypt.is_nonce_callers {
        let why = "sealing under a caller's nonce is not approved";
        add(found, &["EncryptData", "Rewrap"], "API.EncryptData.NonceStrategy", why);
    }
    if encrypt.tag_len < WHOLE_TAG_LEN {
        // The module uses whole tags only: truncating a tag, and verifying it by encrypting again, is outside of its
        // indicator.
        let (key, why) = ("API.EncryptData.TagLength", "tags under 128 bits are not approved (those of W4 are whole)");
        found.extend(SEALING.map(|operation| Fault { operation, key, why, is_done_on_w4: true }));
    }
}

/// Checks if a process may use these profiles, with or without a FIPS module. The stricter of `required` and of the
/// file's own demand holds.
///
/// # Errors
/// The problems that forbid the use.
pub fn check(profiles: &Profiles, required: RequireFips, has_module: bool) -> Result<(), Vec<Problem>> {
    let required = required.max(profiles.require_fips());
    if required == RequireFips::No {
        return Ok(());
    }
    if !has_module {
        return Err(vec![Problem::of_file("RequireFips: this build has no FIPS module")]);
    }
    let problems = if required == RequireFips::Strict { problems(profiles) } else { Vec::new() };
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Returns the faults of all profiles as problems.
pub fn problems(profiles: &Profiles) -> Vec<Problem> {
    let faults = profiles.iter().flat_map(|profile| profile.unapproved.iter().map(move |fault| (profile, fault)));
    let problem = |(profile, fault): (&Arc<Profile>, &Fault)| Problem {
        profile: profile.name.clone(),
        key: fault.key.into(),
        ..Problem::of_file(format!("{}: {}", fault.operation, fault.why))
    };
    faults.map(problem).collect()
}

/// True if a range, which may be empty, contains a size below a bound.
fn allows_below(size: SizeRange, bits: u32) -> bool {
    size.min < bits && size.min <= size.max
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Leniency;

    fn operations(api: &str) -> Vec<&'static str> {
        let text = format!("- {{Name: A, Settings: {{CryptoLibrary: native}}, API: {{{api}}}}}");
        let profiles = Profiles::parse(&text, Leniency::Strict).unwrap_or_else(|err| panic!("{err:?}"));
        unapproved(profiles.get("A").unwrap()).iter().map(|found| found.operation).collect()
    }

    fn sign_certificate(constraints: &str) -> Vec<&'static str> {
        operations(&format!(
            "SignCertificate: {{SignAlg: rsa, HashAlg: sha-256, Validity: {{ValidNotBeforeOffset: 0, ValidNotAfterOffset: 1h}}, \
             KeyConstraints: {{{constraints}}}}}"
        ))
    }

    #[test]
    fn operations_that_need_an_unapproved_service_are_named() {
        let sealing = "EncryptData: {EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: ";
        assert_eq!(operations(&format!("{sealing} user-provided}}")), ["EncryptData", "Rewrap"]);
        assert!(operations(&format!("{sealing} broker-generated}}")).is_empty());
        let all = ["EncryptData", "DecryptData", "Rewrap"];
        assert_eq!(operations(&format!("{sealing} broker-generated, TagLength: 96}}")), all);
        let small = sealing.replace("256", "192");
        assert_eq!(operations(&format!("{small} broker-generated}}")), all);
        assert_eq!(operations("EncryptData: {EncryptAlg: chacha20-poly1305}"), all);
        assert_eq!(operations("EncryptData: {EncryptAlg: aes-gcm-siv}"), all);
        assert_eq!(operations("SignData: {SignAlg: ml-dsa-65}"), ["SignData", "VerifyData"]);
        assert_eq!(operations("SignData: {SignAlg: ed25519}"), ["SignData", "VerifyData"]);
        assert!(operations("Random: true, Encapsulate: {KemAlg: ml-kem-768}").is_empty());
        assert_eq!(operations("Unwrap: {UnwrapAlg: rsa-oaep-256}"), ["Unwrap"]);
        assert_eq!(operations("Unwrap: {UnwrapAlg: rsa-oaep}"), ["Unwrap"]);
        assert!(operations("HashData: {HashAlg: shake-256}, Mac: {MacAlg: hmac-sha-256}").is_empty());
        assert!(operations("SignData: {SignAlg: ecdsa, HashAlg: sha-512, Curve: P-521}").is_empty());
        let digests = ["SignDigest", "VerifyDigest"];
        assert_eq!(operations("SignData: {SignAlg: ecdsa, HashAlg: sha-512, Curve: P-521, Prehashed: true}"), digests);
        assert!(operations("Derive: {DeriveAlg: hkdf-sha-384}").is_empty());
        let rsa = "SignData: {SignAlg: rsa, HashAlg: sha-256, KeyConstraints: {rsa: {MaxKeySize: 4096, MinKeySize: ";
        assert_eq!(operations(&format!("{rsa} 1024}}}}}}")), ["SignData"]);
        assert!(operations(&format!("{rsa} 2048}}}}}}")).is_empty());
        assert_eq!(sign_certificate("Issuer: {rsa: {MinKeySize: 1024, MaxKeySize: 4096}}"), ["SignCertificate"]);
        assert_eq!(sign_certificate("Subject: {ecdsa: {MinKeySize: 224, MaxKeySize: 521}}"), ["SignCertificate"]);
        assert!(sign_certificate("Subject: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}}").is_empty());
    }

    #[test]
    fn short_tags_are_off_where_there_are_any_and_w4_has_none() {
        let api = "EncryptData: {EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: user-provided, TagLength: 96}";
        let text = format!("- {{Name: A, Settings: {{CryptoLibrary: native}}, API: {{{api}}}}}");
        let profiles = Profiles::parse(&text, Leniency::Strict).unwrap_or_else(|err| panic!("{err:?}"));
        let profile = profiles.get("A").unwrap();
        let is_off = |operation, wire| profile.unapproved.iter().any(|fault| fault.stops(operation, wire));
        assert!(is_off("DecryptData", "v1") && is_off("Rewrap", "v1") && is_off("EncryptData", "v1"));
        assert!(!is_off("DecryptData", "w4"), "a tag of W4 is whole");
        assert!(is_off("EncryptData", "w4"), "the nonce is still the caller's");
    }

    #[test]
    fn a_build_without_a_module_is_refused_where_one_is_required_and_strictly_every_unapproved_operation() {
        let parse = |settings: &str| {
            let profile = "{Name: A, API: {EncryptData: {EncryptAlg: chacha20-poly1305}}}";
            let text = format!("Settings: {{CryptoLibrary: native{settings}}}\nProfiles: [{profile}]");
            Profiles::parse(&text, Leniency::Strict).unwrap_or_else(|err| panic!("{err:?}"))
        };
        use RequireFips::{No, Strict, Yes};
        for (settings, required, has_module, is_allowed) in [
            ("", No, false, true),
            ("", No, true, true),
            ("", Yes, false, false),
            ("", Yes, true, true),
            ("", Strict, true, false),
            (", RequireFips: true", No, false, false),
            (", RequireFips: true", No, true, true),
            (", RequireFips: true", Strict, true, false),
            (", RequireFips: strict", Yes, true, false),
        ] {
            let checked = check(&parse(settings), required, has_module);
            assert_eq!(checked.is_ok(), is_allowed, "{settings} {required:?} {has_module}");
        }
        let problem = check(&parse(""), Strict, true).unwrap_err()[0].to_string();
        assert_eq!(
            problem,
            "profile \"A\": API.EncryptData.EncryptAlg: EncryptData: ChaCha20-Poly1305 is not approved"
        );
    }
}
