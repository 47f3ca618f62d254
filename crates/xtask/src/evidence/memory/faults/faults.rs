// Compiled by the job with the flags of the tests: each fault must be reported.
unsafe extern "C" {
    fn read_behind(bytes: *const u8, len: usize) -> u8;
}

fn main() {
    let bytes = std::hint::black_box(vec![1_u8; 16].into_boxed_slice());
    let (start, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: none, these are the faults.
    match std::env::args().nth(1).as_deref() {
        Some("read") => println!("{}", unsafe { start.add(len).read() }),
        Some("freed") => {
            drop(bytes);
            println!("{}", unsafe { start.read() });
        }
        Some("c") => println!("{}", unsafe { read_behind(start, len) }),
        Some("leak") => std::mem::forget(std::hint::black_box(vec![1_u8; 77])),
        _ => println!("no fault"),
    }
}
