//! A real `sealway broker serve` in a process of its own, on a socket of its own, with a key store under a key of its own; a
//! test can kill it and start it again on the same files.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::process::Signal;

use crate::daemon::Daemon;

/// Longest time for a start.
const WAIT: Duration = Duration::from_secs(30);

/// Profiles with one algorithm each, enough for keys of every kind.
pub const PROFILES: &str = "
- {Name: Default, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha3-512}, Random: true}}
- {Name: Sha256, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha-256}}}
- Name: Seal
  Settings: {CryptoLibrary: native}
  API: {EncryptData: {EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: broker-generated, TagLength: 128}}
- Name: Given
  Settings: {CryptoLibrary: native}
  API: {EncryptData: {EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: user-provided, TagLength: 128}}
- {Name: Mac, Settings: {CryptoLibrary: native}, API: {Mac: {MacAlg: hmac-sha-256}}}
- {Name: Derive, Settings: {CryptoLibrary: native}, API: {Derive: {DeriveAlg: hkdf-sha-256}}}
- {Name: Kem, Settings: {CryptoLibrary: native}, API: {Encapsulate: {KemAlg: ml-kem-768}}}
- {Name: Unwrap, Settings: {CryptoLibrary: native}, API: {Unwrap: {UnwrapAlg: rsa-oaep-256}}}
- Name: P256
  Settings: {CryptoLibrary: native}
  API:
    SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256}
    SignCertificate:
      SignAlg: ecdsa
      HashAlg: sha-256
      SKIHashAlg: sha-256
      Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 8760h}
      KeyConstraints:
        Subject: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}, rsa: {MinKeySize: 2048, MaxKeySize: 4096}}
        Issuer: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}, rsa: {MinKeySize: 2048, MaxKeySize: 4096}}
      KeyUsage: [digitalSignature]
      ExtendedKeyUsage: [clientAuth]
- Name: P384
  Settings: {CryptoLibrary: native}
  API:
    SignData: {SignAlg: ecdsa, HashAlg: sha-384, Curve: P-384}
    SignCertificate:
      SignAlg: ecdsa
      HashAlg: sha-384
      SKIHashAlg: sha-256
      Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 8760h}
      KeyConstraints:
        Subject: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}, rsa: {MinKeySize: 2048, MaxKeySize: 4096}}
        Issuer: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}, rsa: {MinKeySize: 2048, MaxKeySize: 4096}}
      KeyUsage: [digitalSignature]
      ExtendedKeyUsage: [clientAuth]
- Name: RSA
  Settings: {CryptoLibrary: native}
  API:
    SignData: {SignAlg: rsa, HashAlg: sha-256}
    SignCertificate:
      SignAlg: rsa
      HashAlg: sha-256
      SKIHashAlg: sha-256
      Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 8760h}
      KeyConstraints:
        Subject: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}, rsa: {MinKeySize: 2048, MaxKeySize: 4096}}
        Issuer: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}, rsa: {MinKeySize: 2048, MaxKeySize: 4096}}
      KeyUsage: [digitalSignature]
      ExtendedKeyUsage: [clientAuth]
";

/// The process, and the files that it uses.
#[derive(Debug)]
pub struct Broker {
    binary: PathBuf,
    folder: PathBuf,
    /// Further arguments of `broker serve`.
    arguments: Vec<OsString>,
    daemon: Daemon,
}

impl Broker {
    /// Starts it on files in `folder`, which are created if they do not exist, and waits until it listens.
    ///
    /// # Errors
    /// It does not listen; the text has the end of its output.
    pub fn start(binary: impl AsRef<Path>, folder: &Path) -> anyhow::Result<Self> {
        Broker::start_with(binary, folder, &[])
    }

    /// Starts it, as [`Broker::start`], with further arguments of `broker serve`.
    ///
    /// # Errors
    /// As [`Broker::start`].
    pub fn start_with(binary: impl AsRef<Path>, folder: &Path, arguments: &[&OsStr]) -> anyhow::Result<Self> {
        // The socket's folder must be accessible to its owner only, or the broker does not start.
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
        write_new(&folder.join("Profiles.yaml"), PROFILES)?;
        write_new(&folder.join("store.kek"), &format!("test {}\n", "5a".repeat(32)))?;
        let binary = binary.as_ref().to_owned();
        let arguments: Vec<OsString> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let daemon = launch(&binary, folder, &arguments)?;
        Ok(Broker { binary, folder: folder.to_owned(), arguments, daemon })
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("broker.sock")
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// Kills it at once, as a crash would: its socket's file stays.
    ///
    /// # Errors
    /// If it is gone already.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.daemon.signal(Signal::KILL)?;
        self.daemon.wait()?;
        Ok(())
    }

    /// Stops it as an operator would, and waits until it has ended.
    ///
    /// # Errors
    /// If it is gone already, or does not end well.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.daemon.signal(Signal::TERM)?;
        let status = self.daemon.wait()?;
        if !status.success() {
            bail!("the broker ended with {status}:\n{}", self.daemon.tail());
        }
        Ok(())
    }

    /// Sends a signal to its process.
    ///
    /// # Errors
    /// If it is gone already.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.daemon.signal(signal)
    }

    /// Starts it again on the same files, and waits until it listens.
    ///
    /// # Errors
    /// If it does not, with the end of its output.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.daemon = launch(&self.binary, &self.folder, &self.arguments)?;
        Ok(())
    }

    /// Returns the end of its output.
    pub fn tail(&self) -> String {
        self.daemon.tail()
    }
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => Ok(file.write_all(text.as_bytes())?),
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(err) => Err(err.into()),
    }
}

fn launch(binary: &Path, folder: &Path, arguments: &[OsString]) -> anyhow::Result<Daemon> {
    let socket = folder.join("broker.sock");
    let mut command = Command::new(binary);
    command.args(["broker", "serve", "--socket"]).arg(&socket);
    command.arg("--profiles").arg(folder.join("Profiles.yaml"));
    command.arg("--keys").arg(folder.join("keys")).arg("--kek-file").arg(folder.join("store.kek"));
    command.args(arguments);
    command.env("OTEL_TRACES_EXPORTER", "none").env("CRYPTO_BROKER_LOG_LEVEL", "warn");
    let mut daemon = Daemon::start(command, &folder.join("broker.log"))?;
    let begin = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        if let Some(status) = daemon.ended()? {
            bail!("the broker ended with {status}:\n{}", daemon.tail());
        }
        if begin.elapsed() > WAIT {
            bail!("the broker does not listen:\n{}", daemon.tail());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(daemon)
}
