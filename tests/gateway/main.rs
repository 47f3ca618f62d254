//! The gateway as a real `sealway serve`: HTTP and its attacks, routes, upstreams, TLS, reloads, and the admin listener.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod reload {
    pub(crate) fn reload(server: &mut sealway_testkit::process::Server, config: &str, word: &str) -> serde_json::Value {
        let from = server.log().len();
        server.write_config(config).unwrap();
        server.hang_up().unwrap();
        server.wait_for_log(from, |line| line["message"].as_str().is_some_and(|text| text.starts_with(word))).unwrap()
    }
}
mod tls_ground;
mod tls_token;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
