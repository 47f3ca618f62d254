#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::one_shot::wire4_open(data));
