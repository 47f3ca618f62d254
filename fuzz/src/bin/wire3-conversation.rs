#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::conversation::wire3_conversation(data));
