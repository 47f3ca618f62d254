//! A token of SoftHSM2 in a folder of its own, and a module between it and its user that fails on command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// PIN of the token's user.
pub const PIN: &str = "fixture-pin-4711";
/// PIN of the token's security officer.
pub const SO_PIN: &str = "fixture-so-pin-0815";
/// Label of the fixture's token.
pub const TOKEN: &str = "fixture";

/// Module of SoftHSM2, where its packages put it.
const MODULES: [&str; 4] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
    "/opt/homebrew/lib/softhsm/libsofthsm2.so",
];

/// Source of the module that fails on command.
const SHIM: &str = include_str!("softhsm_shim.c");

/// A token, and the files around it.
#[derive(Debug)]
pub struct SoftHsm {
    folder: tempfile::TempDir,
    module: PathBuf,
}

impl SoftHsm {
    /// Creates an initialised token in a folder.
    ///
    /// # Errors
    /// SoftHSM2 is not installed, or does not initialise the token.
    pub fn new() -> anyhow::Result<SoftHsm> {
        let module = module()?;
        let folder = tempfile::Builder::new().prefix("sealway-softhsm-").tempdir()?;
        std::fs::create_dir(folder.path().join("tokens"))?;
        let conf = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            folder.path().join("tokens").display()
        );
        std::fs::write(folder.path().join("softhsm2.conf"), conf)?;
        let hsm = SoftHsm { folder, module };
        hsm.set_pin_file(PIN)?;
        hsm.util(&["--init-token", "--free", "--label", TOKEN, "--pin", PIN, "--so-pin", SO_PIN])?;
        Ok(hsm)
    }

    /// Returns the value of SOFTHSM2_CONF.
    pub fn conf(&self) -> PathBuf {
        self.folder.path().join("softhsm2.conf")
    }

    /// Returns the variable that names the module's configuration, and the file.
    pub fn environment(&self) -> (&'static str, PathBuf) {
        ("SOFTHSM2_CONF", self.conf())
    }

    /// Returns the folder of the fixture's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of SoftHSM2's module.
    pub fn module(&self) -> &Path {
        &self.module
    }

    /// Returns the file of the PIN.
    pub fn pin_file(&self) -> PathBuf {
        self.folder.path().join("pin")
    }

    /// Writes the file of the PIN.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_pin_file(&self, pin: &str) -> anyhow::Result<()> {
        write_pin(&self.pin_file(), pin)
    }

    /// URI of the token with a module.
    pub fn uri(&self, module: &Path) -> String {
        let (module, pin) = (module.display(), self.pin_file());
        format!("pkcs11:token={TOKEN}?module-path={module}&pin-source=file:{}", pin.display())
    }

    /// Removes the token, as if it were pulled out.
    ///
    /// # Errors
    /// It is removed already.
    pub fn remove(&self) -> anyhow::Result<()> {
        std::fs::rename(self.folder().join("tokens"), self.folder().join("away"))?;
        Ok(std::fs::create_dir(self.folder().join("tokens"))?)
    }

    /// Puts a removed token back.
    ///
    /// # Errors
    /// It is there.
    pub fn put_back(&self) -> anyhow::Result<()> {
        std::fs::remove_dir(self.folder().join("tokens"))?;
        Ok(std::fs::rename(self.folder().join("away"), self.folder().join("tokens"))?)
    }

    /// Runs softhsm2-util on the token's files.
    ///
    /// # Errors
    /// It is missing, or fails.
    pub fn util(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("softhsm2-util");
        run(command.args(arguments).env("SOFTHSM2_CONF", self.conf()))
    }

    /// Runs pkcs11-tool of OpenSC on the token, logged in.
    ///
    /// # Errors
    /// It is missing, or fails.
    pub fn tool(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("pkcs11-tool");
        command.arg("--module").arg(&self.module).args(["--token-label", TOKEN, "--login", "--pin", PIN]);
        run(command.args(arguments).env("SOFTHSM2_CONF", self.conf()))
    }

    /// Builds the module that fails on command ([`SoftHsm::fail`]).
    ///
    /// # Errors
    /// There is no C compiler.
    pub fn shim(&self) -> anyhow::Result<PathBuf> {
        let (source, library) = (self.folder().join("shim.c"), self.folder().join("shim.so"));
        std::fs::write(&source, SHIM)?;
        let mut command = Command::new("cc");
        let define = |name: &str, path: &Path| format!("-D{name}=\"{}\"", path.display());
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        command.arg(define("MODULE", &self.module)).arg(define("CONTROL", &self.folder().join("control")));
        run(command.arg(define("LOGINS", &self.folder().join("logins"))).arg("-ldl"))?;
        Ok(library)
    }

    /// Makes the shim fail: `slow` (10 minutes), `late` (0.4 s), `crash`, `device`, `sessions`, `locked`, `login`, or nothing for an empty word.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn fail(&self, word: &str) -> anyhow::Result<()> {
        let (new, control) = (self.folder().join("control.new"), self.folder().join("control"));
        std::fs::write(&new, word)?;
        Ok(std::fs::rename(new, control)?)
    }

    /// Number of logins through the shim.
    pub fn logins(&self) -> usize {
        std::fs::read(self.folder().join("logins")).map_or(0, |bytes| bytes.len())
    }
}

/// Returns the path of SoftHSM2's module.
///
/// # Errors
/// SoftHSM2 is not installed.
pub fn module() -> anyhow::Result<PathBuf> {
    let found = MODULES.iter().map(PathBuf::from).find(|path| path.exists());
    found.context("softhsm2 is missing: scripts/setup-tests.sh installs it")
}

/// Writes the file of a PIN, which only its owner may read.
pub(crate) fn write_pin(file: &Path, pin: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(file, format!("{pin}\n"))?;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?;
    Ok(())
}

pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().display().to_string();
    let output =
        command.output().with_context(|| format!("{program} is missing: scripts/setup-tests.sh installs it"))?;
    if !output.status.success() {
        bail!("{program}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
