//! A broker with keys of every kind, and the module's configuration for it.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sealway_testkit::broker::Broker;
use sealway_testkit::daemon::program;

use crate::BINARY;

/// Profiles that sign digests too, as most programs ask for.
const PROFILES: &str = "
- {Name: EC, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256, Prehashed: true}, HashData: {HashAlg: sha-256}, Random: true}}
- {Name: EC384, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ecdsa, HashAlg: sha-384, Curve: P-384, SignatureFormat: RAW}}}
- {Name: RSA, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: rsa, HashAlg: sha-256, Prehashed: true}, HashData: {HashAlg: sha-256}, Random: true}}
- {Name: RSA512, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: rsa, HashAlg: sha-512}, HashData: {HashAlg: sha-512}, Random: true}}
- {Name: PSS, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: rsa-pss, HashAlg: sha-256, Prehashed: true}}}
- {Name: Ed, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ed25519}}}
- {Name: Unwrap, Settings: {CryptoLibrary: native}, API: {Unwrap: {UnwrapAlg: rsa-oaep-256}}}
";

/// Slots of the configuration, in this order.
pub(crate) const SLOTS: [&str; 7] = ["EC", "EC384", "RSA", "RSA512", "PSS", "Ed", "Unwrap"];

/// The broker, its files, and the configuration of the module.
pub(crate) struct Fixture {
    pub(crate) broker: Broker,
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Starts a broker with keys, each by its id and algorithm. The caller may use each, except that `denied` cannot sign.
    pub(crate) fn new(keys: &[(&str, &str)]) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let uid = rustix::process::getuid().as_raw();
        let rules = format!(
            "- {{Uid: {uid}, Profiles: ['*'], Operations: [GenerateKey, RotateKey, DisableKey, ListKeys, PublicKey, Information, HashData, Random, VerifyData, VerifyDigest], Keys: ['*']}}
- {{Uid: {uid}, Profiles: ['*'], Operations: [SignData, SignDigest, Unwrap], Keys: [ec, ec384, rsa, ed, unwrap]}}
"
        );
        for (name, text) in [("Profiles.yaml", PROFILES), ("callers.yaml", &rules)] {
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let (callers, audit) = (path("callers.yaml"), path("audit.log"));
        let words = ["--callers", "--audit", "--audit-interval-ms", "20"].map(OsStr::new);
        let arguments = [words[0], callers.as_os_str(), words[1], audit.as_os_str(), words[2], words[3]];
        let broker = Broker::start_with(BINARY, folder.path(), &arguments).unwrap();
        let fixture = Fixture { broker, folder };
        for (id, algorithm) in keys {
            fixture.keys(&["generate", id, "--algorithm", algorithm]);
        }
        fixture.configure("");
        fixture
    }

    /// Writes the module's configuration. `of_first` are lines for the first slot, `EC`.
    pub(crate) fn configure(&self, of_first: &str) {
        let mut text = format!("socket = {:?}\nverbose = true\n", self.broker.socket());
        for profile in SLOTS {
            let of_slot = match profile {
                "EC" => of_first,
                "Unwrap" => "content_key_bytes = 32",
                _ => "",
            };
            text.push_str(&format!("\n[[slots]]\nprofile = \"{profile}\"\n{of_slot}\n"));
        }
        std::fs::write(self.path("pkcs11.toml"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `sealway broker keys` with these arguments, and returns its output.
    pub(crate) fn keys(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new(BINARY);
        command.args(["broker", "keys", "--socket"]).arg(self.broker.socket()).args(arguments);
        done(&mut command)
    }

    /// Creates a command of a program, with the module's configuration in its environment.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program(name).unwrap());
        command.current_dir(self.folder.path()).env("SEALWAY_PKCS11_CONF", self.path("pkcs11.toml"));
        command.env("HOME", self.folder.path());
        preload(&mut command);
        command
    }

    /// Creates a command of `pkcs11-tool` with the module, for the token of a profile.
    pub(crate) fn tool(&self, token: &str) -> Command {
        let mut command = self.command("pkcs11-tool");
        command.arg("--module").arg(module()).args(["--token-label", token]);
        command
    }

    /// Returns the audit lines of an operation with a key.
    pub(crate) fn audit(&self, operation: &str, key: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("audit.log")).unwrap();
        let (operation, key) = (format!("\"operation\":\"{operation}\""), format!("\"key\":\"{key}\""));
        log.lines().filter(|line| line.contains(&operation) && line.contains(&key)).map(str::to_owned).collect()
    }
}

/// Lets a program that loads the module load the library of `SEALWAY_PKCS11_PRELOAD` first: the runtime of the sanitizer that an
/// instrumented module needs.
pub(crate) fn preload(command: &mut Command) {
    if let Some(library) = std::env::var_os("SEALWAY_PKCS11_PRELOAD") {
        command.env("LD_PRELOAD", library);
    }
}

/// Returns the path of the module. Cargo builds it beside the tests, as a dependency of theirs; `SEALWAY_PKCS11_MODULE` names another
/// one.
pub(crate) fn module() -> PathBuf {
    if let Some(module) = std::env::var_os("SEALWAY_PKCS11_MODULE") {
        return module.into();
    }
    let tests = std::env::current_exe().unwrap();
    let module = tests.parent().unwrap().join("libsealway_pkcs11_module.so");
    assert!(module.is_file(), "{} is missing: cargo builds it with the tests of sealway-cli", module.display());
    module
}

/// Runs a command to its end, and returns all of its output.
pub(crate) fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap_or_else(|err| panic!("{command:?}: {err}"));
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&text));
    (output, text)
}

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn done(command: &mut Command) -> Vec<u8> {
    let (output, text) = run(command);
    assert!(output.status.success(), "{text}");
    output.stdout
}

/// Runs a command that must fail, and returns all of its output.
pub(crate) fn failed(command: &mut Command) -> String {
    let (output, text) = run(command);
    assert!(!output.status.success(), "{text}");
    text
}

/// Runs `openssl` in a folder; it must succeed.
pub(crate) fn openssl(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    done(Command::new(program("openssl").unwrap()).current_dir(folder).args(arguments))
}
