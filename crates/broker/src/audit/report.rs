//! What `audit verify` says of a log.

use std::fmt::Write;
use std::path::PathBuf;

use super::verify::{Broken, verify_all};

/// Verifies files that go on from each other, the oldest first, and says what they hold. `last` is a hash that was noted as the
/// last one earlier: without it, a chain cannot show that its end was cut off.
///
/// # Errors
/// The first place where they do not hold.
pub fn report(paths: &[PathBuf], last: Option<&str>) -> Result<String, Broken> {
    let mut said = String::new();
    for (path, log) in paths.iter().zip(verify_all(paths, last)?) {
        let ((from, to), (first, until)) = (log.seq, &log.time);
        let _ = writeln!(said, "{}: {} lines hold, {from} to {to}, {first} to {until}", path.display(), log.lines);
        if log.begins_a_chain() {
            let _ = writeln!(said, "  begins a chain: when it was begun, no file was found that it could go on from");
        } else if path == &paths[0] {
            let _ = writeln!(said, "  goes on from the hash {}", log.previous);
        }
        for line in &log.recovered {
            let _ = writeln!(said, "  line {line} says that a line which was not whole was put aside");
        }
        if log.refused > 0 {
            let _ = writeln!(said, "  {} operations were refused because the log could not be written", log.refused);
        }
        if log.torn_bytes > 0 {
            let _ = writeln!(said, "  {} bytes follow that are no whole line", log.torn_bytes);
        }
        match &log.next {
            Some(next) => _ = writeln!(said, "  closed; goes on in the file with the id {next}"),
            None => _ = writeln!(said, "  last hash {}", log.last_hash),
        }
    }
    Ok(said.trim_end().to_owned())
}
