//! Tests of profile files: both shapes, every rule, and the published set.

use super::policy::*;
use super::*;

mod bounds;
mod certificates;
mod names;

const PUBLISHED: &str = include_str!("../../../../deploy/config/broker/Profiles.yaml");

/// A profile with this `API`, which begins on line 1.
fn with(api: &str) -> String {
    format!("- {{Name: A, Settings: {{CryptoLibrary: native}}, API: {{{api}}}}}\n")
}

fn certificate(changed: &str) -> String {
    // Later keys of the same name are rejected as duplicates, so the changed key is left out here.
    let parts = [
        ("SignAlg", "SignAlg: ecdsa"),
        ("HashAlg", "HashAlg: sha-384"),
        ("SKIHashAlg", "SKIHashAlg: sha-256"),
        ("Validity", "Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 8760h}"),
        ("KeyConstraints", "KeyConstraints: {Issuer: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}}}"),
    ];
    let begins = |name: &str| changed.split(", ").any(|part| part.starts_with(&format!("{name}:")));
    let kept: Vec<&str> = parts.iter().filter(|(name, _)| !begins(name)).map(|(_, text)| *text).collect();
    with(&format!("SignCertificate: {{{}, {changed}}}", kept.join(", ")))
}

fn strict(text: &str) -> Result<Profiles, Vec<Problem>> {
    Profiles::parse(text, Leniency::Strict)
}

fn one(text: &str) -> Profile {
    let profiles = strict(text).unwrap_or_else(|err| panic!("{text}: {}", lines(&err)));
    profiles.get("A").unwrap().as_ref().clone()
}

fn told(text: &str) -> String {
    lines(&strict(text).expect_err(text))
}

#[test]
fn keys_and_values_of_the_wrong_yaml_kind_are_rejected() {
    for (key, shown) in [("~", "~"), ("[a]", "[…]"), ("{a: b}", "{…}"), ("7", "7"), ("true", "true"), ("1.50", "1.50")]
    {
        let told = told(&format!(
            "- Name: A\n  Settings: {{CryptoLibrary: native}}\n  ? {key}\n  : x\n  API: {{Random: true}}\n"
        ));
        assert!(told.contains("line 3: ") && told.contains(shown), "{key}: {told}");
    }
    for value in
        ["~", "7", "-7", "1.5", "18446744073709551615", "-99999999999999999999", "1e400", "[]", "{}", "true", ".nan"]
    {
        for api in [
            format!("HashData: {{HashAlg: {value}}}"),
            format!("EncryptData: {{EncryptAlg: aes-gcm, KeySize: {value}}}"),
        ] {
            let told = told(&with(&api));
            assert!(told.starts_with("line 1: ") && !told.contains('\n'), "{api}: {told}");
        }
    }
}

