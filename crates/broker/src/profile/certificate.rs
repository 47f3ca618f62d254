//! Resolves `API.SignCertificate` of a profile.

use super::constraints;
use super::duration;
use super::operations::{present, signature_hash};
use super::policy::{
    CertificatePolicy, CertificateSignature, IssuerChecks, KeyConstraints, KeyUsage, MlDsaAlgorithm, Offset, Purpose,
    SignatureHash, SkiHash,
};
use super::problem::Notes;
use super::section::{At, Section, shown};

/// Most entries of a list of purposes, usages or extensions.
const LIST_MAX: usize = 16;

const KNOWN: [&str; 11] = [
    "SignAlg",
    "HashAlg",
    "SKIHashAlg",
    "Validity",
    "KeyConstraints",
    "KeyUsage",
    "ExtendedKeyUsage",
    "BasicConstraints",
    "CopySAN",
    "CopyExtensions",
    "IssuerChecks",
];

const SKI_HASHES: [(&str, SkiHash); 7] = [
    ("sha-1", SkiHash::Sha1),
    ("sha-256", SkiHash::Sha256),
    ("sha-384", SkiHash::Sha384),
    ("sha-512", SkiHash::Sha512),
    ("sha3-256", SkiHash::Sha3_256),
    ("sha3-384", SkiHash::Sha3_384),
    ("sha3-512", SkiHash::Sha3_512),
];

/// Names of key usages with their bit numbers; two names share one.
const USAGES: [(&str, u16); 10] = [
    ("digitalSignature", 0),
    ("contentCommitment", 1),
    ("nonRepudiation", 1),
    ("keyEncipherment", 2),
    ("dataEncipherment", 3),
    ("keyAgreement", 4),
    ("keyCertSign", 5),
    ("cRLSign", 6),
    ("encipherOnly", 7),
    ("decipherOnly", 8),
];

const PURPOSES: [(&str, Purpose); 6] = [
    ("serverAuth", Purpose::ServerAuth),
    ("clientAuth", Purpose::ClientAuth),
    ("codeSigning", Purpose::CodeSigning),
    ("emailProtection", Purpose::EmailProtection),
    ("timeStamping", Purpose::TimeStamping),
    ("OCSPSigning", Purpose::OcspSigning),
];

/// Extensions that only the profile or the issuer may set: a copy would grant a request whatever it asks for.
const NEVER_COPIED: [(&str, &str); 11] = [
    ("2.5.29.14", "the profile makes it"),
    ("2.5.29.15", "the profile makes it"),
    ("2.5.29.17", "CopySAN is for it"),
    ("2.5.29.19", "the profile makes it"),
    ("2.5.29.30", "it is the issuer's to say"),
    ("2.5.29.31", "the call makes it"),
    ("2.5.29.33", "it is the issuer's to say"),
    ("2.5.29.35", "the profile makes it"),
    ("2.5.29.36", "it is the issuer's to say"),
    ("2.5.29.37", "the profile makes it"),
    ("2.5.29.54", "it is the issuer's to say"),
];

/// Resolves the section; `None` without it, or if a required part is wrong.
pub(super) fn resolve(api: &Section<'_>, notes: &mut Notes) -> Option<CertificatePolicy> {
    let section = present(api, "SignCertificate", &KNOWN, notes)?;
    let signature = signature(&section, notes);
    let ski = ski(&section, notes);
    let validity = validity(&section, notes);
    let (subject, issuer) = key_constraints(&section, notes);
    if let Some(signature) = signature.filter(|signature| issuer.of(signature.value.kind()).is_none()) {
        let path = section.path_of("KeyConstraints.Issuer");
        notes.warn(signature.line, path, "has no sizes for SignAlg: no key can issue");
    }
    let key_usage = key_usage(&section, notes);
    if subject.ml_dsa.is_some() {
        check_ml_dsa_usage(key_usage, &section, notes);
    }
    let purposes = section.texts("ExtendedKeyUsage", LIST_MAX, notes);
    let purposes = purposes.iter().filter_map(|text| exact(*text, &PURPOSES, &section, "ExtendedKeyUsage", notes));
    let purposes = purposes.collect();
    let (is_ca, path_length) = basic_constraints(&section, notes);
    let copies_san = section.truth("CopySAN", notes).is_some_and(|is_on| is_on.value);
    let copies_extensions = copies_extensions(&section, notes);
    let checks = issuer_checks(&section, notes);
    let (not_before, not_after) = validity?;
    Some(CertificatePolicy {
        signature: signature?.value,
        ski: ski?,
        not_before,
        not_after,
        subject,
        issuer,
        key_usage,
        purposes,
        is_ca,
        path_length,
        copies_san,
        copies_extensions,
        checks,
    })
}

