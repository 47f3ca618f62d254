//! Safe wrappers, over slices, of the library's reader and writer of bytes.

use std::mem::MaybeUninit;

use crate::{CryptoError, DER_MAX, sys, yes};

/// Lets a parser of the library read `der`: within its bound, and to its last byte.
///
/// The parser gets a reader that is valid during the call, and returns its result, or nothing.
pub(crate) fn parse<T>(der: &[u8], parser: impl FnOnce(*mut sys::CBS) -> Option<T>) -> Result<T, CryptoError> {
    if der.len() > DER_MAX {
        return Err(CryptoError);
    }
    let mut reader = MaybeUninit::<sys::CBS>::uninit();
    // SAFETY: the reader is initialised here, over `der.len()` bytes of `der`, which outlive it.
    unsafe { sys::CBS_init(reader.as_mut_ptr(), der.as_ptr(), der.len()) };
    let made = parser(reader.as_mut_ptr()).ok_or(CryptoError)?;
    // SAFETY: initialised above; a parser only moves it forward within its bytes.
    if unsafe { sys::CBS_len(reader.as_ptr()) } != 0 {
        return Err(CryptoError);
    }
    Ok(made)
}

/// Returns the output of a marshaller of the library, at most [`DER_MAX`] bytes. The writer is valid during the call.
pub(crate) fn written(marshaller: impl FnOnce(*mut sys::CBB) -> std::ffi::c_int) -> Result<Vec<u8>, CryptoError> {
    let mut writer = Writer(MaybeUninit::zeroed());
    // SAFETY: the writer's memory is valid, and `CBB_init` initialises all of it, whether it succeeds or not.
    yes(unsafe { sys::CBB_init(writer.0.as_mut_ptr(), 1024) })?;
    yes(marshaller(writer.0.as_mut_ptr()))?;
    // SAFETY: initialised above, and not finished; writes what children have pending.
    yes(unsafe { sys::CBB_flush(writer.0.as_mut_ptr()) })?;
    // SAFETY: initialised and flushed.
    let (data, len) = unsafe { (sys::CBB_data(writer.0.as_ptr()), sys::CBB_len(writer.0.as_ptr())) };
    if data.is_null() || len > DER_MAX {
        return Err(CryptoError);
    }
    // SAFETY: the writer holds `len` initialised bytes at `data` until it is written to or cleaned up, which is after the copy.
    Ok(unsafe { std::slice::from_raw_parts(data, len) }.to_vec())
}

/// A writer, cleaned up with its owner.
struct Writer(MaybeUninit<sys::CBB>);

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: either all zero, the library's empty state, or initialised by `CBB_init`; cleaned up this once.
        unsafe { sys::CBB_cleanup(self.0.as_mut_ptr()) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
