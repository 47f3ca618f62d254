//! Remains of a key in memory after its owner was dropped.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use sealway_proto::session::SessionKey;
use sealway_testkit::native_vectors::{NativeScenario, load_native};

use super::calls::session;
use super::inits::client_session;
use super::providers;

/// Reads bytes of this process at any address.
fn memory(address: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, address).unwrap();
    bytes
}

/// Reads the place of a key before and after its owner is dropped. An allocator may write to freed memory, but not a part of
/// the key.
fn assert_wiped<T>(owner: T, key: impl Fn(&T) -> &SessionKey) {
    let place = format!("{:p}", key(&owner).expose());
    let address = u64::from_str_radix(place.trim_start_matches("0x"), 16).unwrap();
    let bytes = *key(&owner).expose();
    assert!(memory(address) == bytes && bytes != [0; 32]);
    drop(owner);
    let left = memory(address);
    assert!(!bytes.windows(4).any(|part| left.windows(4).any(|other| part == other)), "the key is still there");
}

#[test]
fn the_place_of_a_sessions_key_holds_nothing_of_it_once_the_session_is_gone() {
    let request = load_native().unwrap().into_iter().find_map(|vector| match vector.scenario {
        NativeScenario::Request(request) => Some(request),
        _ => None,
    });
    let request = request.unwrap();
    providers::with_each(|_| {
        assert_wiped(Box::new(SessionKey::from_bytes([0xa7; 32])), |key| key);
        assert_wiped(Box::new(SessionKey::from_bytes([0xa7; 32]).clone()), |key| key);
        assert_wiped(Box::new(client_session(&request.client)), |session| session.expose_secret());
        let owned: Arc<_> = session(&request.session);
        let shared = owned.clone();
        drop(owned);
        assert_wiped(shared, |session| &session.record().key);
    });
}