#[test]
fn the_published_set_means_what_its_tests_expect() {
    let profiles = strict(PUBLISHED).unwrap_or_else(|err| panic!("{}", lines(&err)));
    assert_eq!(profiles.names().count(), 12);
    assert_eq!(profiles.warnings(), []);
    for (name, hash) in [
        ("KAT_SHA256", HashAlgorithm::Sha256),
        ("KAT_SHA384", HashAlgorithm::Sha384),
        ("KAT_SHA512", HashAlgorithm::Sha512),
        ("KAT_SHA3_256", HashAlgorithm::Sha3_256),
        ("KAT_SHA3_384", HashAlgorithm::Sha3_384),
        ("KAT_SHA3_512", HashAlgorithm::Sha3_512),
    ] {
        let want = Profile { name: name.into(), hash: Some(hash), ..Profile::default() };
        assert_eq!(**profiles.get(name).unwrap(), want);
    }
    let range = |min, max| Some(SizeRange { min, max });
    const H: i64 = 3_600_000_000_000;
    let both = (KeyUsage(0b101), HashAlgorithm::Sha3_512);
    for (name, (usage, hash), signed, hours, subject, issuer, encrypt) in [
        (
            "Default",
            both,
            CertificateSignature::Ecdsa(SignatureHash::Sha512),
            8760,
            (range(2048, 4096), range(256, 521)),
            range(384, 521),
            Some((EncryptAlgorithm::Aes256Gcm, 16)),
        ),
        (
            "KSA-MODERATE-2020",
            (KeyUsage(0b101), HashAlgorithm::Sha384),
            CertificateSignature::Rsa(SignatureHash::Sha384),
            26280,
            (range(3072, 8192), range(256, 384)),
            range(3072, 8192),
            None,
        ),
        (
            "KSA-ADVANCED-2020",
            both,
            CertificateSignature::Ecdsa(SignatureHash::Sha512),
            43800,
            (None, range(521, 521)),
            range(521, 521),
            None,
        ),
        (
            "FIPS-140-3-128bit",
            (KeyUsage(0b101), HashAlgorithm::Sha256),
            CertificateSignature::Rsa(SignatureHash::Sha256),
            8760,
            (range(3072, 8192), range(256, 384)),
            range(3072, 8192),
            Some((EncryptAlgorithm::Aes128Gcm, 12)),
        ),
        (
            "FIPS-140-3-192bit",
            (KeyUsage(0b101), HashAlgorithm::Sha384),
            CertificateSignature::Ecdsa(SignatureHash::Sha384),
            8760,
            (range(8192, 15380), range(384, 521)),
            range(384, 521),
            Some((EncryptAlgorithm::Aes192Gcm, 14)),
        ),
        (
            "FIPS-140-3-256bit",
            (KeyUsage(0b1), HashAlgorithm::Sha512),
            CertificateSignature::Ecdsa(SignatureHash::Sha512),
            4380,
            (range(15380, 15380), range(521, 521)),
            range(521, 521),
            Some((EncryptAlgorithm::Aes256Gcm, 16)),
        ),
    ] {
        let profile = profiles.get(name).unwrap();
        assert_eq!(profile.hash, Some(hash), "{name}");
        let want = encrypt.map(|(algorithm, tag_len)| EncryptPolicy { algorithm, is_nonce_callers: true, tag_len });
        assert_eq!(profile.encrypt, want, "{name}");
        let policy = profile.certificate.as_ref().unwrap();
        let issuers = match signed.kind() {
            KeyKind::Rsa => KeyConstraints { rsa: issuer, ..KeyConstraints::default() },
            _ => KeyConstraints { ecdsa: issuer, ..KeyConstraints::default() },
        };
        assert_eq!(policy.signature, signed, "{name}");
        assert_eq!((policy.not_before.ns, policy.not_after.ns), (-H, hours * H), "{name}");
        assert_eq!(policy.subject, KeyConstraints { rsa: subject.0, ecdsa: subject.1, ml_dsa: None }, "{name}");
        assert_eq!((policy.issuer, policy.key_usage), (issuers, usage), "{name}");
        assert_eq!(
            (policy.purposes.as_slice(), policy.is_ca, policy.path_length),
            (&[Purpose::ClientAuth][..], false, None)
        );
        assert_eq!((policy.copies_san, policy.checks), (false, IssuerChecks::default()), "{name}");
        let sealing: Vec<_> = profile.unapproved.iter().map(|found| found.operation).collect();
        assert_eq!(sealing.is_empty(), encrypt.is_none(), "{name}: {sealing:?}");
    }
}

#[test]
fn yaml_style_does_not_change_the_meaning_of_a_file() {
    let plain = strict(PUBLISHED).unwrap();
    let begun = format!("---\n# first\n{PUBLISHED}\n...\n");
    for text in [begun.clone(), begun.replace('\n', "\r\n"), format!("\u{feff}{PUBLISHED}")] {
        let written = strict(&text).unwrap_or_else(|err| panic!("{}", lines(&err)));
        assert!(written.iter().eq(plain.iter()));
    }
    assert!(strict(&format!("{PUBLISHED}---\n{PUBLISHED}")).is_err(), "two documents");
}

