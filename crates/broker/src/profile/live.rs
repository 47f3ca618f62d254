//! A file in use: read anew on demand and when it changes, all of it or nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sealway_runtime::shutdown::Shutdown;

use super::problem::{Leniency, Problem};
use super::set::Profiles;
use crate::callers::Callers;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Profiles in use.
pub type Live = Watched<Profiles>;

/// A kind of file that can be read anew.
pub trait Reloaded: Sized + Send + Sync + 'static {
    /// What it holds, as the log and the counters call it.
    const WHAT: &'static str;

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    fn load(path: &Path, leniency: Leniency) -> Result<Self, Vec<Problem>>;

    /// What is worth a word though it is allowed.
    fn warnings(&self) -> &[Problem];
}

impl Reloaded for Profiles {
    const WHAT: &'static str = "profiles";

    fn load(path: &Path, leniency: Leniency) -> Result<Profiles, Vec<Problem>> {
        super::load(path, leniency)
    }

    fn warnings(&self) -> &[Problem] {
        self.warnings()
    }
}

impl Reloaded for Callers {
    const WHAT: &'static str = "callers";

    fn load(path: &Path, leniency: Leniency) -> Result<Callers, Vec<Problem>> {
        Callers::load(path, leniency)
    }

    fn warnings(&self) -> &[Problem] {
        self.warnings()
    }
}

/// What else has to be so of a file before it is in force.
type Check<T> = Box<dyn Fn(&T) -> Result<(), Vec<Problem>> + Send + Sync>;

/// A file in use, and what it said when it was last in order.
pub struct Watched<T> {
    path: PathBuf,
    leniency: Leniency,
    check: Check<T>,
    current: ArcSwap<T>,
    /// How the file looked at the last reading, which may have failed. Held while it is read, so that of two readings the one
    /// that began later is in force.
    seen: Mutex<Option<Stamp>>,
}

/// What tells a file from the one that was there before, without reading it.
#[derive(Clone, Debug, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    identity: (u64, u64),
    /// Who may write it changes without the rest.
    rights: (u32, u32),
}

impl<T: Reloaded> Watched<T> {
    /// Reads a file, and tells the log what of it is worth a word.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(path: impl Into<PathBuf>, leniency: Leniency) -> Result<Watched<T>, Vec<Problem>> {
        let path = path.into();
        let seen = stamp(&path);
        let loaded = T::load(&path, leniency)?;
        warn(&loaded);
        let check: Check<T> = Box::new(|_| Ok(()));
        Ok(Watched { path, leniency, check, current: ArcSwap::from_pointee(loaded), seen: Mutex::new(seen) })
    }

    /// The same, with something else that has to be so of what each reload reads, as it was of what is in force.
    #[must_use]
    pub fn held_to(mut self, check: impl Fn(&T) -> Result<(), Vec<Problem>> + Send + Sync + 'static) -> Watched<T> {
        self.check = Box::new(check);
        self
    }

    /// What is in force. A call keeps what it began with.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file anew. What was in force stays so unless all of the file is in order.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn reload(&self) -> Result<(), Vec<Problem>> {
        self.read(&mut self.seen.lock())
    }

    /// Reads the file anew if it looks other than at the last reading; true if it was read and is in force.
    pub fn look(&self) -> bool {
        let mut seen = self.seen.lock();
        if *seen == stamp(&self.path) {
            return false;
        }
        // One that is wrong is told once, and looked at again when it changes once more.
        self.read(&mut seen).is_ok()
    }

    fn read(&self, seen: &mut Option<Stamp>) -> Result<(), Vec<Problem>> {
        // Before the reading: what changes meanwhile looks changed afterwards.
        *seen = stamp(&self.path);
        let loaded = T::load(&self.path, self.leniency).and_then(|loaded| (self.check)(&loaded).map(|()| loaded));
        let result = if loaded.is_ok() { "ok" } else { "failed" };
        metrics::counter!("sealway_broker_reloads_total", "file" => T::WHAT, "result" => result).increment(1);
        match loaded {
            Ok(loaded) => {
                warn(&loaded);
                self.current.store(Arc::new(loaded));
                tracing::info!(file = %self.path.display(), "{} reloaded", T::WHAT);
                Ok(())
            }
            Err(problems) => {
                for problem in &problems {
                    tracing::error!(file = %self.path.display(), %problem, "{} are not in order", T::WHAT);
                }
                tracing::error!(
                    problems = problems.len(),
                    "{} not reloaded: those that were loaded stay in force",
                    T::WHAT
                );
                Err(problems)
            }
        }
    }

    /// Looks at the file each second until stopping begins.
    pub async fn watch(self: Arc<Self>, shutdown: Shutdown) {
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = shutdown.begun() => return,
            }
            let live = Arc::clone(&self);
            if tokio::task::spawn_blocking(move || live.look()).await.is_err() {
                tracing::error!("the watch on {} has failed: they are read on SIGHUP alone", T::WHAT);
                return;
            }
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("path", &self.path).field("current", &self.current).finish_non_exhaustive()
    }
}

