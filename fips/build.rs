//! Rejects a build whose module could differ from the one that fips/Cargo.lock names.
#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::process::ExitCode;

/// .cargo/config.toml sets this to 0 for every build. Otherwise the build would silently use a library installed on the machine.
const USE_SYSTEM: &str = "AWS_LC_FIPS_SYS_USE_SYSTEM";
const SYSTEM_DIR: &str = "AWS_LC_FIPS_SYS_SYSTEM_DIR";

fn main() -> ExitCode {
    let target = std::env::var("TARGET").unwrap_or_default();
    let suffixes = [target.clone(), target.replace('-', "_")];
    // Variables with the target in their name take precedence over the plain one.
    let others: Vec<String> = suffixes
        .iter()
        .flat_map(|suffix| [USE_SYSTEM, SYSTEM_DIR].map(|name| format!("{name}_{suffix}")))
        .chain([SYSTEM_DIR.to_owned()])
        .collect();
    for name in others.iter().map(String::as_str).chain([USE_SYSTEM]) {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if std::env::var(USE_SYSTEM).as_deref() != Ok("0") {
        println!(
            "cargo::error={USE_SYSTEM} must be 0: build from the repository's folder, whose .cargo/config.toml says so"
        );
        return ExitCode::FAILURE;
    }
    if let Some(name) = others.iter().find(|name| std::env::var_os(name).is_some()) {
        println!("cargo::error={name} is set: the module is built from its own source, and no other is taken");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
