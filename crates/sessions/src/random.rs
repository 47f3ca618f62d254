//! Random bytes in small pieces: each thread draws many at once, because a draw costs more than the copy.

use std::cell::RefCell;

use sealway_proto::crypto::RandomPool;

thread_local! {
    static POOL: RefCell<RandomPool> = RefCell::default();
}

/// Calls `take` with this thread's pool.
pub(crate) fn with_pool<T>(take: impl FnOnce(&mut RandomPool) -> T) -> T {
    POOL.with_borrow_mut(take)
}
