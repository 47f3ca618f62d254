//! Functions of the interface. Each checks its pointers, and turns a failure or a panic into a return value.

mod objects;
mod operations;
mod table;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cryptoki_sys::*;

use crate::failure::{Failure, Result};
use crate::module::{self, Module};
use crate::pointer::{Output, Room, slice_mut, value};
use crate::token;

/// Runs a function of the interface.
fn call(work: impl FnOnce() -> Result<()>) -> CK_RV {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => CKR_OK,
        Ok(Err(Failure(value))) => value,
        Err(_) => CKR_GENERAL_ERROR,
    }
}

/// Runs a function that needs the initialised module.
fn with_module(work: impl FnOnce(&Module) -> Result<()>) -> CK_RV {
    call(|| work(&*module::current()?))
}

unsafe extern "C" fn initialize(arguments: *mut c_void) -> CK_RV {
    call(|| {
        if !arguments.is_null() {
            // SAFETY: the standard's promise: it points to this structure.
            let given = unsafe { value(arguments.cast::<CK_C_INITIALIZE_ARGS>()) }?;
            let of_mutexes = [
                given.CreateMutex.is_some(),
                given.DestroyMutex.is_some(),
                given.LockMutex.is_some(),
                given.UnlockMutex.is_some(),
            ];
            let has_all = of_mutexes == [true; 4];
            if !given.pReserved.is_null() || !(has_all || of_mutexes == [false; 4]) {
                return Err(Failure(CKR_ARGUMENTS_BAD));
            }
            if has_all && given.flags & CKF_OS_LOCKING_OK == 0 {
                return Err(Failure(CKR_CANT_LOCK));
            }
        }
        module::initialize()
    })
}

unsafe extern "C" fn finalize(reserved: *mut c_void) -> CK_RV {
    call(|| {
        if !reserved.is_null() {
            return Err(Failure(CKR_ARGUMENTS_BAD));
        }
        module::finalize()
    })
}

unsafe extern "C" fn get_info(info: *mut CK_INFO) -> CK_RV {
    with_module(|_| {
        // SAFETY: the standard's promise.
        *unsafe { value(info) }? = token::info();
        Ok(())
    })
}

/// Stores a list of numbers by the convention of section 5.2; the length counts entries.
///
/// # Safety
/// `count` is NULL or points to a number; `list` is NULL or has as many entries as it says.
unsafe fn store_list(found: &[CK_ULONG], list: *mut CK_ULONG, count: *mut CK_ULONG) -> Result<()> {
    // SAFETY: the caller's promise. The output is used for its check of the length alone.
    let mut output = unsafe { Output::new(list.cast(), count) }?;
    if let Room::Enough = output.prepare(found.len())? {
        // SAFETY: the caller's promise, and the list has room for these entries.
        unsafe { slice_mut(list, found.len() as CK_ULONG) }?.copy_from_slice(found);
        // SAFETY: as above.
        *unsafe { value(count) }? = found.len() as CK_ULONG;
    }
    Ok(())
}

unsafe extern "C" fn get_slot_list(only_present: CK_BBOOL, list: *mut CK_SLOT_ID, count: *mut CK_ULONG) -> CK_RV {
    with_module(|module| {
        let slots = module.config.slots.iter().enumerate();
        let is_shown = |profile: &str| only_present == CK_FALSE || module.broker.operations(profile).is_ok();
        let found: Vec<_> =
            slots.filter(|(_, slot)| is_shown(&slot.profile)).map(|(index, _)| index as CK_SLOT_ID).collect();
        // SAFETY: the standard's promise.
        unsafe { store_list(&found, list, count) }
    })
}

unsafe extern "C" fn get_slot_info(slot: CK_SLOT_ID, info: *mut CK_SLOT_INFO) -> CK_RV {
    with_module(|module| {
        let (_, slot) = module.slot(slot)?;
        // SAFETY: the standard's promise.
        let info = unsafe { value(info) }?;
        *info = token::slot_info(slot, module.broker.operations(&slot.profile).is_ok());
        Ok(())
    })
}

unsafe extern "C" fn get_token_info(slot: CK_SLOT_ID, info: *mut CK_TOKEN_INFO) -> CK_RV {
    with_module(|module| {
        let (_, slot) = module.slot(slot)?;
        // SAFETY: the standard's promise.
        let info = unsafe { value(info) }?;
        *info = token::token_info(module, slot)?;
        Ok(())
    })
}