#[test]
fn both_shapes_of_the_file_mean_the_same() {
    let list = strict(&with("HashData: {HashAlg: SHA3-512}")).unwrap();
    let map = "\
Settings:
  CryptoLibrary: NATIVE
  RequireFips: strict
Callers:
  - {Uid: 5, Profiles: [A], Operations: [HashData], Keys: []}
Profiles:
  - Name: A
    API:
      HashData:
        HashAlg: sha3-512
";
    let map = strict(map).unwrap_or_else(|err| panic!("{}", lines(&err)));
    assert_eq!(list.get("A"), map.get("A"));
    assert_eq!((list.require_fips(), map.require_fips()), (RequireFips::No, RequireFips::Strict));
    assert!(list.callers().is_none() && map.callers().is_some());
    assert!(list.get("a").is_none() && list.get("").is_none());
    let kms = "Settings: {CryptoLibrary: native, RequireFips: true, KMS: {Client: x, Config: {a: [1]}, Cache: {}}}\nProfiles:\n"
        .to_owned() + &with("Random: true");
    let kms = strict(&kms).unwrap();
    assert_eq!((kms.require_fips(), kms.warnings().len()), (RequireFips::Yes, 1));
}

#[test]
fn all_problems_of_all_profiles_are_reported_with_line_profile_and_key() {
    let text = "\
- Name: One
  Settings:
    CryptoLibrary: openssl
  API:
    HashData:
      HashAlgo: sha-256
      HashAlg: md5
    SignCertificate:
      SignAlg: dsa
      KeyUsage: [digitalsignature]
- Name: One
  Settings: {CryptoLibrary: native}
  API: {HashData: {HashAlg: sha-256}}
- Settings: {CryptoLibrary: native}
  Api: {}
";
    assert_eq!(
        told(text),
        "\
line 3: profile \"One\": Settings.CryptoLibrary: unknown cryptographic library: openssl, available values: [native]
line 6: profile \"One\": API.HashData: unknown key \"HashAlgo\"; did you mean HashAlg?
line 7: profile \"One\": API.HashData.HashAlg: unsupported algorithm: md5, available values: [sha-256, sha-384, sha-512, \
sha-512/256, sha3-256, sha3-384, sha3-512, shake-128, shake-256]
line 9: profile \"One\": API.SignCertificate.SignAlg: unsupported algorithm: dsa, available values: [rsa, ecdsa, ml-dsa-44, ml-dsa-65, ml-dsa-87]
line 9: profile \"One\": API.SignCertificate.HashAlg: required; one of sha-256, sha-384, sha-512
line 9: profile \"One\": API.SignCertificate.Validity: required
line 10: profile \"One\": API.SignCertificate.KeyUsage: unknown name: digitalsignature, available values: [digitalSignature, \
contentCommitment, nonRepudiation, keyEncipherment, dataEncipherment, keyAgreement, keyCertSign, cRLSign, encipherOnly, \
decipherOnly]
line 11: profile \"One\": Name: duplicate profile name: One
line 15: profile \"#3\": unknown key \"Api\"; did you mean API?
line 14: profile \"#3\": Name: required
line 14: profile \"#3\": API: profile should contain at least one API"
    );
}

