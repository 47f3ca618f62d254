#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealway_fuzz::pkcs11::pkcs11_uri(data));
