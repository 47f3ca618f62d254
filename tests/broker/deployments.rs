//! Conditions under which a broker starts: profiles that only their owner may write, a module that is required.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::BINARY;

fn profiles() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/broker/Profiles.yaml");
    std::fs::read_to_string(file).unwrap()
}

/// A broker that serves the files of a folder, killed at the end of the test.
struct Deployment {
    child: std::process::Child,
    socket: PathBuf,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Deployment {
    let socket = folder.join("run/broker.sock");
    let mut command = Command::new(BINARY);
    command.args(["broker", "serve", "--socket"]).arg(&socket).args(arguments).current_dir(folder).env_clear();
    command.env("CRYPTO_BROKER_PROFILES_DIR", folder).envs(environment.iter().copied());
    let log = std::fs::File::create(folder.join("log")).unwrap();
    command.stdin(std::process::Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    Deployment { child: command.spawn().unwrap(), socket }
}

impl Deployment {
    /// Waits until the broker has exited or accepts connections on its socket. Returns the exit code, if it has exited.
    fn settled(&mut self) -> Option<i32> {
        let begin = std::time::Instant::now();
        while begin.elapsed() < std::time::Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status.code().unwrap_or(-1));
            }
            if std::os::unix::net::UnixStream::connect(&self.socket).is_ok() {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("it neither serves nor ends");
    }
}

fn with_mode(folder: &Path, profiles: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join("Profiles.yaml");
    std::fs::write(&file, profiles).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn the_sample_of_profiles_is_served_on_a_socket_that_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    with_mode(folder.path(), &profiles(), 0o644);
    let mut served = serve(folder.path(), &[], &[]);
    let ended = served.settled();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(ended, None, "{log}");
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&served.socket), 0o600);
    assert_eq!(mode(served.socket.parent().unwrap()), 0o700);
}

#[test]
fn profiles_that_others_may_write_are_refused_before_there_is_a_socket() {
    for mode in [0o664, 0o646, 0o666] {
        let folder = tempfile::tempdir().unwrap();
        with_mode(folder.path(), &profiles(), mode);
        let mut served = serve(folder.path(), &[], &[]);
        assert_eq!(served.settled(), Some(2), "{mode:o}");
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(log.contains("writable by its group or by others") && !served.socket.exists(), "{log}");
    }
}

#[test]
fn a_program_without_a_validated_module_does_not_start_where_fips_is_required() {
    let plain = profiles();
    let list = plain.lines().map(|line| format!("  {line}\n")).collect::<String>();
    let by_file = format!("Settings: {{ CryptoLibrary: native, RequireFips: true }}\nProfiles:\n{list}");
    for (profiles, arguments, environment) in [
        (&plain, &[][..], &[("CRYPTO_BROKER_REQUIRE_FIPS", "true")][..]),
        (&plain, &[], &[("CRYPTO_BROKER_REQUIRE_FIPS", "strict")]),
        (&plain, &["--require-fips"], &[]),
        (&by_file, &[], &[]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        with_mode(folder.path(), profiles, 0o600);
        let mut served = serve(folder.path(), arguments, environment);
        let ended = served.settled();
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(ended, Some(70), "{arguments:?} {environment:?}: {log}");
        assert!(log.contains("no validated module") && !served.socket.exists(), "{log}");
    }
}
