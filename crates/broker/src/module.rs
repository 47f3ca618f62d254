//! Identity of the cryptographic library, and the check that it is the one that this build promises, before anything is
//! served.
//!
//! The module does not know profiles or sockets. It turns no mode on or off: a build has the validated module or not.
// SPEC broker.md#fips

use std::fmt;

use crate::profile::RequireFips;

/// Exit code of a process without the module that it was built for (`EX_SOFTWARE` of sysexits).
pub const EXIT_CODE: u8 = 70;

/// Version that the library of the FIPS build must report. It changes together with the version in fips/Cargo.toml.
#[cfg(feature = "fips")]
const EXPECTED_VERSION: &str = "AWS-LC FIPS 3.6.0";
/// Certificate of the static build of the module FIPS 3.x, from the release notes of aws-lc-rs 1.17.1.
#[cfg(feature = "fips")]
const CERTIFICATE: Option<&str> = Some("#5314");
#[cfg(not(feature = "fips"))]
const CERTIFICATE: Option<&str> = None;

/// Description of a library for health, spans and `--version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name of the library: `AWS-LC`.
    pub name: &'static str,
    /// Version that the library reports: `AWS-LC FIPS 3.6.0`, `AWS-LC 1.72.0`.
    pub version: String,
    /// Certificate of the module's validation. A validated module does not make this program validated.
    pub certificate: Option<&'static str>,
    /// True for the validated module in its approved mode.
    pub is_fips: bool,
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module: {}\ncertificate: {}", self.version, self.certificate.unwrap_or("none"))
    }
}

/// Returns the library of this process.
pub fn module() -> Module {
    let is_fips = sealway_awslc::is_fips();
    let certificate = CERTIFICATE.filter(|_| is_fips);
    Module { name: "AWS-LC", version: sealway_awslc::version(), certificate, is_fips }
}

/// Checks the module before anything else: in a FIPS build its approved mode, the version of its certificate, and the
/// published answers; in other builds the answers only.
///
/// # Errors
/// A sentence for standard error; the process must end with [`EXIT_CODE`].
pub fn check() -> Result<(), String> {
    #[cfg(feature = "fips")]
    {
        let mode = aws_lc_rs::try_fips_mode().map_err(str::to_owned);
        is_expected(mode, sealway_awslc::is_fips(), &sealway_awslc::version(), EXPECTED_VERSION)?;
    }
    crate::known_answers::check()
}

/// Checks the facts that the module reports.
#[cfg(any(feature = "fips", test))]
fn is_expected(mode: Result<(), String>, is_fips: bool, version: &str, expected: &str) -> Result<(), String> {
    mode.map_err(|err| format!("the cryptographic module is not in its approved mode: {err}"))?;
    if !is_fips {
        return Err("the cryptographic module is not in its approved mode".into());
    }
    if version != expected {
        return Err(format!("the cryptographic module is \"{version}\", and this build is for \"{expected}\""));
    }
    Ok(())
}

/// Rejects a process without a validated module if the settings require one.
///
/// # Errors
/// A sentence for standard error; the process must end with [`EXIT_CODE`].
pub fn require(require: RequireFips) -> Result<(), String> {
    allows(require, &module())
}

fn allows(require: RequireFips, module: &Module) -> Result<(), String> {
    if require == RequireFips::No || module.is_fips {
        return Ok(());
    }
    Err(format!(
        "RequireFips is set, and the cryptographic library of this program is {}, which is no validated module. The program \
         that has one is built by `cargo build --release --manifest-path fips/Cargo.toml`",
        module.version
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_not_the_promised_one_is_refused() {
        let fine = is_expected(Ok(()), true, "AWS-LC FIPS 3.6.0", "AWS-LC FIPS 3.6.0");
        assert_eq!(fine, Ok(()));
        for (mode, is_fips, version) in [
            (Err("FIPS mode not enabled!".to_owned()), true, "AWS-LC FIPS 3.6.0"),
            (Ok(()), false, "AWS-LC FIPS 3.6.0"),
            (Ok(()), true, "AWS-LC FIPS 3.7.0"),
            (Ok(()), true, "AWS-LC 3.6.0"),
        ] {
            assert!(is_expected(mode, is_fips, version, "AWS-LC FIPS 3.6.0").is_err(), "{version}");
        }
    }

    #[test]
    fn a_library_without_fips_is_rejected_by_name_if_fips_is_required() {
        let plain = Module { name: "AWS-LC", version: "AWS-LC 1.0.0".into(), certificate: None, is_fips: false };
        let module = Module { is_fips: true, ..plain.clone() };
        for require in [RequireFips::Yes, RequireFips::Strict] {
            assert!(allows(require, &plain).unwrap_err().contains("AWS-LC 1.0.0"));
            assert_eq!(allows(require, &module), Ok(()));
        }
        assert_eq!(allows(RequireFips::No, &plain), Ok(()));
    }

    #[test]
    fn a_library_without_validation_names_no_certificate() {
        let module = module();
        assert_eq!(module.certificate.is_some(), module.is_fips);
        assert_eq!(module.is_fips, cfg!(feature = "fips"));
        assert!(module.to_string().starts_with("module: AWS-LC "), "{module}");
    }
}
