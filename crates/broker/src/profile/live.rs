//! The profiles of a file as an immutable, checked set; and a live file, which is reloaded as a whole on demand and on
//! changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sealway_runtime::shutdown::Shutdown;

use super::problem::{Leniency, Notes, Problem};
use super::tree::Node;
use super::{Profile, approval, resolve};
use crate::callers::Callers;

/// Interval of the checks for a changed file.
const LOOK: Duration = Duration::from_secs(1);

/// A file's demand for a validated module, in order of strictness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequireFips {
    /// No demand for a module.
    #[default]
    No,
    /// `true`: a build without a module does not start; one with it switches off operations that need an unapproved
    /// service.
    Yes,
    /// `strict`: like `Yes`, and a profile that needs such a service prevents the start.
    Strict,
}

/// Settings of a file besides its profiles.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) require_fips: RequireFips,
    pub(super) callers: Option<Callers>,
}

/// All profiles of a file, checked.
#[derive(Debug)]
pub struct Profiles {
    ordered: Vec<Arc<Profile>>,
    by_name: HashMap<String, Arc<Profile>>,
    settings: Settings,
    warnings: Vec<Problem>,
}

impl Profiles {
    /// Parses a file of either shape.
    ///
    /// # Errors
    /// All defects of the text.
    pub fn parse(text: &str, leniency: Leniency) -> Result<Profiles, Vec<Problem>> {
        let root = Node::parse(text).map_err(|err| vec![Problem { line: err.line, ..Problem::of_file(err.text) }])?;
        let mut notes = Notes::new(leniency);
        let (profiles, settings) = resolve::file(&root, &mut notes);
        let warnings = notes.into_result()?;
        let with_faults =
            |profile: Profile| Arc::new(Profile { unapproved: approval::unapproved(&profile), ..profile });
        let ordered: Vec<Arc<Profile>> = profiles.into_iter().map(with_faults).collect();
        let by_name = ordered.iter().map(|profile| (profile.name.clone(), Arc::clone(profile))).collect();
        Ok(Profiles { ordered, by_name, settings, warnings })
    }

    /// Returns a profile by its exact name.
    pub fn get(&self, name: &str) -> Option<&Arc<Profile>> {
        self.by_name.get(name)
    }

    /// Names of the profiles, in the file's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ordered.iter().map(|profile| profile.name.as_str())
    }

    /// All profiles, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.ordered.iter()
    }

    /// Value of the setting `Settings.RequireFips`.
    pub fn require_fips(&self) -> RequireFips {
        self.settings.require_fips
    }

    /// Rules for callers, if the file has a section `Callers`.
    pub fn callers(&self) -> Option<&Callers> {
        self.settings.callers.as_ref()
    }

    /// Warnings about accepted defects of the file.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

/// File of profiles that is reloaded while the broker serves.
pub type Live = LiveFile<Profiles>;

/// Content of a file that can be reloaded.
pub trait Reload: Sized + Send + Sync + 'static {
    /// Name of the content in the log and in metrics.
    const WHAT: &'static str;

    /// Loads and checks a file.
    ///
    /// # Errors
    /// All defects of the file.
    fn load(path: &Path, leniency: Leniency) -> Result<Self, Vec<Problem>>;

    /// Warnings about accepted defects of the file.
    fn warnings(&self) -> &[Problem];
}

impl Reload for Profiles {
    const WHAT: &'static str = "profiles";

    fn load(path: &Path, leniency: Leniency) -> Result<Profiles, Vec<Problem>> {
        super::load(path, leniency)
    }

    fn warnings(&self) -> &[Problem] {
        self.warnings()
    }
}

impl Reload for Callers {
    const WHAT: &'static str = "callers";

    fn load(path: &Path, leniency: Leniency) -> Result<Callers, Vec<Problem>> {
        Callers::parse(&super::load::read(path)?, leniency)
    }

    fn warnings(&self) -> &[Problem] {
        self.warnings()
    }
}

/// Further check of a file before it comes into force.
type Check<T> = Box<dyn Fn(&T) -> Result<(), Vec<Problem>> + Send + Sync>;

/// A file in use, with its last valid content.
pub struct LiveFile<T> {
    path: PathBuf,
    leniency: Leniency,
    check: Check<T>,
    current: ArcSwap<T>,
    /// Stamp of the file at its last reading, which may have failed. Locked during a reading, so that of two readings
    /// the later one comes into force.
    seen: Mutex<Option<Stamp>>,
}

/// Attributes that distinguish a file from its predecessor without reading it.
#[derive(Clone, Debug, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    identity: (u64, u64),
    /// Owner and mode, which can change without the rest.
    rights: (u32, u32),
}

fn reloads<T: Reload>(result: &'static str) -> metrics::Counter {
    metrics::counter!("sealway_broker_reloads_total", "file" => T::WHAT, "result" => result)
}