#[test]
fn each_rule_of_the_file_as_a_whole_is_held() {
    let many: String = (0..1001).map(|at| with("Random: true").replace("Name: A", &format!("Name: N{at}"))).collect();
    for (text, want) in [
        ("", "the file holds no profiles"),
        ("[]", "the file holds no profiles"),
        ("hello", "the file holds no profiles"),
        ("Profiles: []", "the file holds no profiles"),
        ("Profiles: 3", "line 1: Profiles: expected a list, got a number"),
        ("Settings: {RequireFips: maybe}", "Settings.RequireFips: expected true, false or strict"),
        ("- 3", "profile \"#1\": expected a map, got a number"),
        ("-", "profile \"#1\": expected a map, got nothing"),
        ("- {Name: [], API: {Random: true}}", "Name: expected a text, got a list"),
        (&format!("- {{Name: {}}}", "n".repeat(65)), "Name: too large (max 64)"),
        ("- {Name: \"a\\tb\"}", "Name: holds a control character"),
        ("- {Name: A, API: {Random: true}}", "Settings.CryptoLibrary: required"),
        (&with(""), "profile should contain at least one API"),
        (&with("HashData: {}, Random: false, SignData: {SignAlg: ''}"), "profile should contain at least one API"),
        (&with("HashData: {HashAlg: sha-256}, hashData: {}"), "unknown key \"hashData\"; did you mean HashData?"),
        (&with("Colour: {}, Random: true"), "API: unknown key \"Colour\"; known are HashData, EncryptData"),
        (&with("Random: yes please"), "API.Random: expected true or false, got a text"),
        (&many, "more than 1000 profiles"),
        ("- {Name: A}\n- {Name: A\n", "line "),
        (
            &with("Random: true").replace("API", "Deprecation: {Reason: [], Since: x}, API"),
            "Deprecation.Reason: expected a text",
        ),
    ] {
        let told = told(text);
        assert!(told.contains(want), "{want} in {told}");
    }
    let deprecated = with("Random: true").replace("API", "Deprecation: {ReplacedBy: B, RemoveAfter: 2027-01-01}, API");
    let want = Deprecation {
        replaced_by: Some("B".into()),
        remove_after: Some("2027-01-01".into()),
        ..Deprecation::default()
    };
    assert_eq!(one(&deprecated).deprecation, Some(want));
    assert!(one(&with("Random: true").replace("Name: A", "Name: 'A'")).random);
    assert!(strict(&with("Random: true").replace("Name: A", "Name: 1.0")).unwrap().get("1.0").is_some());
}

#[test]
fn each_rule_of_a_certificate_is_held() {
    for (changed, want) in [
        ("HashAlg: sha3-256", "SignCertificate.HashAlg: unsupported algorithm: sha3-256"),
        ("SKIHashAlg: md5", "SKIHashAlg: unsupported algorithm: md5"),
        ("Validity: {ValidNotBeforeOffset: -1h}", "Validity.ValidNotAfterOffset: required"),
        ("Validity: {ValidNotBeforeOffset: 1d, ValidNotAfterOffset: 1h}", "unknown unit \"d\" in duration \"1d\""),
        (
            "Validity: {ValidNotBeforeOffset: 2h, ValidNotAfterOffset: 1h}",
            "ValidNotAfterOffset: is before ValidNotBeforeOffset",
        ),
        ("Validity: {ValidNotBeforeOffset: 3, ValidNotAfterOffset: 1h}", "missing unit in duration \"3\""),
        (
            "KeyConstraints: {Subject: {rsa: {MinKeySize: -1, MaxKeySize: 4}}}",
            "Subject.rsa.MinKeySize: should not be negative",
        ),
        (
            "KeyConstraints: {Subject: {rsa: {MinKeySize: 5, MaxKeySize: 4}}}",
            "Subject.rsa: MinKeySize 5 is above MaxKeySize 4",
        ),
        ("KeyConstraints: {Subject: {rsa: {MinKeySize: 5}}}", "Subject.rsa.MaxKeySize: required"),
        ("KeyConstraints: {Subject: {rsa: {MinKeySize: 5, MaxKeySize: 99999999999}}}", "MaxKeySize: too large"),
        (
            "KeyConstraints: {Subject: {rsa: {MinKeySize: '5', MaxKeySize: 6}}}",
            "MinKeySize: expected a whole number, got \"5\"",
        ),
        ("KeyConstraints: {Subject: {dsa: {MinKeySize: 5, MaxKeySize: 6}}}", "Subject.dsa: unsupported algorithm"),
        (
            "KeyConstraints: {Subject: {rsa: {MinKeySize: 1, MaxKeySize: 6}, RSA: {MinKeySize: 1, MaxKeySize: 6}}}",
            "Subject.RSA: is there twice",
        ),
        ("KeyUsage: digitalSignature", "KeyUsage: expected a list, got a text"),
        ("ExtendedKeyUsage: [OCSPsigning]", "ExtendedKeyUsage: unknown name: OCSPsigning"),
        ("BasicConstraints: {CA: false, PathLenConstraint: 0}", "PathLenConstraint: only a CA has one"),
        ("BasicConstraints: {CA: true, PathLenConstraint: -1}", "PathLenConstraint: -1 is not from 0 to 127"),
        ("BasicConstraints: {CA: maybe}", "CA: expected true or false"),
        ("CopyExtensions: [2.5.29.19]", "2.5.29.19 is not taken over: the profile makes it"),
        ("CopyExtensions: [2.5.29.17]", "CopySAN is for it"),
        ("CopyExtensions: [2.5.29.32, 2.999.1, 2.5.29.32]", "2.5.29.32 stands twice"),
        ("CopyExtensions: [2.65536.1]", "expected an OID"),
        ("CopyExtensions: [2.5.029.1]", "expected an OID"),
        ("CopyExtensions: ['3.1', '1.40', '1', '', 'x']", "expected an OID"),
        ("IssuerChecks: {IsCa: false}", "unknown key \"IsCa\"; did you mean IsCA?"),
    ] {
        let told = told(&certificate(changed));
        assert!(told.contains(want), "{changed}: {want} in {told}");
    }
    let policy = one(&certificate(
        "KeyUsage: [nonRepudiation, contentCommitment, decipherOnly], ExtendedKeyUsage: [OCSPSigning, serverAuth], \
         BasicConstraints: {CA: true, PathLenConstraint: 0}, CopySAN: true, CopyExtensions: [1.3.6.1.5.5.7.1.24, 2.999.1], \
         IssuerChecks: {InDate: false}",
    ));
    let policy = policy.certificate.unwrap();
    assert_eq!(policy.key_usage, KeyUsage(1 << 1 | 1 << 8));
    assert_eq!(policy.purposes, [Purpose::OcspSigning, Purpose::ServerAuth]);
    assert_eq!((policy.is_ca, policy.path_length, policy.copies_san), (true, Some(0), true));
    assert_eq!(policy.copies_extensions, ["1.3.6.1.5.5.7.1.24", "2.999.1"]);
    assert_eq!(policy.checks, IssuerChecks { in_date: false, ..IssuerChecks::default() });
    assert_eq!(policy.ski, SkiHash::Sha256);
}

