#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::bhttp::bhttp(data));
