//! Report of the command `profiles check` on a file.

use std::fmt::Write;
use std::path::Path;

use super::approval;
use super::problem::{Leniency, lines};

/// Reads a file as the broker does, and reports its profiles with their operations, the warnings, and the operations
/// that a FIPS build would switch off.
///
/// # Errors
/// The problems, one per line.
pub fn check(path: &Path, leniency: Leniency) -> Result<String, String> {
    let profiles = super::load(path, leniency)
        .map_err(|problems| format!("{}\n{} problems in {}", lines(&problems), problems.len(), path.display()))?;
    let mut said = String::new();
    for profile in profiles.iter() {
        let operations = [
            ("HashData", profile.hash.is_some()),
            ("SignCertificate", profile.certificate.is_some()),
            ("EncryptData", profile.encrypt.is_some()),
            ("SignData", profile.sign.is_some()),
            ("Mac", profile.mac.is_some()),
            ("Derive", profile.derive.is_some()),
            ("Random", profile.random),
            ("Encapsulate", profile.kem.is_some()),
            ("Unwrap", profile.unwrap.is_some()),
        ];
        let names: Vec<&str> = operations.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
        let standard = profile.standard.as_ref().map_or(String::new(), |it| format!(" ({})", it.standard.name()));
        let _ = writeln!(said, "{}{standard}: {}", profile.name, names.join(", "));
    }
    for warning in profiles.warnings() {
        let _ = writeln!(said, "warning: {warning}");
    }
    for problem in approval::problems(&profiles) {
        let _ = writeln!(said, "off in a FIPS build: {problem}");
    }
    let _ = write!(said, "OK: {} profiles in {}", profiles.names().count(), path.display());
    Ok(said)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_check_names_every_operation_of_a_profile_and_its_standard() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("Profiles.yaml");
        let signing = "SignData: {SignAlg: rsa-pss, HashAlg: sha-256, KeyConstraints: {rsa: {MinKeySize: 3072, MaxKeySize: 4096}}}";
        let issuing = "SignCertificate: {SignAlg: ecdsa, HashAlg: sha-384, SKIHashAlg: sha-256, \
                       Validity: {ValidNotBeforeOffset: 0, ValidNotAfterOffset: 1h}, \
                       KeyConstraints: {Issuer: {ecdsa: {MinKeySize: 384, MaxKeySize: 384}}}}";
        let text = format!(
            "Settings: {{CryptoLibrary: native}}\nProfiles:\n- Name: A\n  API:\n    HashData: {{HashAlg: sha-256}}\n    \
             {issuing}\n    EncryptData: {{EncryptAlg: aes-gcm, KeySize: 256}}\n    {signing}\n    Mac: {{MacAlg: hmac-sha-256}}\n    \
             Derive: {{DeriveAlg: hkdf-sha-256}}\n    Random: true\n    Encapsulate: {{KemAlg: ml-kem-768}}\n    \
             Unwrap: {{UnwrapAlg: rsa-oaep-256}}\n- {{Name: B, Standard: cnsa-2.0, API: {{Random: true}}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let said = check(&path, Leniency::Strict).unwrap();
        let want = "A: HashData, SignCertificate, EncryptData, SignData, Mac, Derive, Random, Encapsulate, Unwrap\n\
                    B (cnsa-2.0): Random\n";
        assert!(said.starts_with(want), "{said}");
    }

    #[test]
    fn a_check_lists_the_profiles_and_all_problems() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("Profiles.yaml");
        let settings = "Settings: {CryptoLibrary: native}";
        let one =
            format!("- {{Name: A, {settings}, API: {{Random: true, EncryptData: {{EncryptAlg: aes-gcm-siv}}}}}}\n");
        std::fs::write(&path, one).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let said = check(&path, Leniency::Strict).unwrap();
        assert!(said.starts_with("A: EncryptData, Random\noff in a FIPS build: profile \"A\": "), "{said}");
        assert!(said.ends_with(&format!("OK: 1 profiles in {}", path.display())), "{said}");
        std::fs::write(&path, format!("- {{Name: A, {settings}, API: {{Rnd: true}}}}\n- {{}}\n")).unwrap();
        let said = check(&path, Leniency::Strict).unwrap_err();
        assert!(said.contains("line 1: profile \"A\": API: unknown key") && said.contains(" problems in "), "{said}");
    }
}