unsafe extern "C" fn get_mechanism_list(slot: CK_SLOT_ID, list: *mut CK_MECHANISM_TYPE, count: *mut CK_ULONG) -> CK_RV {
    with_module(|module| {
        let (_, slot) = module.slot(slot)?;
        let found: Vec<_> = module.offers(slot)?.iter().map(|offer| offer.mechanism).collect();
        // SAFETY: the standard's promise.
        unsafe { store_list(&found, list, count) }
    })
}

unsafe extern "C" fn get_mechanism_info(
    slot: CK_SLOT_ID,
    mechanism: CK_MECHANISM_TYPE,
    info: *mut CK_MECHANISM_INFO,
) -> CK_RV {
    with_module(|module| {
        let (_, slot) = module.slot(slot)?;
        // SAFETY: the standard's promise.
        let info = unsafe { value(info) }?;
        let offers = module.offers(slot)?;
        let offer = offers.iter().find(|offer| offer.mechanism == mechanism);
        *info = offer.ok_or(Failure(CKR_MECHANISM_INVALID))?.info();
        Ok(())
    })
}

unsafe extern "C" fn open_session(
    slot: CK_SLOT_ID,
    flags: CK_FLAGS,
    _application: *mut c_void,
    _notify: CK_NOTIFY,
    handle: *mut CK_SESSION_HANDLE,
) -> CK_RV {
    with_module(|module| {
        let (index, slot) = module.slot(slot)?;
        // SAFETY: the standard's promise.
        let handle = unsafe { value(handle) }?;
        if flags & CKF_SERIAL_SESSION == 0 {
            return Err(Failure(CKR_SESSION_PARALLEL_NOT_SUPPORTED));
        }
        module.broker.operations(&slot.profile)?;
        *handle = module.open(index, flags & CKF_RW_SESSION != 0)?;
        Ok(())
    })
}

unsafe extern "C" fn close_session(session: CK_SESSION_HANDLE) -> CK_RV {
    with_module(|module| module.close(session))
}

unsafe extern "C" fn close_all_sessions(slot: CK_SLOT_ID) -> CK_RV {
    with_module(|module| {
        let (index, _) = module.slot(slot)?;
        module.close_all(index);
        Ok(())
    })
}

unsafe extern "C" fn get_session_info(session: CK_SESSION_HANDLE, info: *mut CK_SESSION_INFO) -> CK_RV {
    with_module(|module| {
        // SAFETY: the standard's promise.
        let info = unsafe { value(info) }?;
        let (slot, is_rw) = module.with(session, |session| Ok((session.slot, session.is_rw)))?;
        let state = match (is_rw, module.is_logged_in(slot)) {
            (false, false) => CKS_RO_PUBLIC_SESSION,
            (false, true) => CKS_RO_USER_FUNCTIONS,
            (true, false) => CKS_RW_PUBLIC_SESSION,
            (true, true) => CKS_RW_USER_FUNCTIONS,
        };
        let flags = CKF_SERIAL_SESSION | if is_rw { CKF_RW_SESSION } else { 0 };
        *info = CK_SESSION_INFO { slotID: slot as CK_SLOT_ID, state, flags, ulDeviceError: 0 };
        Ok(())
    })
}

/// Accepts every PIN without reading it: the permissions of the socket and the broker's policy decide.
unsafe extern "C" fn login(
    session: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    _pin: *mut CK_UTF8CHAR,
    _pin_len: CK_ULONG,
) -> CK_RV {
    with_module(|module| {
        let slot = module.with(session, |session| Ok(session.slot))?;
        if user != CKU_USER {
            return Err(Failure(CKR_USER_TYPE_INVALID));
        }
        if module.log(slot, true) { Ok(()) } else { Err(Failure(CKR_USER_ALREADY_LOGGED_IN)) }
    })
}

unsafe extern "C" fn logout(session: CK_SESSION_HANDLE) -> CK_RV {
    with_module(|module| {
        let slot = module.with(session, |session| Ok(session.slot))?;
        if module.log(slot, false) { Ok(()) } else { Err(Failure(CKR_USER_NOT_LOGGED_IN)) }
    })
}

unsafe extern "C" fn wait_for_slot_event(flags: CK_FLAGS, _slot: *mut CK_SLOT_ID, _reserved: *mut c_void) -> CK_RV {
    with_module(|_| {
        let is_waiting = flags & CKF_DONT_BLOCK == 0;
        Err(Failure(if is_waiting { CKR_FUNCTION_NOT_SUPPORTED } else { CKR_NO_EVENT }))
    })
}