fn warn<T: Reloaded>(loaded: &T) {
    for warning in loaded.warnings() {
        tracing::warn!(%warning, "{}", T::WHAT);
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        modified: metadata.modified().ok(),
        len: metadata.len(),
        identity: (metadata.dev(), metadata.ino()),
        rights: (metadata.mode(), metadata.uid()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::profile::policy::HashAlgorithm;

    fn text(hash: &str) -> String {
        format!("- {{Name: A, Settings: {{CryptoLibrary: native}}, API: {{HashData: {{HashAlg: {hash}}}}}}}\n")
    }

    /// As an editor does: a new file in the old one's place.
    fn replace(path: &Path, text: &str) {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, Permissions::from_mode(0o644)).unwrap();
        std::fs::rename(&new, path).unwrap();
    }

    #[test]
    fn a_reload_is_all_or_nothing_and_a_call_keeps_what_it_began_with() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("Profiles.yaml");
        assert!(Live::load(&path, Leniency::Strict).is_err());
        replace(&path, &text("sha-256"));
        let live = Live::load(&path, Leniency::Strict).unwrap();
        let began = live.current();
        assert!(!live.look(), "it looks as it did");
        replace(&path, &(text("sha3-512") + "- {Name: B}\n"));
        assert!(!live.look(), "half of it is wrong");
        assert_eq!(live.current().get("A"), began.get("A"));
        assert!(live.reload().unwrap_err().len() >= 2);
        replace(&path, &text("sha3-512"));
        assert!(live.look());
        assert_ne!(live.current().get("A"), began.get("A"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(!live.look() && live.reload().is_err(), "others may write it now");
        std::fs::remove_file(&path).unwrap();
        assert!(!live.look() && live.current().get("A").is_some());
    }

    #[test]
    fn what_else_has_to_be_so_is_asked_at_each_reload() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("Profiles.yaml");
        replace(&path, &text("sha-256"));
        let check = |profiles: &Profiles| {
            let is_new = profiles.get("A").is_some_and(|profile| profile.hash == Some(HashAlgorithm::Sha3_512));
            if is_new { Err(vec![Problem::of_file("not here")]) } else { Ok(()) }
        };
        let live = Live::load(&path, Leniency::Strict).unwrap().held_to(check);
        replace(&path, &text("sha3-512"));
        assert_eq!(live.reload(), Err(vec![Problem::of_file("not here")]));
        assert_eq!(live.current().get("A").unwrap().hash, Some(HashAlgorithm::Sha256));
    }

    #[tokio::test]
    async fn the_watch_sees_a_change_and_ends_with_the_process() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("callers.yaml");
        let rule = |uid: u32| format!("- {{Uid: {uid}, Profiles: ['*'], Operations: ['*'], Keys: ['*']}}\n");
        replace(&path, &rule(1));
        let live = Arc::new(Watched::<Callers>::load(&path, Leniency::Strict).unwrap());
        let shutdown = Shutdown::new();
        let watch = tokio::spawn(Arc::clone(&live).watch(shutdown.clone()));
        replace(&path, &rule(2));
        let changed = async {
            while *live.current() != Callers::only(2) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), changed).await.expect("the change is seen");
        shutdown.begin();
        tokio::time::timeout(Duration::from_secs(20), watch).await.expect("the watch ends").unwrap();
    }
}
