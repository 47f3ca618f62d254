//! Bounds of a file: both sides of each, and the place that a problem names.

use super::*;

#[test]
fn a_file_has_at_most_1000_profiles() {
    let many = |count: usize| -> String {
        (0..count).map(|at| with("Random: true").replace("Name: A", &format!("Name: N{at}"))).collect()
    };
    assert_eq!(strict(&many(1000)).unwrap().names().count(), 1000);
    assert!(told(&many(1001)).contains("more than 1000 profiles"));
}

#[test]
fn a_name_has_at_most_64_bytes_and_a_longer_one_is_in_no_problem() {
    let named = |len: usize| with("Random: true").replace("Name: A", &format!("Name: {}", "n".repeat(len)));
    assert_eq!(strict(&named(64)).unwrap().names().next().map(str::len), Some(64));
    assert_eq!(told(&named(65)), "line 1: profile \"#1\": Name: too large (max 64)");
    let wrong = |len: usize| named(len).replace("true", "3");
    assert!(told(&wrong(64)).contains(&format!("profile {:?}: API.Random: ", "n".repeat(64))));
    assert!(told(&wrong(65)).contains("profile \"#1\": API.Random: "));
    assert!(told(&with("Random: 3").replace("Name: A", "Name: ''")).contains("profile \"#1\": API.Random: "));
}

#[test]
fn each_text_of_a_deprecation_has_at_most_256_bytes() {
    for key in ["ReplacedBy", "DeprecatedSince", "RemoveAfter", "Reason"] {
        let file = |len: usize| {
            with("Random: true").replace("API", &format!("Deprecation: {{{key}: {}}}, API", "x".repeat(len)))
        };
        assert!(strict(&file(256)).is_ok(), "{key}");
        for len in [257, 300] {
            let want = format!("line 1: profile \"A\": Deprecation.{key}: too large (max 256)");
            assert_eq!(told(&file(len)), want);
        }
    }
}

#[test]
fn a_list_has_at_most_16_entries() {
    let oids = |count: usize| {
        let oids: Vec<String> = (0..count).map(|at| format!("2.999.{at}")).collect();
        certificate(&format!("CopyExtensions: [{}]", oids.join(", ")))
    };
    assert_eq!(one(&oids(16)).certificate.unwrap().copies_extensions.len(), 16);
    for count in [17, 18] {
        assert!(told(&oids(count)).contains("CopyExtensions: more than 16 entries"));
    }
}

#[test]
fn a_problem_of_a_range_of_sizes_is_reported_once() {
    let sizes = |kinds: &str| certificate(&format!("KeyConstraints: {{Issuer: {{{kinds}}}}}"));
    let range = |min: u32, max: u32| sizes(&format!("ecdsa: {{MinKeySize: {min}, MaxKeySize: {max}}}"));
    let path = "line 1: profile \"A\": API.SignCertificate.KeyConstraints.Issuer.ecdsa: ";
    assert_eq!(told(&range(522, 521)), format!("{path}MinKeySize 522 is above MaxKeySize 521"));
    let refuses = "MaxKeySize 0 refuses every key; take the algorithm out, or give its largest size";
    for min in [0, 5] {
        assert_eq!(told(&range(min, 0)), format!("{path}{refuses}"));
    }
    let of = |text: &str| one(text).certificate.unwrap().issuer;
    assert_eq!(of(&range(521, 521)).ecdsa, Some(SizeRange { min: 521, max: 521 }));
    assert_eq!(of(&range(0, 521)).ecdsa, Some(SizeRange { min: 0, max: 521 }));
    // A kind that is left empty has no sizes: its keys are rejected.
    assert_eq!(of(&sizes("ecdsa: {MinKeySize: 256, MaxKeySize: 521}, rsa: ")).rsa, None);
}

#[test]
fn der_is_a_form_of_ecdsa_alone_and_raw_of_all() {
    let signing = |api: &str| one(&with(&format!("SignData: {{{api}, HashAlg: sha-256}}"))).sign;
    let hash = SignatureHash::Sha256;
    assert_eq!(
        signing("SignAlg: ecdsa, Curve: P-256, SignatureFormat: DER"),
        Some(SignAlgorithm::EcdsaDer(Curve::P256, hash))
    );
    assert_eq!(signing("SignAlg: rsa, SignatureFormat: RAW"), Some(SignAlgorithm::RsaPkcs1(hash)));
    assert_eq!(signing("SignAlg: rsa-pss, SignatureFormat: raw"), Some(SignAlgorithm::RsaPss(hash)));
}

#[test]
fn a_breach_of_a_standard_is_a_problem_on_the_line_of_its_key() {
    let file = |standard: &str| {
        format!(
            "- Name: A\n  Settings: {{CryptoLibrary: native}}\n  Standard: {standard}\n  API:\n    Random: true\n    \
             HashData:\n      HashAlg: sha-256\n    EncryptData:\n      EncryptAlg: aes-gcm\n      KeySize: 256\n      \
             TagLength: 96\n    SignData:\n      SignAlg: rsa\n      HashAlg: sha-256\n"
        )
    };
    let places = |standard: &str| -> Vec<(u32, String)> {
        let problems = strict(&file(standard)).unwrap_err();
        assert!(problems.iter().all(|problem| problem.text.contains(&standard.to_lowercase())), "{problems:?}");
        problems.into_iter().map(|problem| (problem.line, problem.key)).collect()
    };
    let place = |line, key: &str| (line, key.to_owned());
    assert_eq!(places("CNSA-2.0"), [place(7, "API.HashData.HashAlg"), place(13, "API.SignData.SignAlg")]);
    // Sizes that are not there: the last part of the path that is.
    let missing = place(12, "API.SignData.KeyConstraints");
    assert_eq!(places("fips-140-3"), [missing, place(11, "API.EncryptData.TagLength")]);
    let kept = with("Random: true").replace("API", "Standard: fips-140-3, API");
    let standard = one(&kept).standard.unwrap();
    assert_eq!((standard.standard, standard.breaches.len()), (standards::Standard::Fips140_3, 0));
    assert_eq!(one(&with("Random: true")).standard, None);
}