#[test]
fn each_rule_of_an_operation_on_data_is_held() {
    for (api, want) in [
        ("EncryptData: {EncryptAlg: aes-gcm}", "EncryptData.KeySize: required; one of 128, 192, 256"),
        ("EncryptData: {EncryptAlg: aes-gcm, KeySize: 512}", "unsupported key size: 512"),
        ("EncryptData: {EncryptAlg: aes-cbc, KeySize: 128}", "unsupported algorithm: aes-cbc"),
        (
            "EncryptData: {EncryptAlg: chacha20-poly1305, KeySize: 128}",
            "unsupported key size: 128, available values: [256]",
        ),
        (
            "EncryptData: {EncryptAlg: aes-gcm-siv, TagLength: 96}",
            "unsupported tag length: 96, available values: [128]",
        ),
        ("EncryptData: {EncryptAlg: aes-gcm, KeySize: 128, TagLength: 64}", "unsupported tag length: 64"),
        (
            "EncryptData: {EncryptAlg: aes-gcm, KeySize: 128, NonceStrategy: counter}",
            "unsupported nonce strategy: counter",
        ),
        (
            "SignData: {SignAlg: ecdsa, HashAlg: sha-256}",
            "SignData.Curve: required, unless KeyConstraints leave one curve",
        ),
        ("SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-224}", "unsupported curve: P-224"),
        (
            "SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256, KeyConstraints: {ecdsa: {MinKeySize: 384, MaxKeySize: 521}}}",
            "KeyConstraints do not allow keys of 256 bits",
        ),
        ("SignData: {SignAlg: rsa, HashAlg: sha-256, SignatureFormat: DER}", "DER is for ecdsa alone"),
        ("SignData: {SignAlg: rsa, HashAlg: sha-256, SignatureFormat: CMS}", "unsupported signature format: CMS"),
        ("SignData: {SignAlg: rsa, HashAlg: sha-256, SigningMode: hybrid}", "unsupported signing mode: hybrid"),
        ("SignData: {SignAlg: rsa, HashAlg: sha-256, SigningMode: post-quantum}", "SigningMode: does not fit SignAlg"),
        ("SignData: {SignAlg: rsa}", "SignData.HashAlg: required"),
        ("SignData: {SignAlg: ed25519, HashAlg: sha-512}", "SignData.HashAlg: this SignAlg has none"),
        ("Mac: {MacAlg: hmac-md5}", "Mac.MacAlg: unsupported algorithm: hmac-md5"),
        ("Derive: {DeriveAlg: pbkdf2}", "Derive.DeriveAlg: unsupported algorithm: pbkdf2"),
        ("Encapsulate: {KemAlg: ml-kem-256}", "Encapsulate.KemAlg: unsupported algorithm: ml-kem-256"),
    ] {
        let told = told(&with(api));
        assert!(told.contains(want), "{api}: {want} in {told}");
    }
    let sealing = |api: &str| one(&with(&format!("EncryptData: {{{api}}}"))).encrypt.unwrap();
    let policy = |algorithm, is_nonce_callers, tag_len| EncryptPolicy { algorithm, is_nonce_callers, tag_len };
    assert_eq!(sealing("EncryptAlg: AES-GCM, KeySize: 192"), policy(EncryptAlgorithm::Aes192Gcm, false, 16));
    assert_eq!(
        sealing("EncryptAlg: aes-gcm, KeySize: 128, TagLength: 104, NonceStrategy: user-provided"),
        policy(EncryptAlgorithm::Aes128Gcm, true, 13)
    );
    assert_eq!(sealing("EncryptAlg: aes-gcm-siv"), policy(EncryptAlgorithm::Aes256GcmSiv, false, 16));
    assert_eq!(
        sealing("EncryptAlg: chacha20-poly1305, KeySize: 256"),
        policy(EncryptAlgorithm::ChaCha20Poly1305, false, 16)
    );
    let signing = |api: &str| {
        let profile = one(&with(&format!("SignData: {{{api}}}")));
        (profile.sign.unwrap(), profile.sign_key_size)
    };
    let digests = |api: &str| one(&with(&format!("SignData: {{SignAlg: rsa, HashAlg: sha-256{api}}}"))).sign_digests;
    assert_eq!(["", ", Prehashed: false", ", Prehashed: true"].map(digests), [false, false, true]);
    let size = Some(SizeRange { min: 384, max: 384 });
    for (api, want) in [
        ("SignAlg: rsa, HashAlg: sha-256", (SignAlgorithm::RsaPkcs1(SignatureHash::Sha256), None)),
        (
            "SignAlg: RSA-PSS, HashAlg: sha-512, SigningMode: legacy",
            (SignAlgorithm::RsaPss(SignatureHash::Sha512), None),
        ),
        (
            "SignAlg: ecdsa, HashAlg: sha-512, Curve: p-256",
            (SignAlgorithm::EcdsaDer(Curve::P256, SignatureHash::Sha512), None),
        ),
        (
            "SignAlg: ecdsa, HashAlg: sha-384, SignatureFormat: RAW, KeyConstraints: {ECDSA: {MinKeySize: 384, MaxKeySize: 384}}",
            (SignAlgorithm::EcdsaRaw(Curve::P384, SignatureHash::Sha384), size),
        ),
        ("SignAlg: ed25519", (SignAlgorithm::Ed25519, None)),
        ("SignAlg: ml-dsa-44", (SignAlgorithm::MlDsa(MlDsaAlgorithm::MlDsa44), None)),
        ("SignAlg: ml-dsa-65, SigningMode: post-quantum", (SignAlgorithm::MlDsa(MlDsaAlgorithm::MlDsa65), None)),
        ("SignAlg: ML-DSA-87", (SignAlgorithm::MlDsa(MlDsaAlgorithm::MlDsa87), None)),
    ] {
        assert_eq!(signing(api), want, "{api}");
    }
    let rest =
        one(&with("Mac: {MacAlg: hmac-sha-512}, Derive: {DeriveAlg: hkdf-sha-384}, Encapsulate: {KemAlg: ml-kem-768}"));
    assert_eq!(rest.mac, Some(MacAlgorithm::HmacSha512));
    assert_eq!((rest.derive, rest.kem), (Some(DeriveAlgorithm::HkdfSha384), Some(KemAlgorithm::MlKem768)));
}

