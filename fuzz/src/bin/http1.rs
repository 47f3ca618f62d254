#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::http1::http1(data));
