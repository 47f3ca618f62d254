//! The state between `C_Initialize` and `C_Finalize`, one a process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use cryptoki_sys::{
    CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CK_SLOT_ID, CKR_CRYPTOKI_ALREADY_INITIALIZED, CKR_CRYPTOKI_NOT_INITIALIZED,
    CKR_DEVICE_MEMORY, CKR_GENERAL_ERROR, CKR_OBJECT_HANDLE_INVALID, CKR_SESSION_COUNT, CKR_SESSION_HANDLE_INVALID,
    CKR_SLOT_ID_INVALID,
};

use crate::broker::{Broker, tell};
use crate::config::{self, Config, SlotConfig};
use crate::failure::{Failure, Result};
use crate::mechanism::{Offer, offers};
use crate::object::{Object, objects};
use crate::session::Session;

/// Most sessions of a process.
pub(crate) const SESSIONS_MAX: usize = 4096;
/// Most objects, over all slots and all versions of keys that were seen.
const OBJECTS_MAX: usize = 200_000;

static STATE: ArcSwapOption<Module> = ArcSwapOption::const_empty();
/// True once a defect of the configuration was written to standard error.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// State of an initialised module.
pub(crate) struct Module {
    /// Process that initialised it. A child of `fork` has the memory, and must not use the connection.
    pid: u32,
    pub(crate) config: Config,
    pub(crate) broker: Broker,
    sessions: Mutex<Sessions>,
    objects: Mutex<Objects>,
}

/// All objects that were found so far. Handles stay valid: an object never changes.
#[derive(Default)]
struct Objects {
    /// Objects by their handles, less 1.
    known: Vec<Arc<Object>>,
    handles: HashMap<Arc<Object>, CK_OBJECT_HANDLE>,
}

impl Objects {
    /// Returns the handle of an object, which is the same for an equal one.
    fn handle(&mut self, object: Object) -> Result<CK_OBJECT_HANDLE> {
        if let Some(handle) = self.handles.get(&object) {
            return Ok(*handle);
        }
        if self.known.len() >= OBJECTS_MAX {
            return Err(Failure(CKR_DEVICE_MEMORY));
        }
        let object = Arc::new(object);
        self.known.push(object.clone());
        let handle = self.known.len() as CK_OBJECT_HANDLE;
        self.handles.insert(object, handle);
        Ok(handle)
    }
}

#[derive(Default)]
struct Sessions {
    last: CK_SESSION_HANDLE,
    open: HashMap<CK_SESSION_HANDLE, Arc<Mutex<Session>>>,
    /// True by slot, if a user has logged in.
    logged_in: HashMap<usize, bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the configuration, and makes the state of this process. It connects to nothing.
pub(crate) fn initialize() -> Result<()> {
    if current().is_ok() {
        return Err(Failure(CKR_CRYPTOKI_ALREADY_INITIALIZED));
    }
    let config = config::read().map_err(|error| {
        if !IS_TOLD.swap(true, Ordering::Relaxed) {
            tell(&error);
        }
        Failure(CKR_GENERAL_ERROR)
    })?;
    let broker = Broker::new(&config);
    let (sessions, objects) = (Mutex::default(), Mutex::default());
    let module = Module { pid: std::process::id(), config, broker, sessions, objects };
    abandon(STATE.swap(Some(Arc::new(module))));
    Ok(())
}

/// Ends the state of this process.
pub(crate) fn finalize() -> Result<()> {
    current()?;
    drop(STATE.swap(None));
    Ok(())
}

/// Returns the state, if this process made it.
pub(crate) fn current() -> Result<Arc<Module>> {
    let found = STATE.load_full();
    match found {
        Some(module) if module.pid == std::process::id() => Ok(module),
        inherited => {
            abandon(inherited);
            Err(Failure(CKR_CRYPTOKI_NOT_INITIALIZED))
        }
    }
}

/// Leaves the state of a parent process as it is. To drop it would close what the parent still uses.
fn abandon(inherited: Option<Arc<Module>>) {
    std::mem::forget(inherited);
}

impl Module {
    /// Finds the place of a slot.
    pub(crate) fn slot(&self, id: CK_SLOT_ID) -> Result<(usize, &SlotConfig)> {
        let index = usize::try_from(id).map_err(|_| Failure(CKR_SLOT_ID_INVALID))?;
        self.config.slots.get(index).map(|slot| (index, slot)).ok_or(Failure(CKR_SLOT_ID_INVALID))
    }