/// Resolves `SignAlg` and `HashAlg`; ML-DSA has no digest.
fn signature(section: &Section<'_>, notes: &mut Notes) -> Option<At<CertificateSignature>> {
    #[derive(Clone, Copy)]
    enum Family {
        Hashed(fn(SignatureHash) -> CertificateSignature),
        MlDsa(MlDsaAlgorithm),
    }
    let [one, two, three] = MlDsaAlgorithm::NAMES.map(|(name, set)| (name, Family::MlDsa(set)));
    let hashed =
        [("rsa", Family::Hashed(CertificateSignature::Rsa)), ("ecdsa", Family::Hashed(CertificateSignature::Ecdsa))];
    let families = [hashed[0], hashed[1], one, two, three];
    let family = section.required_name("SignAlg", &families, "unsupported algorithm", notes);
    let value = match family.map(|family| family.value) {
        Some(Family::MlDsa(set)) => {
            if let Some(node) = section.get("HashAlg") {
                notes.problem(node.line, section.path_of("HashAlg"), "this SignAlg has none");
            }
            Some(CertificateSignature::MlDsa(set))
        }
        Some(Family::Hashed(signature)) => signature_hash(section, notes).map(signature),
        None => {
            signature_hash(section, notes);
            None
        }
    };
    Some(At { line: family?.line, value: value? })
}

/// Checks the usages of certificates for ML-DSA keys (RFC 9881 section 5): such a key signs, and does nothing else.
fn check_ml_dsa_usage(usage: KeyUsage, section: &Section<'_>, notes: &mut Notes) {
    let (line, path) = (section.get("KeyUsage").map_or(section.line, |node| node.line), section.path_of("KeyUsage"));
    let signs = |bit: u16| matches!(bit, 0 | 1 | 5 | 6);
    let has = |(_, bit): &(&str, u16)| usage.0 & 1 << bit != 0;
    if let Some((name, _)) = USAGES.iter().find(|usage| has(usage) && !signs(usage.1)) {
        notes.problem(
            line,
            path,
            format!("{name} is not for ML-DSA keys (RFC 9881 section 5), which KeyConstraints.Subject allows"),
        );
    }
}

fn ski(section: &Section<'_>, notes: &mut Notes) -> Option<SkiHash> {
    if section.get("SKIHashAlg").is_none() {
        notes.warn(section.line, section.path_of("SKIHashAlg"), "not set: sha-1 is taken");
        return Some(SkiHash::Sha1);
    }
    Some(section.required_name("SKIHashAlg", &SKI_HASHES, "unsupported algorithm", notes)?.value)
}

/// Resolves both ends of the validity, as offsets from now.
fn validity(section: &Section<'_>, notes: &mut Notes) -> Option<(Offset, Offset)> {
    let known = ["ValidNotBeforeOffset", "ValidNotAfterOffset"];
    let Some(found) = section.section("Validity", &known, notes) else {
        if section.get("Validity").is_none() {
            notes.problem(section.line, section.path_of("Validity"), "required");
        }
        return None;
    };
    let mut offset = |key: &str| -> Option<At<Offset>> {
        let path = found.path_of(key);
        let Some(text) = found.text(key, notes) else {
            if found.get(key).is_none_or(|node| super::section::scalar(node).is_some()) {
                notes.problem(found.line, path, "required; a duration such as -1h or 8760h");
            }
            return None;
        };
        match duration::parse(text.value) {
            Ok(value) => Some(At { line: text.line, value }),
            Err(err) => {
                notes.problem(text.line, path, err);
                None
            }
        }
    };
    let (before, after) = (offset("ValidNotBeforeOffset"), offset("ValidNotAfterOffset"));
    let (before, after) = (before?, after?);
    if after.value < before.value {
        notes.problem(after.line, found.path_of("ValidNotAfterOffset"), "is before ValidNotBeforeOffset");
        return None;
    }
    Some((before.value, after.value))
}

