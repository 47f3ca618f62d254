//! The table of standards, cell by cell: every allowed algorithm loads under its standard and runs, and every other one
//! is an error of the file, and refused where a profile has it all the same.

use sealway_broker::keys::{Algorithm, Store};
use sealway_broker::operation::{
    Derivation, Plain, Recipient, SignedInput, derive, encapsulate, encrypt, mac, random, sign, verify,
};
use sealway_broker::profile::standards::{Adherence, Cell, Standard, Verdict, cells};
use sealway_broker::profile::{Leniency, Profile, Profiles, lines};
use sealway_broker::{Code, hash};

use crate::ground::{made, store};

/// Section `API` of a profile with the algorithm of a cell, and the operation of policies that it turns on.
fn api(cell: &Cell) -> (String, &'static str) {
    let name = cell.algorithm;
    // Sizes from the smallest that the standard allows, or any.
    let least = if let Verdict::From(bits) = cell.verdict { bits.max(2048) } else { 2048 };
    let part = |at: usize| name.splitn(3, '-').nth(at).unwrap_or_default();
    let validity = "Validity: {ValidNotBeforeOffset: 0h, ValidNotAfterOffset: 1h}, SKIHashAlg: sha-384";
    match cell.operation {
        "HashData" => (format!("HashData: {{HashAlg: {name}}}"), "HashData"),
        "EncryptData" if name == "chacha20-poly1305" => (format!("EncryptData: {{EncryptAlg: {name}}}"), "EncryptData"),
        "EncryptData" => {
            let cipher = name.splitn(3, '-').nth(2).unwrap();
            (format!("EncryptData: {{EncryptAlg: aes-{cipher}, KeySize: {}}}", part(1)), "EncryptData")
        }
        "SignData" if name.starts_with("rsa-") => {
            let family = if part(1) == "pss" { "rsa-pss" } else { "rsa" };
            let sizes = format!("KeyConstraints: {{rsa: {{MinKeySize: {least}, MaxKeySize: 4096}}}}");
            (format!("SignData: {{SignAlg: {family}, HashAlg: {}, {sizes}}}", part(2)), "SignData")
        }
        "SignData" if name.starts_with("ecdsa-") => {
            let curve = part(1).replace('p', "P-");
            (format!("SignData: {{SignAlg: ecdsa, HashAlg: {}, Curve: {curve}}}", part(2)), "SignData")
        }
        "SignData" => (format!("SignData: {{SignAlg: {name}}}"), "SignData"),
        // A signature with no key at all, and a key under the signature that each standard allows.
        "Certificate" => {
            let algorithm = match name.split_once("-sha-") {
                Some((family, digits)) => format!("SignAlg: {}, HashAlg: sha-{digits}", family.replace("-pkcs1", "")),
                None => format!("SignAlg: {name}"),
            };
            (format!("SignCertificate: {{{algorithm}, {validity}}}"), "SignCertificate")
        }
        "CertificateKey" => {
            let algorithm = match cell.standard {
                Standard::Cnsa2 => "SignAlg: ml-dsa-87",
                _ => "SignAlg: ecdsa, HashAlg: sha-384",
            };
            let (min, max) = match (cell.verdict, name) {
                (Verdict::From(bits), _) => (bits, bits.max(521)),
                (_, "ml-dsa") => (44, 87),
                (_, "ecdsa") => (256, 521),
                _ => (2048, 4096),
            };
            let sizes = format!("KeyConstraints: {{Subject: {{{name}: {{MinKeySize: {min}, MaxKeySize: {max}}}}}}}");
            (format!("SignCertificate: {{{algorithm}, {validity}, {sizes}}}"), "SignCertificate")
        }
        "Mac" => (format!("Mac: {{MacAlg: {name}}}"), "Mac"),
        "Derive" => (format!("Derive: {{DeriveAlg: {name}}}"), "Derive"),
        "Random" => ("Random: true".to_owned(), "Random"),
        "Encapsulate" => (format!("Encapsulate: {{KemAlg: {name}}}"), "Encapsulate"),
        "Unwrap" => (format!("Unwrap: {{UnwrapAlg: {name}}}"), "Unwrap"),
        other => panic!("{other}: no such operation"),
    }
}