    /// Returns the mechanisms of a slot's profile.
    pub(crate) fn offers(&self, slot: &SlotConfig) -> Result<Vec<Offer>> {
        Ok(offers(&self.broker.operations(&slot.profile)?, slot.content_key_len))
    }

    /// Opens a session, and returns its handle.
    pub(crate) fn open(&self, slot: usize, is_rw: bool) -> Result<CK_SESSION_HANDLE> {
        let mut sessions = lock(&self.sessions);
        if sessions.open.len() >= SESSIONS_MAX {
            return Err(Failure(CKR_SESSION_COUNT));
        }
        sessions.last += 1;
        let handle = sessions.last;
        sessions.open.insert(handle, Arc::new(Mutex::new(Session::new(slot, is_rw))));
        Ok(handle)
    }

    /// Calls `work` with a session, of which other threads then wait.
    pub(crate) fn with<T>(&self, handle: CK_SESSION_HANDLE, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let found = lock(&self.sessions).open.get(&handle).cloned();
        let session = found.ok_or(Failure(CKR_SESSION_HANDLE_INVALID))?;
        let mut session = lock(&session);
        work(&mut session)
    }

    /// Closes one session of a program.
    pub(crate) fn close(&self, handle: CK_SESSION_HANDLE) -> Result<()> {
        let closed = lock(&self.sessions).open.remove(&handle);
        let slot = lock(&*closed.ok_or(Failure(CKR_SESSION_HANDLE_INVALID))?).slot;
        self.log_out_unused(slot);
        Ok(())
    }

    /// Closes all sessions of a slot.
    pub(crate) fn close_all(&self, slot: usize) {
        let all: Vec<_> = lock(&self.sessions).open.iter().map(|(handle, one)| (*handle, one.clone())).collect();
        for (handle, session) in all {
            if lock(&session).slot == slot {
                lock(&self.sessions).open.remove(&handle);
            }
        }
        self.log_out_unused(slot);
    }

    fn log_out_unused(&self, slot: usize) {
        let all: Vec<_> = lock(&self.sessions).open.values().cloned().collect();
        if !all.iter().any(|session| lock(session).slot == slot) {
            lock(&self.sessions).logged_in.remove(&slot);
        }
    }

    /// True if a user has logged in to a slot.
    pub(crate) fn is_logged_in(&self, slot: usize) -> bool {
        lock(&self.sessions).logged_in.contains_key(&slot)
    }

    /// Logs in to a slot, or out of it; false if it was so already. The PIN is not looked at.
    pub(crate) fn log(&self, slot: usize, is_in: bool) -> bool {
        let mut sessions = lock(&self.sessions);
        match is_in {
            true => sessions.logged_in.insert(slot, true).is_none(),
            false => sessions.logged_in.remove(&slot).is_some(),
        }
    }

    /// Returns the number of open sessions.
    pub(crate) fn session_count(&self) -> usize {
        lock(&self.sessions).open.len()
    }

    /// Asks the broker for the objects of a slot, and returns those that `wanted` takes.
    pub(crate) fn find(
        &self,
        slot: usize,
        wanted: impl Fn(&Object) -> bool,
    ) -> Result<std::vec::IntoIter<CK_OBJECT_HANDLE>> {
        let config = self.config.slots.get(slot).ok_or(Failure(CKR_SLOT_ID_INVALID))?;
        let offers = self.offers(config)?;
        let keys = self.broker.keys(&config.profile)?;
        let mut known = lock(&self.objects);
        let mut handles = Vec::new();
        for object in objects(slot, config, &keys, &offers).into_iter().filter(|object| wanted(object)) {
            handles.push(known.handle(object)?);
        }
        Ok(handles.into_iter())
    }

    /// Returns the object of a handle, in a slot.
    pub(crate) fn object(&self, slot: usize, handle: CK_OBJECT_HANDLE) -> Result<Arc<Object>> {
        let index = usize::try_from(handle).ok().and_then(|handle| handle.checked_sub(1));
        let found = index.and_then(|index| lock(&self.objects).known.get(index).cloned());
        found.filter(|object| object.slot == slot).ok_or(Failure(CKR_OBJECT_HANDLE_INVALID))
    }
}
