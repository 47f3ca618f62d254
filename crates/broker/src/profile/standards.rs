//! Standards that profiles keep to: each a part of the table standards.txt, which names the algorithms of each operation
//! that it allows, with the source. A profile with a forbidden algorithm is an error at its load, and its operations are
//! refused.
// SPEC broker.md#standards

use std::sync::LazyLock;

use super::approval;
use super::policy::{CertificateSignature, EncryptAlgorithm, KeyKind, Profile, SizeRange};
use crate::keys::Algorithm;
use crate::wire::signature_name;
use crate::{Code, Refusal, Result};

/// A standard that a profile names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standard {
    /// cnsa-2.0: the Commercial National Security Algorithm Suite 2.0 of the NSA
    Cnsa2,
    /// fips-140-3: approved services of the validated module of the FIPS build
    Fips140_3,
    /// bsi-tr-02102: the technical guideline TR-02102 of the BSI
    BsiTr02102,
}

impl Standard {
    /// All standards by the names of profiles.
    pub const NAMES: [(&str, Standard); 3] =
        [("cnsa-2.0", Standard::Cnsa2), ("fips-140-3", Standard::Fips140_3), ("bsi-tr-02102", Standard::BsiTr02102)];

    /// Name of the standard in profiles and errors.
    pub fn name(self) -> &'static str {
        Standard::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// Verdict of a standard on an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed, with keys of this size and more in bits; 0 for any.
    From(u32),
    /// Forbidden by the text of the standard.
    Forbidden,
    /// No source that is sure allows it: refused as well.
    Unsure,
}

/// A cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Standard that the cell belongs to.
    pub standard: Standard,
    /// Operation: the name of a section of `API`, `Certificate` or `CertificateKey`.
    pub operation: &'static str,
    /// Name of the algorithm in descriptors, or the kind of a key in certificates.
    pub algorithm: &'static str,
    /// Verdict of the standard on the algorithm.
    pub verdict: Verdict,
    /// Document with its section and date.
    pub source: &'static str,
}

/// Returns the cells of the table, in its order.
pub fn cells() -> &'static [Cell] {
    static CELLS: LazyLock<Vec<Cell>> = LazyLock::new(|| include_str!("standards.txt").lines().flat_map(row).collect());
    &CELLS
}

/// Parses a line of the table into its cells. A malformed one has none, which a test finds.
fn row(line: &'static str) -> Vec<Cell> {
    let fields: Vec<&'static str> = line.splitn(5, " | ").collect();
    let [standard, operations, algorithms, verdict, source] = fields[..] else { return Vec::new() };
    let standard = Standard::NAMES.iter().find(|(name, _)| *name == standard);
    let verdict = match verdict {
        "yes" => Some(Verdict::From(0)),
        "no" => Some(Verdict::Forbidden),
        "unsure" => Some(Verdict::Unsure),
        from => from.strip_prefix("from ").and_then(|bits| bits.parse().ok()).map(Verdict::From),
    };
    let (Some((_, standard)), Some(verdict)) = (standard, verdict) else { return Vec::new() };
    let cell = |(operation, algorithm)| Cell { standard: *standard, operation, algorithm, verdict, source };
    let pairs = operations.split(' ').flat_map(|operation| algorithms.split(' ').map(move |one| (operation, one)));
    pairs.map(cell).collect()
}

/// An operation of a profile that its standard does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Operations in policies that the breach stops.
    pub operations: &'static [&'static str],
    /// Path of the key of the file, such as `API.HashData.HashAlg`.
    pub key: &'static str,
    /// Sentence that names the standard, the algorithm and the source.
    pub text: String,
}

/// A profile's standard, and what of the profile the standard does not allow. Nothing of a profile that was loaded is in
/// breach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adherence {
    /// Standard that the profile names.
    pub standard: Standard,
    /// Operations that it does not allow.
    pub breaches: Vec<Breach>,
    /// Smallest key of `Unwrap`, in bits (0 for any), and the source.
    unwrap: Option<(u32, &'static str)>,
}

const SEALING: &[&str] = &["EncryptData", "DecryptData", "Rewrap"];
const SIGNING: &[&str] = &["SignData", "VerifyData", "SignDigest", "VerifyDigest"];
const ISSUING: &[&str] = &["SignCertificate"];

