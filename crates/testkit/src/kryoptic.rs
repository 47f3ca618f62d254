//! A token of kryoptic in a file of its own: a second module of PKCS#11, of version 3.2 of the standard, with ML-DSA.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use crate::daemon::root;
use crate::softhsm::{PIN, SO_PIN, TOKEN, run, write_pin};

/// A token, and the files around it. Its PINs and its label are those of [`crate::softhsm::SoftHsm`].
#[derive(Debug)]
pub struct Kryoptic {
    folder: tempfile::TempDir,
    module: PathBuf,
}

impl Kryoptic {
    /// Creates an initialised token in a new folder.
    ///
    /// # Errors
    /// The module or OpenSC is missing, or the token is not initialised.
    pub fn new() -> anyhow::Result<Kryoptic> {
        let module = std::env::var_os("KRYOPTIC")
            .map_or_else(|| root().join(".venv/kryoptic/libkryoptic_pkcs11.so"), PathBuf::from);
        ensure!(module.exists(), "{} is missing: run scripts/setup-tests.sh", module.display());
        let folder = tempfile::Builder::new().prefix("sealway-kryoptic-").tempdir()?;
        let token = folder.path().join("token.sql");
        let conf = format!("[[slots]]\nslot = 1\ndbtype = \"sqlite\"\ndbargs = \"{}\"\n", token.display());
        std::fs::write(folder.path().join("kryoptic.conf"), conf)?;
        let kryoptic = Kryoptic { folder, module };
        write_pin(&kryoptic.pin_file(), PIN)?;
        run(kryoptic.command().args(["--init-token", "--slot", "1", "--label", TOKEN, "--so-pin", SO_PIN]))?;
        let officer = ["--login", "--login-type", "so", "--so-pin", SO_PIN];
        run(kryoptic.command().args(["--init-pin", "--pin", PIN, "--token-label", TOKEN]).args(officer))?;
        Ok(kryoptic)
    }

    /// Returns the variable that names the module's configuration, and the file.
    pub fn environment(&self) -> (&'static str, PathBuf) {
        ("KRYOPTIC_CONF", self.folder().join("kryoptic.conf"))
    }

    /// Returns the folder of the fixture's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the module.
    pub fn module(&self) -> &Path {
        &self.module
    }

    /// URI of the token with its module.
    pub fn uri(&self) -> String {
        let (module, pin) = (self.module.display(), self.pin_file());
        format!("pkcs11:token={TOKEN}?module-path={module}&pin-source=file:{}", pin.display())
    }

    /// Runs pkcs11-tool of OpenSC on the token, logged in.
    ///
    /// # Errors
    /// It is missing, or fails.
    pub fn tool(&self, arguments: &[&str]) -> anyhow::Result<String> {
        run(self.command().args(["--token-label", TOKEN, "--login", "--pin", PIN]).args(arguments))
    }

    fn pin_file(&self) -> PathBuf {
        self.folder().join("pin")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("pkcs11-tool");
        let (name, conf) = self.environment();
        command.arg("--module").arg(&self.module).env(name, conf);
        command
    }
}
