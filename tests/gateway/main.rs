//! The gateway as a real `sealway serve`: HTTP and its attacks, routes, upstreams, TLS, reloads, and the admin listener.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod acceptance;
mod admin;
mod admin_bounds;
mod dashboard;
mod ehbp;
mod ehbp_clients;
mod ehbp_guide;
mod ehbp_keys;
mod h2spec;
mod hand_over;
mod http1_corpus;
mod http2_corpus;
mod http2_idle;
mod http2_large;
mod http2_unread;
mod http_attacks;
mod http_details;
mod lite_gateway;
mod lite_gateway_faults;
mod metrics_help;
mod mle;
mod mle_broker;
mod mle_call;
mod mle_clients;
mod mle_fields;
mod mle_guide;
mod mle_keys;
mod mle_open_banking;
mod mle_open_banking_answers;
mod mle_secrecy;
mod mle_sign;
mod ohttp;
mod ohttp_chunks;
mod ohttp_clients;
mod ohttp_guide;
mod ohttp_relay;
mod one_shot;
mod one_shot_guide;
mod pass_through;
mod raw_http2;
mod reload;
mod reload_tls;
mod route_policies;
mod tls_ground;
mod tls_listener;
mod tls_scan;
mod tls_token;
mod traces;
mod upstream_streams;
mod upstream_tls;
mod upstreams;
mod websocket_h2;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