#[test]
fn a_lenient_reading_warns_only_of_what_the_original_broker_ignores() {
    for sloppy in [
        with("HashData: {HashAlg: sha-256, Salt: x}"),
        certificate("KeyConstraints: {Issuer: {ecdsa: {MinKeySize: 5, MaxKeySize: 4}, dsa: {MinKeySize: 5}}}"),
        with("HashData: {HashAlg: sha-256}, SignData: {SignAlg: whatever}"),
        with("HashData: {HashAlg: sha-256}, SignHash: {SignAlg: RSA}"),
    ] {
        let strict = strict(&sloppy).expect_err(&sloppy);
        let lenient = Profiles::parse(&sloppy, Leniency::Lenient).unwrap_or_else(|err| panic!("{}", lines(&err)));
        assert!(strict.iter().all(|problem| lenient.warnings().contains(problem)), "{strict:?}");
        assert_eq!(lenient.get("A").unwrap().sign, None);
    }
    for wrong in [
        with("HashData: {HashAlg: md5}, SignData: {SignAlg: whatever}"),
        certificate("Validity: {}"),
        with("Random: true") + &with("Random: true"),
        "Settings: {RequireFips: perhaps}\nProfiles:\n".to_owned() + &with("Random: true"),
        "Settings: {RequireFIPS: true}\nProfiles:\n".to_owned() + &with("Random: true"),
        "Settings: {RequireFips: }\nProfiles:\n".to_owned() + &with("Random: true"),
        with("Random: true").replace("CryptoLibrary: native", "CryptoLibrary: native, RequireFips: true"),
    ] {
        assert!(Profiles::parse(&wrong, Leniency::Lenient).is_err(), "{wrong}");
    }
}

