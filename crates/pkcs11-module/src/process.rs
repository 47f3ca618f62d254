//! Facts about the process that loaded the module.

/// True if the process has more rights than its user, as a setuid program has: then the environment is not to be trusted.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: takes a number and reads a constant of the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
