//! The conformance driver of Rust: a JSON object a line in, one out. `sdk/conformance/README.md`.

use std::io::{BufRead, Write};

use sealway_testkit::conformance::Driver;

fn main() -> std::io::Result<()> {
    let mut driver = Driver::default();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{}", driver.answer(&line?))?;
        out.flush()?;
    }
    Ok(())
}
