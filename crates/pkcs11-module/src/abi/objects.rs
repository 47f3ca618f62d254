//! Functions on objects: attributes and searches.

use cryptoki_sys::*;

use super::with_module;
use crate::failure::{Failure, Result};
use crate::object::{Object, Value};
use crate::pointer::{Output, slice, slice_mut, value};

/// Most attributes of a template.
const TEMPLATE_MAX: CK_ULONG = 256;

pub(super) unsafe extern "C" fn get_attribute_value(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    template: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    with_module(|module| {
        if template.is_null() || count > TEMPLATE_MAX {
            return Err(Failure(CKR_ARGUMENTS_BAD));
        }
        let slot = module.with(session, |session| Ok(session.slot))?;
        let object = module.object(slot, object)?;
        // SAFETY: the standard's promise.
        let template = unsafe { slice_mut(template, count) }?;
        // All attributes are processed; the last failure is the result.
        let mut result = Ok(());
        for attribute in template {
            // SAFETY: the standard's promise: the value has the length that stands beside it.
            if let Err(failure) = unsafe { get(&object, attribute) } {
                attribute.ulValueLen = CK_UNAVAILABLE_INFORMATION;
                result = Err(failure);
            }
        }
        result
    })
}

/// Stores the value of one attribute.
///
/// # Safety
/// `pValue` is NULL, or points to `ulValueLen` bytes.
unsafe fn get(object: &Object, attribute: &mut CK_ATTRIBUTE) -> Result<()> {
    match object.value(attribute.type_) {
        Value::Sensitive => Err(Failure(CKR_ATTRIBUTE_SENSITIVE)),
        Value::Absent => Err(Failure(CKR_ATTRIBUTE_TYPE_INVALID)),
        Value::Bytes(bytes) => {
            // SAFETY: the caller's promise.
            unsafe { Output::new(attribute.pValue.cast(), &mut attribute.ulValueLen) }?.write(bytes)
        }
    }
}

pub(super) unsafe extern "C" fn find_objects_init(
    session: CK_SESSION_HANDLE,
    template: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    with_module(|module| {
        if count > TEMPLATE_MAX {
            return Err(Failure(CKR_ARGUMENTS_BAD));
        }
        // SAFETY: the standard's promise.
        let template = unsafe { slice(template, count) }?;
        let mut wanted = Vec::new();
        for attribute in template {
            // SAFETY: the standard's promise: the value has the length that stands beside it.
            wanted.push((attribute.type_, unsafe { slice(attribute.pValue.cast::<u8>(), attribute.ulValueLen) }?));
        }
        module.with(session, |session| {
            if session.search.is_some() {
                return Err(Failure(CKR_OPERATION_ACTIVE));
            }
            let fits = |object: &Object| wanted.iter().all(|(attribute, value)| object.has(*attribute, value));
            session.search = Some(module.find(session.slot, fits)?);
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn find_objects(
    session: CK_SESSION_HANDLE,
    found: *mut CK_OBJECT_HANDLE,
    max: CK_ULONG,
    count: *mut CK_ULONG,
) -> CK_RV {
    with_module(|module| {
        // SAFETY: the standard's promise.
        let (places, count) = unsafe { (slice_mut(found, max)?, value(count)?) };
        module.with(session, |session| {
            let search = session.search.as_mut().ok_or(Failure(CKR_OPERATION_NOT_INITIALIZED))?;
            *count = 0;
            for (place, handle) in places.iter_mut().zip(search) {
                *place = handle;
                *count += 1;
            }
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn find_objects_final(session: CK_SESSION_HANDLE) -> CK_RV {
    with_module(|module| {
        module.with(session, |session| session.search.take().map(|_| ()).ok_or(Failure(CKR_OPERATION_NOT_INITIALIZED)))
    })
}
