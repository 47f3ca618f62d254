//! Which library this is.

use std::ffi::CStr;

use crate::sys;

/// Whether the library says of itself that it is the validated build and in its approved mode.
pub fn is_fips() -> bool {
    // SAFETY: takes no argument, reads a constant of the library.
    unsafe { sys::FIPS_mode() == 1 }
}

/// The library's own version, such as `AWS-LC FIPS 3.1.0`: of what is linked, not of what was asked for.
pub fn version() -> String {
    // SAFETY: 0 is OPENSSL_VERSION; the function returns a static, null-terminated string for every argument.
    let text = unsafe { CStr::from_ptr(sys::OpenSSL_version(0)) };
    text.to_string_lossy().into_owned()
}

/// How many approved services of the module this thread has completed: one that is not approved does not raise it.
#[cfg(feature = "fips")]
pub fn approved_services() -> u64 {
    // SAFETY: takes no argument, reads a counter of the calling thread.
    unsafe { sys::FIPS_service_indicator_before_call() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_library_names_itself_and_its_mode() {
        let version = super::version();
        assert!(version.contains("AWS-LC"), "{version}");
        assert_eq!(super::is_fips(), cfg!(feature = "fips"));
        assert_eq!(version.contains("FIPS"), cfg!(feature = "fips"), "{version}");
    }
}
