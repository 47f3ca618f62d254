//! The files of deploy/prometheus and deploy/grafana with a real Prometheus that scrapes real services: alerts, dashboards, and
//! the runbook of each alert. [`soak`] runs all services for long, with a fault each minute.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod alerts;
mod dashboards;
mod faults;
mod files;
mod services;
mod soak;
mod traffic;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
