#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| clawhost_fuzz::components::run(data));
