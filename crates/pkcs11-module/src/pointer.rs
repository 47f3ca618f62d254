//! Pointers of the caller, checked as the standard demands.

use std::ffi::c_void;

use cryptoki_sys::{CK_ULONG, CKR_ARGUMENTS_BAD, CKR_BUFFER_TOO_SMALL};

use crate::failure::{Failure, Result};

const BAD: Failure = Failure(CKR_ARGUMENTS_BAD);

/// Borrows a value of the caller.
///
/// # Safety
/// `pointer` is NULL, or points to a value that nobody else uses during the call.
pub(crate) unsafe fn value<'a, T>(pointer: *mut T) -> Result<&'a mut T> {
    if !pointer.is_aligned() {
        return Err(BAD);
    }
    // SAFETY: the caller's promise; NULL gives `None`.
    unsafe { pointer.as_mut() }.ok_or(BAD)
}

/// Borrows `len` values of the caller. NULL stands for no values.
///
/// # Safety
/// `pointer` is NULL, or points to `len` values that nobody writes during the call.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, len: CK_ULONG) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    let len = length::<T>(len)?;
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(BAD);
    }
    // SAFETY: the caller's promise; not NULL, aligned, and of a length that a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Borrows `len` values of the caller to write them. NULL stands for no values.
///
/// # Safety
/// `pointer` is NULL, or points to `len` values that nobody else uses during the call.
pub(crate) unsafe fn slice_mut<'a, T>(pointer: *mut T, len: CK_ULONG) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    let len = length::<T>(len)?;
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(BAD);
    }
    // SAFETY: the caller's promise; not NULL, aligned, and of a length that a slice may have.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
}

/// Reads the parameter of a mechanism, if it has the length of this type.
///
/// # Safety
/// `pointer` is NULL, or points to `len` bytes.
pub(crate) unsafe fn parameter<T: Copy>(pointer: *const c_void, len: CK_ULONG) -> Option<T> {
    let is_whole = usize::try_from(len) == Ok(size_of::<T>());
    // SAFETY: the caller's promise; as long as the type, and read without alignment. `T` is a C structure of numbers and
    // pointers, which every pattern of bits is.
    (is_whole && !pointer.is_null()).then(|| unsafe { pointer.cast::<T>().read_unaligned() })
}

fn length<T>(len: CK_ULONG) -> Result<usize> {
    let len = usize::try_from(len).map_err(|_| BAD)?;
    let bytes = len.checked_mul(size_of::<T>()).ok_or(BAD)?;
    isize::try_from(bytes).map(|_| len).map_err(|_| BAD)
}

/// A buffer of the caller for a result, by the convention of section 5.2: NULL asks for the length.
pub(crate) struct Output<'a> {
    pointer: *mut u8,
    len: &'a mut CK_ULONG,
}

/// Outcome of a successful [`Output::prepare`].
pub(crate) enum Room {
    /// The caller asked for the length alone.
    LengthOnly,
    /// The buffer has room for the result.
    Enough,
}

impl<'a> Output<'a> {
    /// Takes the two pointers of a function.
    ///
    /// # Safety
    /// `len` is NULL or points to a number; `pointer` is NULL or points to as many bytes as `len` says; nobody else uses
    /// either during the call.
    pub(crate) unsafe fn new(pointer: *mut u8, len: *mut CK_ULONG) -> Result<Self> {
        // SAFETY: the caller's promise.
        Ok(Output { pointer, len: unsafe { value(len) }? })
    }

    /// Checks that a result of at most `len` bytes fits. If it does not, the needed length is stored, and the operation
    /// stays active.
    pub(crate) fn prepare(&mut self, len: usize) -> Result<Room> {
        let available = *self.len;
        let needed = CK_ULONG::try_from(len).map_err(|_| BAD)?;
        if self.pointer.is_null() {
            *self.len = needed;
            return Ok(Room::LengthOnly);
        }
        if available < needed {
            *self.len = needed;
            return Err(Failure(CKR_BUFFER_TOO_SMALL));
        }
        Ok(Room::Enough)
    }

    /// Stores a result and its length.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Room::Enough = self.prepare(bytes.len())? {
            // SAFETY: the buffer has at least this length, by the promise of `new` and the check above.
            unsafe { self.pointer.copy_from(bytes.as_ptr(), bytes.len()) };
            *self.len = CK_ULONG::try_from(bytes.len()).map_err(|_| BAD)?;
        }
        Ok(())
    }
}