fn key_constraints(section: &Section<'_>, notes: &mut Notes) -> (KeyConstraints, KeyConstraints) {
    let Some(found) = section.section("KeyConstraints", &["Subject", "Issuer"], notes) else {
        if section.get("KeyConstraints").is_none() {
            notes.warn(section.line, section.path_of("KeyConstraints"), "not set: every key is refused");
        }
        return (KeyConstraints::default(), KeyConstraints::default());
    };
    let mut side =
        |key: &str| found.get(key).map(|node| constraints::sizes(node, &found.path_of(key), notes)).unwrap_or_default();
    (side("Subject"), side("Issuer"))
}

fn key_usage(section: &Section<'_>, notes: &mut Notes) -> KeyUsage {
    let mut bits = 0;
    for text in section.texts("KeyUsage", LIST_MAX, notes) {
        if let Some(bit) = exact(text, &USAGES, section, "KeyUsage", notes) {
            bits |= 1 << bit;
        }
    }
    KeyUsage(bits)
}

/// Finds a name, with its case.
fn exact<T: Copy>(
    text: At<&str>,
    names: &[(&str, T)],
    section: &Section<'_>,
    key: &str,
    notes: &mut Notes,
) -> Option<T> {
    let found = names.iter().find(|(name, _)| *name == text.value).map(|(_, value)| *value);
    if found.is_none() {
        let text_of = super::section::unlisted("unknown name", text.value, names);
        notes.problem(text.line, section.path_of(key), text_of);
    }
    found
}

fn basic_constraints(section: &Section<'_>, notes: &mut Notes) -> (bool, Option<u32>) {
    let known = ["CA", "PathLenConstraint"];
    let Some(found) = section.section("BasicConstraints", &known, notes) else { return (false, None) };
    let is_ca = found.truth("CA", notes).is_some_and(|is_ca| is_ca.value);
    let Some(length) = found.number("PathLenConstraint", notes) else { return (is_ca, None) };
    let path = found.path_of("PathLenConstraint");
    if !is_ca {
        notes.problem(length.line, path, "only a CA has one");
        return (is_ca, None);
    }
    // No real chain is longer, and one byte holds the number.
    let checked = u32::try_from(length.value).ok().filter(|length| *length < 128);
    if checked.is_none() {
        notes.problem(length.line, path, format!("{} is not from 0 to 127", length.value));
    }
    (is_ca, checked)
}

fn copies_extensions(section: &Section<'_>, notes: &mut Notes) -> Vec<String> {
    let mut oids: Vec<String> = Vec::new();
    let path = section.path_of("CopyExtensions");
    for text in section.texts("CopyExtensions", LIST_MAX, notes) {
        if !is_oid(text.value) {
            notes.problem(
                text.line,
                &path,
                format!("expected an OID such as 1.3.6.1.5.5.7.1.24: {}", shown(text.value)),
            );
        } else if let Some((_, why)) = NEVER_COPIED.iter().find(|(oid, _)| *oid == text.value) {
            notes.problem(text.line, &path, format!("{} is not taken over: {why}", text.value));
        } else if oids.iter().any(|known| known == text.value) {
            // RFC 5280 section 4.2: a certificate has each extension at most once.
            notes.problem(text.line, &path, format!("{} stands twice", text.value));
        } else {
            oids.push(text.value.to_owned());
        }
    }
    oids
}

/// True for dotted numbers without leading zeros, with the first two in their bounds (X.660).
fn is_oid(text: &str) -> bool {
    let arcs: Option<Vec<u64>> = text
        .split('.')
        .map(|arc| arc.parse::<u32>().ok().filter(|number| number.to_string() == arc).map(u64::from))
        .collect();
    match arcs.as_deref() {
        Some([0 | 1, second, ..]) => *second < 40,
        // At most three encoded bytes: no arc in use has more.
        Some([2, second, ..]) => *second <= 0xffff,
        _ => false,
    }
}

fn issuer_checks(section: &Section<'_>, notes: &mut Notes) -> IssuerChecks {
    let known = ["IsCA", "MaySign", "InDate", "PathLength", "NotBeyond", "OwnSignature"];
    let mut checks = IssuerChecks::default();
    let Some(found) = section.section("IssuerChecks", &known, notes) else { return checks };
    let switches = [
        &mut checks.is_ca,
        &mut checks.may_sign,
        &mut checks.in_date,
        &mut checks.path_length,
        &mut checks.not_beyond,
        &mut checks.own_signature,
    ];
    for (key, switch) in known.iter().zip(switches) {
        if let Some(is_on) = found.truth(key, notes) {
            *switch = is_on.value;
            if !is_on.value {
                notes.warn(is_on.line, found.path_of(key), "switched off");
            }
        }
    }
    checks
}