impl Adherence {
    /// Compares a profile with a standard.
    pub fn new(standard: Standard, profile: &Profile) -> Adherence {
        let mut found = Adherence { standard, breaches: Vec::new(), unwrap: None };
        found.compare(profile);
        // Forms of allowed algorithms that the validated module does not approve, such as a caller's nonce.
        if standard == Standard::Fips140_3 {
            for fault in approval::unapproved(profile) {
                let text = format!("not allowed by {}: {}", standard.name(), fault.why);
                let operations = [SEALING, SIGNING, ISSUING, &["Unwrap"]];
                let stopped = operations.into_iter().find(|names| names.contains(&fault.operation)).unwrap_or_default();
                if !found.breaches.iter().any(|breach| breach.key == fault.key) {
                    found.breaches.push(Breach { operations: stopped, key: fault.key, text });
                }
            }
        }
        found
    }

    fn compare(&mut self, profile: &Profile) {
        if let Some(hash) = profile.hash {
            self.look(&["HashData"], "API.HashData.HashAlg", "HashData", crate::hash::name(hash));
        }
        if let Some(encrypt) = profile.encrypt {
            let key = match encrypt.algorithm {
                EncryptAlgorithm::Aes128Gcm | EncryptAlgorithm::Aes192Gcm => "API.EncryptData.KeySize",
                _ => "API.EncryptData.EncryptAlg",
            };
            self.look(SEALING, key, "EncryptData", &Algorithm::Encrypt(encrypt.algorithm).to_string());
        }
        if profile.sign.is_some() {
            // The fixed form of an ECDSA signature is the same algorithm.
            let name = signature_name(profile.sign).replace("-raw-", "-");
            if let Some(least) = self.look(SIGNING, "API.SignData.SignAlg", "SignData", &name) {
                let key = "API.SignData.KeyConstraints";
                self.look_at_size(SIGNING, key, (&name, "SignData"), profile.sign_key_size, least);
            }
        }
        if let Some(policy) = &profile.certificate {
            let name = match policy.signature {
                CertificateSignature::Rsa(hash) => format!("rsa-pkcs1-{}", crate::wire::hash_name(hash)),
                CertificateSignature::Ecdsa(hash) => format!("ecdsa-{}", crate::wire::hash_name(hash)),
                CertificateSignature::MlDsa(set) => set.name().to_owned(),
            };
            self.look(ISSUING, "API.SignCertificate.SignAlg", "Certificate", &name);
            let sides = [
                (policy.subject, "API.SignCertificate.KeyConstraints.Subject"),
                (policy.issuer, "API.SignCertificate.KeyConstraints.Issuer"),
            ];
            for (side, key) in sides {
                for (name, kind) in KeyKind::NAMES {
                    let Some(size) = side.of(kind) else { continue };
                    if let Some(least) = self.look(ISSUING, key, "CertificateKey", name) {
                        self.look_at_size(ISSUING, key, (name, "CertificateKey"), Some(size), least);
                    }
                }
            }
        }
        if let Some(mac) = profile.mac {
            self.look(&["Mac", "VerifyMac"], "API.Mac.MacAlg", "Mac", &Algorithm::Mac(mac).to_string());
        }
        if let Some(derive) = profile.derive {
            self.look(&["Derive"], "API.Derive.DeriveAlg", "Derive", &Algorithm::Derive(derive).to_string());
        }
        if profile.random {
            self.look(&["Random"], "API.Random", "Random", "random");
        }
        if let Some(kem) = profile.kem {
            self.look(&["Encapsulate", "Decapsulate"], "API.Encapsulate.KemAlg", "Encapsulate", kem.name());
        }
        if let Some(unwrap) = profile.unwrap {
            self.unwrap = self.look(&["Unwrap"], "API.Unwrap.UnwrapAlg", "Unwrap", unwrap.name());
        }
    }

