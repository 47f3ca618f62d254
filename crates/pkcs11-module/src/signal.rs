//! SIGPIPE during a call: a write to a broker that has gone must give an error, and not end the program.

use std::mem::MaybeUninit;

/// Blocks SIGPIPE in this thread while it exists, and takes back the one that was caused meanwhile.
pub(crate) struct BlockedPipe(Option<libc::sigset_t>);

fn only_pipe() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initialises the set, the second adds a valid signal.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

impl BlockedPipe {
    /// Blocks the signal. One that was pending before stays pending.
    pub(crate) fn new() -> BlockedPipe {
        let mut pending = MaybeUninit::uninit();
        // SAFETY: the call initialises the set; on a failure it is not read.
        let is_pending = unsafe {
            libc::sigpending(pending.as_mut_ptr()) == 0 && libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1
        };
        if is_pending {
            return BlockedPipe(None);
        }
        let mut before = MaybeUninit::uninit();
        // SAFETY: the set is valid; the call initialises the former mask, which is read on success alone.
        let mask = unsafe {
            (libc::pthread_sigmask(libc::SIG_BLOCK, &only_pipe(), before.as_mut_ptr()) == 0)
                .then(|| before.assume_init())
        };
        BlockedPipe(mask)
    }
}

impl Drop for BlockedPipe {
    fn drop(&mut self) {
        let Some(mask) = self.0 else { return };
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: all three are valid; NULL is "no details" and "no former mask".
        unsafe {
            libc::sigtimedwait(&only_pipe(), std::ptr::null_mut(), &none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
        }
    }
}
