//! Client requests to valgrind's memcheck: marking secrets, and declaring what depends on them and is public by design.
//!
//! A request is a sequence of instructions that changes nothing on a processor and that valgrind recognises. The numbers are those
//! of `valgrind.h` and `memcheck.h`, which are a stable interface. Outside of valgrind each function has no effect.
#![allow(unsafe_code, reason = "a request to valgrind is a sequence of instructions")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const RUNNING_ON_VALGRIND: usize = 0x1001;
/// The first request of memcheck: `'M'` and `'C'` in the upper bytes.
const MEMCHECK: usize = 0x4d43_0000;
const MAKE_MEM_UNDEFINED: usize = MEMCHECK + 1;
const MAKE_MEM_DEFINED: usize = MEMCHECK + 2;
const GET_VBITS: usize = MEMCHECK + 8;

/// Bytes that depended on a secret where they were declared, since [`begin`].
static DECLARED: AtomicUsize = AtomicUsize::new(0);
static REASONS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Sends a request, and returns its result; 0 outside of valgrind.
#[cfg(target_arch = "x86_64")]
fn request(number: usize, one: usize, two: usize, three: usize) -> usize {
    let arguments = [number, one, two, three, 0, 0];
    let mut result = 0_usize;
    // SAFETY: the rotations add up to 128 bits and `xchg` swaps a register with itself, so the sequence changes the flags alone.
    // Valgrind reads `arguments`, reads the bits of validity of the ranges that they name, or changes those bits, writes `result`,
    // and for GET_VBITS writes the second range, which the caller owns.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") result,
        );
    }
    result
}

/// No other architecture has a sequence here: nothing runs under valgrind then.
#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: usize, _: usize, _: usize) -> usize {
    0
}

/// Returns whether this process runs under valgrind.
pub(crate) fn is_valgrind() -> bool {
    request(RUNNING_ON_VALGRIND, 0, 0, 0) != 0
}

/// Marks bytes as a secret.
pub(crate) fn mark(bytes: &mut [u8]) {
    request(MAKE_MEM_UNDEFINED, bytes.as_mut_ptr().addr(), bytes.len(), 0);
}

/// Returns the bytes, marked as a secret.
pub(crate) fn secret<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    mark(&mut bytes);
    bytes
}

/// Returns a copy of the bytes, marked as a secret.
pub(crate) fn secret_of(bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    mark(&mut copy);
    copy
}

/// Declares bytes, and their number, public although they depend on a secret, for a reason that the report names. Returns them.
pub(crate) fn declare<'a>(bytes: &'a [u8], reason: &'static str) -> &'a [u8] {
    let len = [bytes.len()];
    request(MAKE_MEM_DEFINED, len.as_ptr().addr(), size_of_val(&len), 0);
    let len = std::hint::black_box(&len)[0];
    // SAFETY: the pointer and the length are those of `bytes`.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) };
    DECLARED.fetch_add(count_secret(bytes), Ordering::Relaxed);
    REASONS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(reason);
    request(MAKE_MEM_DEFINED, bytes.as_ptr().addr(), bytes.len(), 0);
    bytes
}

/// Declares the accept bit of a check.
pub(crate) fn declare_bit(bit: bool, reason: &'static str) -> bool {
    let byte = [u8::from(bit)];
    declare(&byte, reason);
    std::hint::black_box(&byte)[0] != 0
}

/// Returns the number of bytes that depend on a secret.
fn count_secret(bytes: &[u8]) -> usize {
    let mut undefined = vec![0_u8; bytes.len()];
    request(GET_VBITS, bytes.as_ptr().addr(), undefined.as_mut_ptr().addr(), bytes.len());
    std::hint::black_box(&mut undefined).iter().filter(|bits| **bits != 0).count()
}

/// Begins a case: no byte is declared yet.
pub(crate) fn begin() {
    DECLARED.store(0, Ordering::Relaxed);
}

/// Returns the number of bytes that depended on a secret where they were declared, since [`begin`].
pub(crate) fn declared_bytes() -> usize {
    DECLARED.load(Ordering::Relaxed)
}

/// Returns the reasons of all declarations of this process.
pub(crate) fn reasons() -> Vec<&'static str> {
    REASONS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter().copied().collect()
}
