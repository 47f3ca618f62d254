#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::broker_transit::body(data));
