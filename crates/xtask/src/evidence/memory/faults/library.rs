// Compiled by the job with the flags of the module: the fault must be reported in a program that is not instrumented.

/// Reads the byte behind a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn fault() -> i32 {
    let bytes = std::hint::black_box(vec![1_u8; 16].into_boxed_slice());
    // SAFETY: none, this is the fault.
    i32::from(unsafe { bytes.as_ptr().add(bytes.len()).read() })
}