/// A file of one profile with this API on its sixth line.
fn parsed(standard: Option<Standard>, api: &str) -> Result<Profile, String> {
    let standard = standard.map_or("Settings: {CryptoLibrary: native}".to_owned(), |standard| {
        format!("Settings: {{CryptoLibrary: native}}\n  Standard: {}", standard.name())
    });
    let text = format!("- Name: A\n  {standard}\n  API:\n    {api}\n");
    let profiles = Profiles::parse(&text, Leniency::Strict).map_err(|problems| lines(&problems))?;
    Ok(Profile::clone(profiles.get("A").unwrap()))
}

/// Runs the operation of an allowed cell with a new key; false if the operation needs more than a key.
fn runs(profile: &Profile, cell: &Cell, store: &Store) -> bool {
    let least = if let Verdict::From(bits) = cell.verdict { bits } else { 0 };
    let key = |name: &str| store.get(name).unwrap_or_else(|_| made(store, name));
    match cell.operation {
        "HashData" => assert!(hash::digest(profile.hash.unwrap(), b"input").len() >= 16),
        "EncryptData" => {
            let plain = Plain { plaintext: b"input", aad: b"", nonce: b"" };
            assert_eq!(encrypt(profile, &key(cell.algorithm), &[plain]).unwrap()[0].ciphertext.len(), 5);
        }
        "SignData" => {
            let of_key = match cell.algorithm.split('-').collect::<Vec<_>>()[..] {
                ["rsa", ..] => if least > 2048 { "rsa-3072" } else { "rsa-2048" }.to_owned(),
                ["ecdsa", curve, ..] => format!("ecdsa-{curve}"),
                _ => cell.algorithm.to_owned(),
            };
            let key = key(&of_key);
            let signed = sign(profile, &key, &[b"input"]).unwrap();
            let signed = SignedInput { input: b"input", signature: &signed.outputs[0], key_version: 0 };
            assert_eq!(verify(profile, &key, &[signed]).unwrap(), [true]);
        }
        "Mac" => assert!(mac(profile, &key(cell.algorithm), &[b"input"]).unwrap().outputs[0].len() >= 32),
        "Derive" => {
            let derivation = Derivation { salt: b"", info: b"", length: 32 };
            assert_eq!(derive(profile, &key(cell.algorithm), 0, &[derivation]).unwrap().outputs[0].len(), 32);
        }
        "Random" => assert_eq!(random(profile, 16, 1).unwrap()[0].len(), 16),
        "Encapsulate" => {
            let made = encapsulate(profile, Recipient::Key(&key(cell.algorithm)), 1).unwrap();
            assert_eq!(made.outputs[0].shared_secret.len(), 32);
        }
        // tests/certificates issues, and unwrap.rs unwraps.
        _ => return false,
    }
    true
}

#[test]
fn every_allowed_cell_loads_and_runs_and_every_other_one_is_refused_with_its_source() {
    let store = store();
    let (mut ran, mut refused) = (0, 0);
    for cell in cells() {
        let (api, operation) = api(cell);
        let (what, standard) = (format!("{cell:?}"), cell.standard.name());
        let without = parsed(None, &api).unwrap_or_else(|err| panic!("{what}: {err}"));
        match cell.verdict {
            Verdict::From(_) => {
                let profile = parsed(Some(cell.standard), &api).unwrap_or_else(|err| panic!("{what}: {err}"));
                profile.standard.as_ref().unwrap().check(operation, None).unwrap();
                ran += usize::from(runs(&profile, cell, &store));
            }
            Verdict::Forbidden | Verdict::Unsure => {
                let said = parsed(Some(cell.standard), &api).expect_err(&what);
                assert!(said.starts_with("line 5: profile \"A\": API."), "{said}");
                // A profile that a file cannot bring is refused all the same.
                let refusal = Adherence::new(cell.standard, &without).check(operation, None).expect_err(&what);
                assert_eq!(refusal.code, Code::FailedPrecondition);
                for said in [said, refusal.text] {
                    let names = said.contains(standard) && said.contains(cell.algorithm) && said.contains(cell.source);
                    assert!(names, "{what}: {said}");
                }
                refused += 1;
            }
        }
    }
    assert!(ran > 50 && refused > 80, "{ran} {refused}");
}

