//! A relay for the run: `sealway relay serve` as a process, on a free loopback port, over plain WebSockets.
//!
//! This module must know no more of the relay than its command line and the first line that it prints.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use http::Uri;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Serialize, Serializer};

/// Longest time until the relay prints its address.
const START_MAX: Duration = Duration::from_secs(20);
/// Longest time until the relay ends after SIGTERM.
const END_MAX: Duration = Duration::from_secs(10);
/// Number of the relay's last lines that an error quotes.
const WORDS_MAX: usize = 5;

/// Limits of a relay that is started for the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RelayLimits {
    /// Upper bound of connections; 0 for as many as the run needs, and some more.
    pub(crate) max_conns: u64,
    /// Upper bound of channels; 0 for as many as the run needs, and some more.
    pub(crate) max_channels: u64,
    /// Longest time of a channel without a message; `None` for the relay's default.
    #[serde(rename = "idle_timeout_ms", serialize_with = "milliseconds")]
    pub(crate) idle_timeout: Option<Duration>,
    /// Time between two clean-ups of ended channels; `None` for the relay's default.
    #[serde(rename = "cleanup_interval_ms", serialize_with = "milliseconds")]
    pub(crate) cleanup_interval: Option<Duration>,
}

fn milliseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_millis() as u64).serialize(serializer)
}

impl RelayLimits {
    /// Returns these limits, with each 0 replaced by enough for so many channels.
    pub(crate) fn for_channels(&self, channels: u64) -> Self {
        let or = |said: u64, enough: u64| if said == 0 { enough } else { said };
        RelayLimits {
            max_conns: or(self.max_conns, channels.saturating_mul(2).saturating_add(64)),
            max_channels: or(self.max_channels, channels.saturating_add(32)),
            ..self.clone()
        }
    }

    fn arguments(&self) -> Vec<String> {
        let mut all = vec![
            "--max-conns".to_owned(),
            self.max_conns.to_string(),
            "--max-channels".to_owned(),
            self.max_channels.to_string(),
        ];
        let mut also = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                all.extend([flag.to_owned(), value]);
            }
        };
        let ms = |time: Duration| time.as_millis().to_string();
        also("--idle-timeout-ms", self.idle_timeout.map(ms));
        also("--tick-ms", self.cleanup_interval.map(ms));
        all
    }
}

/// Relay process that serves until this value is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    child: Child,
    url: Uri,
    folder: PathBuf,
}

impl Relay {
    /// Starts a relay that accepts tokens by this keyset, for this audience and issuer. Blocks until the relay listens.
    ///
    /// # Errors
    /// The failure in words, with the relay's last lines.
    pub(crate) fn start(keyset: &str, aud: &str, iss: &str, limits: &RelayLimits) -> Result<Self, String> {
        let folder = folder().map_err(|err| format!("cannot create a folder for the relay: {err}"))?;
        let relay = launch(&folder, keyset, &["--aud", aud, "--iss", iss], limits);
        relay.inspect_err(|_| _ = fs::remove_dir_all(&folder))
    }

    /// Returns the URL that the relay listens on.
    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// Returns the id of the relay's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns a message with the exit status and the last lines, if the relay has ended by itself.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("the relay ended early ({status}): {}", last_words(&self.folder)))
    }
}

impl Drop for Relay {
    /// Sends SIGTERM to the relay, and kills it if it does not end within 10 s.
    fn drop(&mut self) {
        end(&mut self.child);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        && matches!(child.try_wait(), Ok(None))
    {
        let _ = kill_process(pid, Signal::TERM);
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < END_MAX {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn launch(folder: &Path, keyset: &str, who: &[&str], limits: &RelayLimits) -> Result<Relay, String> {
    let failure = |err: io::Error| format!("cannot start the relay: {err}");
    let keys = folder.join("issuer-keys.json");
    fs::write(&keys, keyset).map_err(failure)?;
    let words = File::create(folder.join("words")).map_err(failure)?;
    let mut command = Command::new(std::env::current_exe().map_err(failure)?);
    command.args(["relay", "serve", "--listen", "127.0.0.1:0", "--issuer-keys-file"]).arg(&keys).args(who);
    command
        .args(["--log-level", "warn"])
        .args(limits.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(words);
    // A signal from the terminal must reach the generator alone, which ends the relay after the measurement.
    command.process_group(0);
    let mut child = command.spawn().map_err(failure)?;
    match listening(&mut child) {
        Some(url) => Ok(Relay { child, url, folder: folder.to_owned() }),
        None => {
            end(&mut child);
            Err(format!("the relay did not start: {}", last_words(folder)))
        }
    }
}

/// Returns the relay's URL, from the first line that the relay prints; `None` after 20 s.
fn listening(child: &mut Child) -> Option<Uri> {
    let out = child.stdout.take()?;
    let (send, first) = mpsc::channel();
    // The thread reads to the end, so that later output does not block the relay.
    std::thread::spawn(move || {
        let mut lines = BufReader::new(out).lines();
        let _ = send.send(lines.next().and_then(Result::ok));
        lines.for_each(drop);
    });
    let line = first.recv_timeout(START_MAX).ok().flatten()?;
    let ready: serde_json::Value = serde_json::from_str(&line).ok()?;
    let (listen, path) = (ready.get("listen")?.as_str()?, ready.get("ws_path")?.as_str()?);
    format!("ws://{listen}{path}").parse().ok()
}

fn last_words(folder: &Path) -> String {
    let said = fs::read(folder.join("words")).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        "it printed nothing".into()
    } else {
        lines[lines.len().saturating_sub(WORDS_MAX)..].join("; ")
    }
}

/// Creates a new folder that only its owner may open.
fn folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut tried = 0;
    loop {
        let name = format!("sealway-load-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists && tried < 100 => tried += 1,
            made => return made.map(|()| folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_given_room_for_the_run_unless_a_limit_is_said() {
        let enough = RelayLimits::default().for_channels(1000);
        assert_eq!((enough.max_conns, enough.max_channels), (2064, 1032));
        let said = RelayLimits { max_conns: 10, idle_timeout: Some(Duration::from_secs(90)), ..RelayLimits::default() };
        let arguments = said.for_channels(1000).arguments().join(" ");
        assert_eq!(arguments, "--max-conns 10 --max-channels 1032 --idle-timeout-ms 90000");
    }
}
