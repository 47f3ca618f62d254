//! Random bytes in small pieces: each thread draws many at once, for a draw costs more than what it fills.

use std::cell::RefCell;

use sealway_proto::crypto::RandomPool;

thread_local! {
    static POOL: RefCell<RandomPool> = RefCell::default();
}

/// Gives this thread's pool to `take`.
pub(crate) fn with_pool<T>(take: impl FnOnce(&mut RandomPool) -> T) -> T {
    POOL.with_borrow_mut(take)
}
