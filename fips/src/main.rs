//! The broker over a validated module, as a program of its own: it looks at the module before it looks at anything else.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its user")]

use std::process::ExitCode;

use sealway_broker::module;

fn main() -> ExitCode {
    // First of all, and before there is a socket: another module than the promised one serves nobody.
    if let Err(reason) = module::check() {
        eprintln!("sealway: {reason}");
        return ExitCode::from(module::EXIT_CODE);
    }
    println!("sealway {}\nThis program uses a validated module.\n{}", env!("CARGO_PKG_VERSION"), module::module());
    ExitCode::SUCCESS
}
