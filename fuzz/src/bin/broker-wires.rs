#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::broker_wires::broker_wires(data));
