//! The cryptographic library below: which it is, and that it is the one that this build promises, looked at before anything
//! is served.
//!
//! It may not know profiles or sockets. Nothing here turns a mode on or off: a build has the module or it has not.
// SPEC broker.md#fips

use std::fmt;

use crate::profile::RequireFips;

/// The exit code of a process whose module is not the one that it was built for (`EX_SOFTWARE` of sysexits).
pub const EXIT_CODE: u8 = 70;

/// What the library linked into the FIPS build must say of itself. It moves together with the version in fips/Cargo.toml.
#[cfg(feature = "fips")]
const EXPECTED_VERSION: &str = "AWS-LC FIPS 3.6.0";
/// Of the static build of the module FIPS 3.x, as the release note of aws-lc-rs 1.17.1 names it.
#[cfg(feature = "fips")]
const CERTIFICATE: Option<&str> = Some("#5314");
#[cfg(not(feature = "fips"))]
const CERTIFICATE: Option<&str> = None;

/// A library, as health, spans and `--version` tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// `AWS-LC`
    pub name: &'static str,
    /// As the library itself says it: `AWS-LC FIPS 3.6.0`, `AWS-LC 1.72.0`.
    pub version: String,
    /// Of the module's validation; that the module is validated says nothing of this program.
    pub certificate: Option<&'static str>,
    /// Whether it is the module that is validated, in its approved mode.
    pub is_fips: bool,
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module: {}\ncertificate: {}", self.version, self.certificate.unwrap_or("none"))
    }
}

/// The library of this process.
pub fn module() -> Module {
    let is_fips = sealway_awslc::is_fips();
    let certificate = CERTIFICATE.filter(|_| is_fips);
    Module { name: "AWS-LC", version: sealway_awslc::version(), certificate, is_fips }
}

/// The first thing that the FIPS build does: its module is in its approved mode, is the version whose certificate is told,
/// and gives the published answers. Elsewhere only the answers are looked at.
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

/// Judges what the module says of itself.
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

/// Refuses a process whose library is no validated module where the settings ask for one.
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
    fn where_fips_is_required_a_plain_library_is_refused_by_name() {
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
