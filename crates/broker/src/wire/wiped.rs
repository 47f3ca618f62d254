//! A message whose secrets are wiped when it is dropped, however its call ends. What the connection's buffers held of it before
//! it was decoded is beyond our reach.

use std::ops::Deref;

/// The message, and what wipes it.
pub(super) struct Wiped<T> {
    message: T,
    wipe: fn(&mut T),
}

impl<T> Wiped<T> {
    pub(super) fn new(message: T, wipe: fn(&mut T)) -> Wiped<T> {
        Wiped { message, wipe }
    }
}

impl<T> Deref for Wiped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.message
    }
}

impl<T> Drop for Wiped<T> {
    fn drop(&mut self) {
        (self.wipe)(&mut self.message);
    }
}
