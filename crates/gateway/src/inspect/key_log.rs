//! The key log that a client writes in development: `SEALWAY3 <session id> <secret, hexadecimal>`, a session a line.
//! New lines are read as the file grows.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use parking_lot::Mutex;
use sealway_proto::session::SessionKey;
use sealway_proto::wire::SessionId;
use zeroize::Zeroizing;

/// Maximum number of sessions remembered; then the oldest is forgotten.
const SESSIONS_MAX: usize = 10_000;
/// Bytes read at once; no line is longer.
const CHUNK_LEN: usize = 64 * 1024;
/// Maximum number of bytes read in one pass: a longer file is continued at the next one.
const LOOK_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Secrets of sessions that were read so far.
pub(super) struct KeyLog {
    file: PathBuf,
    seen: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    secrets: HashMap<SessionId, SessionKey>,
    /// Session ids in the order of the file.
    order: VecDeque<SessionId>,
    /// Device and inode number of the file that was read.
    file: (u64, u64),
    /// Position in the file, in bytes.
    at: u64,
}

impl KeyLog {
    /// Reads the file, which need not exist yet.
    ///
    /// # Errors
    /// A sentence, if the file cannot be read or other users can read it.
    pub(super) fn open(file: PathBuf) -> Result<Self, String> {
        let log = KeyLog { file, seen: Mutex::default() };
        log.read_on(&mut log.seen.lock())?;
        Ok(log)
    }

    /// Returns the secret of a session, reading on in the file if need be. It blocks while the file is read.
    ///
    /// # Errors
    /// As [`KeyLog::open`].
    pub(super) fn find(&self, id: &SessionId) -> Result<Option<SessionKey>, String> {
        let mut seen = self.seen.lock();
        if !seen.secrets.contains_key(id) {
            self.read_on(&mut seen)?;
        }
        Ok(seen.secrets.get(id).cloned())
    }

    fn read_on(&self, seen: &mut LogState) -> Result<(), String> {
        let failed = |err: std::io::Error| format!("cannot read the key log {}: {err}", self.file.display());
        // Opening a pipe would block until a writer opens it.
        match fs::metadata(&self.file) {
            Ok(metadata) if !metadata.is_file() => return Err(format!("{} is no file", self.file.display())),
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(()),
            Err(err) => return Err(failed(err)),
            Ok(_) => {}
        }
        let mut file = File::open(&self.file).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            let file = self.file.display();
            return Err(format!("others than its owner can use the key log {file}: chmod 600 {file}"));
        }
        let which = (metadata.dev(), metadata.ino());
        let is_another = std::mem::replace(&mut seen.file, which) != which;
        if is_another || metadata.len() < seen.at {
            // The file was replaced or truncated.
            seen.at = 0;
        }
        let mut read = 0;
        while read < LOOK_LEN_MAX {
            file.seek(SeekFrom::Start(seen.at)).map_err(failed)?;
            let mut chunk = Zeroizing::new(Vec::with_capacity(CHUNK_LEN));
            file.by_ref().take(CHUNK_LEN as u64).read_to_end(&mut chunk).map_err(failed)?;
            let used = match chunk.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => end + 1,
                // No valid line is so long.
                None if chunk.len() == CHUNK_LEN => CHUNK_LEN,
                None => return Ok(()),
            };
            for line in chunk.get(..used).unwrap_or_default().split(|byte| *byte == b'\n') {
                if let Some((id, secret)) = parse(line) {
                    seen.keep(id, secret);
                }
            }
            seen.at += used as u64;
            read += used as u64;
        }
        Ok(())
    }
}

impl LogState {
    fn keep(&mut self, id: SessionId, secret: SessionKey) {
        if self.secrets.insert(id, secret).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > SESSIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.secrets.remove(&oldest);
        }
    }
}

/// Parses a line; `None` for lines of another form.
fn parse(line: &[u8]) -> Option<(SessionId, SessionKey)> {
    let mut words = str::from_utf8(line).ok()?.trim_end_matches('\r').split(' ');
    let (label, id, digits) = (words.next()?, words.next()?, words.next()?);
    if label != "SEALWAY3" || digits.len() != 64 || words.next().is_some() {
        return None;
    }
    let mut secret = Zeroizing::new([0_u8; 32]);
    for (byte, pair) in secret.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some((SessionId::parse(id).ok()?, SessionKey::from_bytes(*secret)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    fn id(number: u32) -> SessionId {
        let mut random = [0; 16];
        random[..4].copy_from_slice(&number.to_be_bytes());
        SessionId::from_random(&random, false)
    }

    fn line(number: u32) -> String {
        format!("SEALWAY3 {} {:064x}\n", id(number), number)
    }

    fn append(path: &std::path::Path, text: &str) {
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn the_key_log_is_followed_as_it_grows_and_reread_after_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let log = KeyLog::open(path.clone()).unwrap();
        assert!(log.find(&id(1)).unwrap().is_none(), "it need not be there");
        let (begin, end) = (line(1), line(2));
        let (half, rest) = end.split_at(40);
        append(&path, &format!("# a note\n{begin}{half}"));
        assert_eq!(log.find(&id(1)).unwrap().unwrap().expose()[31], 1);
        assert!(log.find(&id(2)).unwrap().is_none(), "half a line is none");
        append(&path, rest);
        assert_eq!(log.find(&id(2)).unwrap().unwrap().expose()[31], 2);
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        append(&path, &line(3));
        assert!(log.find(&id(3)).unwrap().is_some() && log.find(&id(1)).unwrap().is_some());
        let longer = folder.path().join("longer");
        append(&longer, &(4..9).map(line).collect::<String>());
        fs::rename(&longer, &path).unwrap();
        assert!(log.find(&id(4)).unwrap().is_some(), "it is another file, though a longer one");
    }

    #[test]
    fn long_and_malformed_lines_are_skipped_and_the_oldest_session_is_evicted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let sessions_max = u32::try_from(SESSIONS_MAX).unwrap();
        let sessions: String = (0..=sessions_max).map(line).collect();
        append(&path, &format!("{}\nSEALWAY3 S-x 00\nSEALWAY2 a b\n{sessions}", "x".repeat(3 * CHUNK_LEN)));
        let log = KeyLog::open(path).unwrap();
        assert!(log.find(&id(0)).unwrap().is_none() && log.find(&id(1)).unwrap().is_some());
        assert!(log.find(&id(sessions_max)).unwrap().is_some());
        assert_eq!(log.seen.lock().secrets.len(), SESSIONS_MAX);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_at_any_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        append(&path, &line(1));
        let log = KeyLog::open(path.clone()).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(KeyLog::open(path.clone()).is_err(), "{mode:o}");
            assert!(log.find(&id(2)).is_err(), "{mode:o}");
        }
        assert!(KeyLog::open(folder.path().to_owned()).is_err(), "a folder is no file");
    }
}