    /// Looks an algorithm up; returns the smallest size of its keys with the source, if it is allowed.
    fn look(
        &mut self,
        operations: &'static [&'static str],
        key: &'static str,
        operation: &str,
        algorithm: &str,
    ) -> Option<(u32, &'static str)> {
        let is_meant =
            |cell: &&Cell| (cell.standard, cell.operation, cell.algorithm) == (self.standard, operation, algorithm);
        let cell = cells().iter().find(is_meant);
        let (why, source) = match cell.map(|cell| (cell.verdict, cell.source)) {
            Some((Verdict::From(bits), source)) => return Some((bits, source)),
            Some((Verdict::Forbidden, source)) => ("not allowed by", source),
            Some((Verdict::Unsure, source)) => ("not surely allowed by", source),
            None => ("not allowed by", "not in its table"),
        };
        let text = format!("{why} {}: {algorithm} for {operation}: {source}", self.standard.name());
        self.breaches.push(Breach { operations, key, text });
        None
    }

    /// Checks that a profile's sizes of keys are those that the standard allows; an empty range allows none.
    fn look_at_size(
        &mut self,
        operations: &'static [&'static str],
        key: &'static str,
        (algorithm, operation): (&str, &str),
        size: Option<SizeRange>,
        (least, source): (u32, &'static str),
    ) {
        if least == 0 || size.is_some_and(|size| size.min >= least || size.min > size.max) {
            return;
        }
        let standard = self.standard.name();
        let text = format!("not allowed by {standard}: {algorithm} with keys under {least} for {operation}: {source}");
        self.breaches.push(Breach { operations, key, text });
    }

    /// Checks that the standard allows an operation of the profile, with this key of the store.
    ///
    /// # Errors
    /// [`Code::FailedPrecondition`], naming the standard, the algorithm and the source.
    pub fn check(&self, operation: &str, key: Option<Algorithm>) -> Result<()> {
        let refused = |text: String| Err(Refusal::new(Code::FailedPrecondition, format!("profile: {text}")));
        if let Some(breach) = self.breaches.iter().find(|breach| breach.operations.contains(&operation)) {
            return refused(breach.text.clone());
        }
        match (key, self.unwrap) {
            (Some(Algorithm::RsaUnwrap(bits)), Some((least, source))) if operation == "Unwrap" && bits < least => {
                let standard = self.standard.name();
                refused(format!("not allowed by {standard}: a key of {bits} bits, under {least}, for Unwrap: {source}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::profile::policy::*;
    use crate::profile::{Leniency, Profiles};

    /// Every algorithm that the broker has for each operation.
    fn domain() -> BTreeSet<(&'static str, String)> {
        let mut all = BTreeSet::new();
        all.extend(crate::hash::NAMES.iter().map(|(name, _)| ("HashData", (*name).to_owned())));
        for name in Algorithm::names() {
            let operation = match Algorithm::parse(name).unwrap() {
                Algorithm::Encrypt(_) => "EncryptData",
                Algorithm::Mac(_) => "Mac",
                Algorithm::Derive(_) => "Derive",
                Algorithm::Kem(_) => "Encapsulate",
                _ => continue,
            };
            all.insert((operation, name.to_owned()));
        }
        for hash in [SignatureHash::Sha256, SignatureHash::Sha384, SignatureHash::Sha512] {
            let curves = [Curve::P256, Curve::P384, Curve::P521];
            let mut signing = vec![SignAlgorithm::RsaPkcs1(hash), SignAlgorithm::RsaPss(hash)];
            signing.extend(curves.map(|curve| SignAlgorithm::EcdsaDer(curve, hash)));
            all.extend(signing.into_iter().map(|one| ("SignData", signature_name(Some(one)))));
            let name = crate::wire::hash_name(hash);
            all.extend(["rsa-pkcs1", "ecdsa"].map(|kind| ("Certificate", format!("{kind}-{name}"))));
        }
        for (name, _) in MlDsaAlgorithm::NAMES {
            all.extend(["SignData", "Certificate"].map(|operation| (operation, name.to_owned())));
        }
        all.extend(KeyKind::NAMES.map(|(name, _)| ("CertificateKey", name.to_owned())));
        all.extend(UnwrapAlgorithm::NAMES.map(|(name, _)| ("Unwrap", name.to_owned())));
        all.extend([("SignData", "ed25519".to_owned()), ("Random", "random".to_owned())]);
        all
    }

    /// The verdict of a standard on a profile with this `API`.
    fn adherence(standard: Standard, api: &str) -> Adherence {
        let text = format!("- {{Name: A, Settings: {{CryptoLibrary: native}}, API: {{{api}}}}}");
        let profiles = Profiles::parse(&text, Leniency::Lenient).unwrap_or_else(|err| panic!("{api}: {err:?}"));
        Adherence::new(standard, profiles.get("A").unwrap())
    }

    fn breaches(standard: Standard, api: &str) -> Vec<(&'static [&'static str], &'static str, String)> {
        adherence(standard, api).breaches.into_iter().map(|found| (found.operations, found.key, found.text)).collect()
    }

    #[test]
    fn a_breach_names_the_key_of_the_file_and_stops_the_operations_of_it() {
        use Standard::{BsiTr02102, Cnsa2, Fips140_3};
        const GCM: &str = "EncryptData: {EncryptAlg: aes-gcm, KeySize: ";
        for (standard, api, operations, key, text) in [
            (
                Cnsa2,
                "HashData: {HashAlg: sha-256}".to_owned(),
                &["HashData"][..],
                "API.HashData.HashAlg",
                "sha-256 for HashData",
            ),
            (Cnsa2, format!("{GCM}128}}"), SEALING, "API.EncryptData.KeySize", "aes-128-gcm for EncryptData"),
            (Fips140_3, format!("{GCM}192}}"), SEALING, "API.EncryptData.KeySize", "aes-192-gcm for EncryptData"),
            (
                Cnsa2,
                "EncryptData: {EncryptAlg: chacha20-poly1305}".to_owned(),
                SEALING,
                "API.EncryptData.EncryptAlg",
                "chacha20-poly1305 for EncryptData",
            ),
            (
                Fips140_3,
                "SignData: {SignAlg: ed25519}".to_owned(),
                SIGNING,
                "API.SignData.SignAlg",
                "ed25519 for SignData",
            ),
            (
                Cnsa2,
                "Mac: {MacAlg: hmac-sha-256}".to_owned(),
                &["Mac", "VerifyMac"],
                "API.Mac.MacAlg",
                "hmac-sha-256 for Mac",
            ),
            (
                Cnsa2,
                "Derive: {DeriveAlg: hkdf-sha-256}".to_owned(),
                &["Derive"],
                "API.Derive.DeriveAlg",
                "hkdf-sha-256 for Derive",
            ),
            (
                BsiTr02102,
                "Encapsulate: {KemAlg: ml-kem-512}".to_owned(),
                &["Encapsulate", "Decapsulate"],
                "API.Encapsulate.KemAlg",
                "ml-kem-512 for Encapsulate",
            ),
            (
                Cnsa2,
                "Unwrap: {UnwrapAlg: rsa-oaep}".to_owned(),
                &["Unwrap"],
                "API.Unwrap.UnwrapAlg",
                "rsa-oaep for Unwrap",
            ),
        ] {
            let found = breaches(standard, &api);
            let wanted = format!("not allowed by {}: {text}: ", standard.name());
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].0, found[0].1), (operations, key), "{api}");
            assert!(found[0].2.starts_with(&wanted), "{}", found[0].2);
        }
        let unsure = breaches(BsiTr02102, "Random: true");
        assert!(unsure[0].2.starts_with("not surely allowed by bsi-tr-02102: random for Random: BSI "), "{unsure:?}");
        assert_eq!(breaches(Cnsa2, &format!("{GCM}256}}, HashData: {{HashAlg: sha-384}}, Random: true")), []);
        // A form that the validated module does not approve, of an algorithm that the standard allows.
        let form = breaches(Fips140_3, &format!("{GCM}256, TagLength: 96}}"));
        assert_eq!((form.len(), form[0].0, form[0].1), (1, SEALING, "API.EncryptData.TagLength"));
    }

    #[test]
    fn sizes_of_keys_begin_at_the_one_that_the_standard_allows() {
        use Standard::{BsiTr02102, Cnsa2, Fips140_3};
        let sizes = |kind: &str, min: u32, max: u32| format!("{kind}: {{MinKeySize: {min}, MaxKeySize: {max}}}");
        let pss = |min, max| {
            format!("SignData: {{SignAlg: rsa-pss, HashAlg: sha-256, KeyConstraints: {{{}}}}}", sizes("rsa", min, max))
        };
        for (min, max, is_allowed) in [
            (3000, 4096, true),
            (2999, 4096, false),
            // One size alone, and ranges that no key meets.
            (3000, 3000, true),
            (2048, 2048, false),
            (2048, 1024, true),
            (3072, 1024, true),
        ] {
            let found = breaches(BsiTr02102, &pss(min, max));
            assert_eq!(found.is_empty(), is_allowed, "{min} {max} {found:?}");
            if let [(operations, key, text)] = &found[..] {
                assert_eq!((*operations, *key), (SIGNING, "API.SignData.KeyConstraints"));
                let wanted =
                    "not allowed by bsi-tr-02102: rsa-pss-sha-256 with keys under 3000 for SignData: BSI TR-02102-1";
                assert!(text.starts_with(wanted), "{text}");
            }
        }
        assert_eq!(breaches(BsiTr02102, "SignData: {SignAlg: rsa-pss, HashAlg: sha-256}").len(), 1, "any size");
        assert_eq!(breaches(Fips140_3, &pss(2048, 2048)), []);
        let ecdsa = "SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256}";
        assert_eq!(breaches(BsiTr02102, ecdsa), [], "a curve needs no range");
        let issuing = |algorithm: &str, subject: &str, issuer: &str| {
            format!(
                "SignCertificate: {{{algorithm}, Validity: {{ValidNotBeforeOffset: 0, ValidNotAfterOffset: 1h}}, \
                 KeyConstraints: {{Subject: {{{subject}}}, Issuer: {{{issuer}}}}}}}"
            )
        };
        let (low, high) = (sizes("ml-dsa", 65, 87), sizes("ml-dsa", 87, 87));
        let mut found = Vec::new();
        for (subject, issuer) in [(&low, &high), (&high, &low), (&high, &high)] {
            found.push(breaches(Cnsa2, &issuing("SignAlg: ml-dsa-87", subject, issuer)));
        }
        let keys: Vec<Vec<&str>> = found.iter().map(|found| found.iter().map(|(_, key, _)| *key).collect()).collect();
        let side = "API.SignCertificate.KeyConstraints.";
        assert_eq!(keys, [vec![format!("{side}Subject")], vec![format!("{side}Issuer")], vec![]]);
        assert_eq!(found[0][0].0, ISSUING);
        assert!(found[0][0].2.contains("ml-dsa with keys under 87 for CertificateKey"), "{}", found[0][0].2);
        let rsa = issuing("SignAlg: rsa, HashAlg: sha-256", &sizes("rsa", 2048, 4096), &sizes("rsa", 2047, 4096));
        let found = breaches(Fips140_3, &rsa);
        assert_eq!(found.iter().map(|found| found.1).collect::<Vec<_>>(), [format!("{side}Issuer")], "{found:?}");
    }

    #[test]
    fn a_call_in_breach_of_its_standard_is_refused() {
        let unwrap = adherence(Standard::BsiTr02102, "Unwrap: {UnwrapAlg: rsa-oaep-256}");
        assert_eq!(unwrap.breaches, []);
        for (operation, key, is_allowed) in [
            ("Unwrap", Some(Algorithm::RsaUnwrap(2048)), false),
            ("Unwrap", Some(Algorithm::RsaUnwrap(2999)), false),
            ("Unwrap", Some(Algorithm::RsaUnwrap(3000)), true),
            ("Unwrap", Some(Algorithm::RsaUnwrap(4096)), true),
            ("Unwrap", None, true),
            ("PublicKey", Some(Algorithm::RsaUnwrap(2048)), true),
        ] {
            let checked = unwrap.check(operation, key);
            assert_eq!(checked.is_ok(), is_allowed, "{operation} {key:?}");
            if let (Err(refusal), Some(Algorithm::RsaUnwrap(bits))) = (checked, key) {
                assert_eq!(refusal.code, Code::FailedPrecondition);
                let wanted =
                    format!("profile: not allowed by bsi-tr-02102: a key of {bits} bits, under 3000, for Unwrap: BSI ");
                assert!(refusal.text.starts_with(&wanted), "{refusal}");
            }
        }
        let sealing = adherence(Standard::Cnsa2, "EncryptData: {EncryptAlg: chacha20-poly1305}, Random: true");
        for operation in SEALING {
            let refusal = sealing.check(operation, None).unwrap_err();
            assert_eq!(refusal.code, Code::FailedPrecondition);
            assert!(
                refusal.text.starts_with("profile: not allowed by cnsa-2.0: chacha20-poly1305 for EncryptData: NSA, ")
            );
        }
        assert!(sealing.check("Random", None).is_ok());
    }

    #[test]
    fn the_names_of_the_standards_are_those_of_the_file() {
        for (name, standard) in
            [("cnsa-2.0", Standard::Cnsa2), ("fips-140-3", Standard::Fips140_3), ("bsi-tr-02102", Standard::BsiTr02102)]
        {
            assert_eq!(standard.name(), name);
        }
    }

    #[test]
    fn every_algorithm_of_every_operation_stands_once_for_every_standard() {
        for (name, standard) in Standard::NAMES {
            let of_it: Vec<_> = cells().iter().filter(|cell| cell.standard == standard).collect();
            let found: BTreeSet<_> = of_it.iter().map(|cell| (cell.operation, cell.algorithm.to_owned())).collect();
            assert_eq!(found, domain(), "{name}");
            assert_eq!(found.len(), of_it.len(), "{name}: a cell stands twice");
        }
        let lines = include_str!("standards.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            assert!(!row(line).is_empty(), "not understood: {line}");
            let source = line.rsplit(" | ").next().unwrap();
            let is_dated = source.split(|c: char| !(c.is_ascii_digit() || c == '-')).any(|word| word.len() == 7);
            assert!(is_dated || source.contains("TR-02102") || source.starts_with("the cipher"), "no date: {line}");
        }
    }
}
