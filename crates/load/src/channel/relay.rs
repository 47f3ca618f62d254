//! A relay of this run's own: `sealway relay serve` as a process, on a loopback port that is free, over plain WebSockets.
//!
//! It may not know more of it than its command line and the line that it says first.

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

/// How long it may take until it says where it listens.
const START_MAX: Duration = Duration::from_secs(20);
/// How long it may take to end by itself.
const END_MAX: Duration = Duration::from_secs(10);
/// How much of what it says last is told when it does not start, in lines.
const WORDS_MAX: usize = 5;

/// Limits that a relay is started with; none for its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelayLimits {
    /// Connections; 0 for as many as the run has, and some more.
    pub(crate) max_conns: u64,
    /// Channels; 0 for as many as the run has.
    pub(crate) max_channels: u64,
    /// How long a channel may stay without a message.
    pub(crate) idle_timeout: Option<Duration>,
    /// How often it looks for what is over.
    pub(crate) cleanup_interval: Option<Duration>,
}

impl RelayLimits {
    /// With what is enough for so many channels where nothing is said.
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

/// A relay that serves until this is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    child: Child,
    url: Uri,
    folder: PathBuf,
}

impl Relay {
    /// Starts one that takes tokens by this keyset, for this audience and issuer. Blocks until it listens.
    ///
    /// # Errors
    /// In words, with what it said last.
    pub(crate) fn start(keyset: &str, aud: &str, iss: &str, limits: &RelayLimits) -> Result<Self, String> {
        let folder = folder().map_err(|err| format!("a folder for the relay cannot be made: {err}"))?;
        let relay = launch(&folder, keyset, &["--aud", aud, "--iss", iss], limits);
        relay.inspect_err(|_| _ = fs::remove_dir_all(&folder))
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself, and what it said last.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("the relay has ended ({status}): {}", last_words(&self.folder)))
    }
}

impl Drop for Relay {
    /// It is told to end, and ended where it does not.
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
    let fault = |err: io::Error| format!("the relay cannot be started: {err}");
    let keys = folder.join("issuer-keys.json");
    fs::write(&keys, keyset).map_err(fault)?;
    let words = File::create(folder.join("words")).map_err(fault)?;
    let mut command = Command::new(std::env::current_exe().map_err(fault)?);
    command.args(["relay", "serve", "--listen", "127.0.0.1:0", "--issuer-keys-file"]).arg(&keys).args(who);
    command
        .args(["--log-level", "warn"])
        .args(limits.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(words);
    // A signal from the terminal is the generator's: it ends the relay when it has measured.
    command.process_group(0);
    let mut child = command.spawn().map_err(fault)?;
    match listening(&mut child) {
        Some(url) => Ok(Relay { child, url, folder: folder.to_owned() }),
        None => {
            end(&mut child);
            Err(format!("the relay did not start: {}", last_words(folder)))
        }
    }
}

/// Where it listens, by the line that it says first.
fn listening(child: &mut Child) -> Option<Uri> {
    let out = child.stdout.take()?;
    let (send, first) = mpsc::channel();
    // Read on to the end, so that whatever it says later does not hold it up.
    std::thread::spawn(move || {
        let mut lines = BufReader::new(out).lines();
        let _ = send.send(lines.next().and_then(Result::ok));
        lines.for_each(drop);
    });
    let line = first.recv_timeout(START_MAX).ok().flatten()?;
    let told: serde_json::Value = serde_json::from_str(&line).ok()?;
    let (listen, path) = (told.get("listen")?.as_str()?, told.get("ws_path")?.as_str()?);
    format!("ws://{listen}{path}").parse().ok()
}

fn last_words(folder: &Path) -> String {
    let said = fs::read(folder.join("words")).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() { "it said nothing".into() } else { lines[lines.len().saturating_sub(WORDS_MAX)..].join("; ") }
}

/// A new folder that nobody else may look into.
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