#[test]
fn problems_are_listed_up_to_a_bound_and_counted_beyond_it() {
    let text: String = (0..900).map(|at| format!("- {{Name: N{at}, A: 1, B: 2}}\n")).collect();
    let problems = strict(&text).unwrap_err();
    assert_eq!(problems.len(), 1001);
    assert_eq!(problems.last().unwrap().to_string(), "and 2600 more");
}

#[test]
fn an_operation_that_is_left_empty_is_off_with_a_warning_and_no_sizes_at_all_are_refused() {
    let file =
        |api: &str| format!("- {{Name: A, Settings: {{CryptoLibrary: native}}, API: {{Random: true, {api}}}}}\n");
    for empty in ["HashData: {}", "HashData:", "HashData: {HashAlg: ''}", "EncryptData: {}", "SignCertificate: {}"] {
        let profiles = Profiles::parse(&file(empty), Leniency::Strict).unwrap();
        let warnings = lines(profiles.warnings());
        assert!(warnings.contains("is empty: the operation is off"), "{empty}: {warnings}");
    }
    let sizes =
        file("SignData: {SignAlg: rsa, HashAlg: sha-256, KeyConstraints: {RSA: {MinKeySize: 0, MaxKeySize: 0}}}");
    let problems = Profiles::parse(&sizes, Leniency::Strict).unwrap_err();
    assert!(lines(&problems).contains("MaxKeySize 0 refuses every key"), "{problems:?}");
    let lenient = Profiles::parse(&sizes, Leniency::Lenient).unwrap();
    assert!(lines(lenient.warnings()).contains("MaxKeySize 0 refuses every key"));
}
