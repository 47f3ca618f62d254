//! The identity of the linked library.

use std::ffi::CStr;

use crate::sys;

/// Returns whether the library reports that it is the validated build and in its approved mode.
pub fn is_fips() -> bool {
    // SAFETY: takes no argument, reads a constant of the library.
    unsafe { sys::FIPS_mode() == 1 }
}

/// Returns the library's own version, such as `AWS-LC FIPS 3.1.0`: that of the linked build, not of the requested one.
pub fn version() -> String {
    // SAFETY: 0 is OPENSSL_VERSION; the function returns a static, null-terminated string for every argument.
    let text = unsafe { CStr::from_ptr(sys::OpenSSL_version(0)) };
    text.to_string_lossy().into_owned()
}

/// Returns the number of approved services of the module that this thread has completed: a service that is not approved does
/// not raise it.
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