impl<T: Reload> LiveFile<T> {
    /// Loads a file, and logs its warnings.
    ///
    /// # Errors
    /// All defects of the file.
    pub fn load(path: impl Into<PathBuf>, leniency: Leniency) -> Result<LiveFile<T>, Vec<Problem>> {
        let path = path.into();
        let seen = stamp(&path);
        let loaded = T::load(&path, leniency)?;
        warn(&loaded);
        // Created at 0: a scraper sees no increment of a counter that begins with it.
        let _ = [reloads::<T>("ok"), reloads::<T>("failed")];
        let check: Check<T> = Box::new(|_| Ok(()));
        Ok(LiveFile { path, leniency, check, current: ArcSwap::from_pointee(loaded), seen: Mutex::new(seen) })
    }

    /// Adds a check that every reload has to pass, as the content in force did.
    #[must_use]
    pub fn held_to(mut self, check: impl Fn(&T) -> Result<(), Vec<Problem>> + Send + Sync + 'static) -> LiveFile<T> {
        self.check = Box::new(check);
        self
    }

    /// Returns the content in force. A call keeps the content that it began with.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Returns the path from which the content is reloaded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reloads the file. The old content stays in force if the file has any defect.
    ///
    /// # Errors
    /// All defects of the file.
    pub fn reload(&self) -> Result<(), Vec<Problem>> {
        self.read(&mut self.seen.lock())
    }

    /// Reloads the file if its stamp has changed; true if the new content is in force.
    pub fn look(&self) -> bool {
        let mut seen = self.seen.lock();
        if *seen == stamp(&self.path) {
            return false;
        }
        // A defective file is reported once, and read again after its next change.
        self.read(&mut seen).is_ok()
    }

    fn read(&self, seen: &mut Option<Stamp>) -> Result<(), Vec<Problem>> {
        // Taken before the reading: a change during it gives another stamp.
        *seen = stamp(&self.path);
        let loaded = T::load(&self.path, self.leniency).and_then(|loaded| (self.check)(&loaded).map(|()| loaded));
        let result = if loaded.is_ok() { "ok" } else { "failed" };
        reloads::<T>(result).increment(1);
        match loaded {
            Ok(loaded) => {
                warn(&loaded);
                self.current.store(Arc::new(loaded));
                tracing::info!(file = %self.path.display(), "{} reloaded", T::WHAT);
                Ok(())
            }
            Err(problems) => {
                for problem in &problems {
                    tracing::error!(file = %self.path.display(), %problem, "{} are invalid", T::WHAT);
                }
                tracing::error!(problems = problems.len(), "{} not reloaded: the loaded ones stay in use", T::WHAT);
                Err(problems)
            }
        }
    }

    /// Checks the file each second until shutdown begins.
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
                tracing::error!("watching {} failed: they are read on SIGHUP only", T::WHAT);
                return;
            }
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for LiveFile<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveFile").field("path", &self.path).field("current", &self.current).finish_non_exhaustive()
    }
}

fn warn<T: Reload>(loaded: &T) {
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

    /// Replaces a file as an editor does: a new file takes the old one's path.
    fn replace(path: &Path, text: &str) {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, Permissions::from_mode(0o644)).unwrap();
        std::fs::rename(&new, path).unwrap();
    }

    #[test]
    fn a_reload_is_atomic_and_a_running_call_keeps_its_profile() {
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
    fn additional_checks_run_at_each_reload() {
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

    /// A subscriber that keeps the fields `warning` of all events.
    #[derive(Default)]
    struct Warnings(Mutex<Vec<String>>);

    impl tracing::field::Visit for &Warnings {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            if field.name() == "warning" {
                self.0.lock().push(format!("{value:?}"));
            }
        }
    }

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut &*self);
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn warnings_of_both_files_are_logged_when_they_are_loaded() {
        let ground = tempfile::tempdir().unwrap();
        let (profiles, callers) = (ground.path().join("Profiles.yaml"), ground.path().join("callers.yaml"));
        replace(&profiles, &text("sha-256").replace("API: {", "API: {EncryptData: {}, "));
        replace(&callers, "- {Uid: 65534, Profiles: ['*'], Operations: ['*'], Keys: ['*']}\n");
        let load = || {
            Live::load(&profiles, Leniency::Strict).unwrap();
            LiveFile::<Callers>::load(&callers, Leniency::Strict).unwrap();
        };
        // The first event of a place in the code decides whether it is enabled: here with no subscriber, in no other thread.
        load();
        let warnings = Arc::new(Warnings::default());
        tracing::subscriber::with_default(Arc::clone(&warnings), load);
        let logged = warnings.0.lock();
        assert_eq!(logged.len(), 2, "{logged:?}");
        assert!(logged[0].contains("API.EncryptData: is empty: the operation is off"), "{logged:?}");
        assert!(logged[1].starts_with("line 1: [0].Uid: stands for everybody"), "{logged:?}");
    }

    #[tokio::test]
    async fn the_watch_sees_a_change_and_ends_with_the_process() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("callers.yaml");
        let rule = |uid: u32| format!("- {{Uid: {uid}, Profiles: ['*'], Operations: ['*'], Keys: ['*']}}\n");
        replace(&path, &rule(1));
        let live = Arc::new(LiveFile::<Callers>::load(&path, Leniency::Strict).unwrap());
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
