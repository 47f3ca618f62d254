#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::sealed::wire1_open(data));