#[test]
fn keys_under_the_size_of_a_standard_are_an_error_of_the_file_and_of_a_call() {
    for (standard, sizes) in [
        (Standard::BsiTr02102, ""),
        (Standard::BsiTr02102, ", KeyConstraints: {rsa: {MinKeySize: 2048, MaxKeySize: 4096}}"),
        (Standard::Fips140_3, ", KeyConstraints: {rsa: {MinKeySize: 1024, MaxKeySize: 4096}}"),
    ] {
        let said =
            parsed(Some(standard), &format!("SignData: {{SignAlg: rsa-pss, HashAlg: sha-384{sizes}}}")).unwrap_err();
        let wanted =
            format!("line 5: profile \"A\": API.SignData.KeyConstraints: not allowed by {}: ", standard.name());
        assert!(said.starts_with(&wanted) && said.contains(" with keys under "), "{said}");
    }
    // The section Unwrap has no sizes: the key of the call decides.
    let profile = parsed(Some(Standard::BsiTr02102), "Unwrap: {UnwrapAlg: rsa-oaep-256}").unwrap();
    let adherence = profile.standard.unwrap();
    adherence.check("Unwrap", Algorithm::parse("rsa-unwrap-3072")).unwrap();
    let refusal = adherence.check("Unwrap", Algorithm::parse("rsa-unwrap-2048")).unwrap_err();
    assert!(
        refusal.text.starts_with("profile: not allowed by bsi-tr-02102: a key of 2048 bits, under 3000"),
        "{refusal}"
    );
}

#[test]
fn fips_140_3_refuses_forms_that_the_module_does_not_approve() {
    for (more, key) in [
        ("NonceStrategy: user-provided", "API.EncryptData.NonceStrategy"),
        ("TagLength: 96", "API.EncryptData.TagLength"),
    ] {
        let api = format!("EncryptData: {{EncryptAlg: aes-gcm, KeySize: 256, {more}}}");
        let said = parsed(Some(Standard::Fips140_3), &api).unwrap_err();
        assert!(said.starts_with(&format!("line 5: profile \"A\": {key}: not allowed by fips-140-3: ")), "{said}");
    }
}

#[test]
fn a_standard_is_one_of_the_three_and_no_misspelling_is_passed_over() {
    let with = |line: &str, leniency| {
        let text = format!("- Name: A\n  Settings: {{CryptoLibrary: native}}\n  {line}\n  API: {{Random: true}}\n");
        Profiles::parse(&text, leniency).map(|_| ()).map_err(|problems| lines(&problems))
    };
    for leniency in [Leniency::Strict, Leniency::Lenient] {
        with("Standard: CNSA-2.0", leniency).unwrap();
        let said = with("Standard: cnsa-1.0", leniency).unwrap_err();
        let names = "available values: [cnsa-2.0, fips-140-3, bsi-tr-02102]";
        assert!(said.starts_with("line 3: ") && said.ends_with(names), "{said}");
        assert!(with("Standard:", leniency).unwrap_err().contains("Standard: is empty"));
        assert!(with("standard: cnsa-2.0", leniency).unwrap_err().contains("did you mean Standard?"));
    }
}
