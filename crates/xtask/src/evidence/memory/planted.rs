// Compiled by the runner with the flags of the tests: each fault must be reported.
unsafe extern "C" {
    fn read_behind(bytes: *const u8, len: usize) -> u8;
}

fn main() {
    let bytes = std::hint::black_box(vec![1_u8; 16].into_boxed_slice());
    match std::env::args().nth(1).as_deref() {
        Some("rust") => println!("{}", unsafe { bytes.as_ptr().add(bytes.len()).read() }),
        Some("c") => println!("{}", unsafe { read_behind(bytes.as_ptr(), bytes.len()) }),
        Some("leak") => std::mem::forget(std::hint::black_box(vec![1_u8; 77])),
        _ => println!("no fault"),
    }
}
