#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::hpack::hpack_round_trip(data));
