//! Planted faults: each must be reported, or the sanitizer shows nothing.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::{C_FLAGS, RUST_FLAGS, runtime};
use crate::shell;

/// A planted fault of the program: its argument, what it is, and words of the report.
const FAULTS: [[&str; 3]; 4] = [
    ["read", "a read behind a buffer", "heap-buffer-overflow"],
    ["freed", "a read of freed memory", "heap-use-after-free"],
    ["c", "a read in C behind a buffer of Rust", "heap-buffer-overflow"],
    ["leak", "memory that nothing frees", "detected memory leaks"],
];
const OF_LIBRARY: [&str; 2] =
    ["a read behind a buffer in a library that a program without instrumentation loads", "heap-buffer-overflow"];

/// Compiles the program and the library with the faults, and returns a row for each: the fault, and the line of its report.
pub(super) fn report() -> anyhow::Result<Vec<Vec<String>>> {
    let folder = tempfile::tempdir()?;
    let sources = [
        ("faults.rs", include_str!("faults/faults.rs")),
        ("library.rs", include_str!("faults/library.rs")),
        ("behind.c", include_str!("faults/behind.c")),
        ("loader.c", include_str!("faults/loader.c")),
    ];
    for (name, text) in sources {
        std::fs::write(folder.path().join(name), text)?;
    }
    let run = |program: &str, arguments: &str| {
        let mut command = shell::command(program);
        shell::run(command.current_dir(folder.path()).args(arguments.split(' ')))
    };
    run("cc", &format!("{C_FLAGS} -O1 -c behind.c -o behind.o"))?;
    run("ar", "rcs libbehind.a behind.o")?;
    run("cc", "-O1 loader.c -o loader -ldl")?;
    let rust = format!("+nightly -g {RUST_FLAGS} --edition 2024");
    run("rustc", &format!("{rust} faults.rs -L . -l static=behind"))?;
    run("rustc", &format!("{rust} --crate-type cdylib library.rs"))?;

    let faults = folder.path().join("faults");
    ensure!(program(&faults).output()?.status.success(), "the program without a fault fails");
    let mut rows = Vec::new();
    for [argument, fault, words] in FAULTS {
        rows.push(row(program(&faults).arg(argument), fault, words)?);
    }
    let mut loader = program(&folder.path().join("loader"));
    loader.arg(folder.path().join("liblibrary.so")).env("LD_PRELOAD", runtime()?);
    rows.push(row(&mut loader, OF_LIBRARY[0], OF_LIBRARY[1])?);
    Ok(rows)
}

fn program(path: &Path) -> Command {
    let mut command = shell::command(path);
    command.env_remove("ASAN_OPTIONS");
    command
}

fn row(command: &mut Command, fault: &str, words: &str) -> anyhow::Result<Vec<String>> {
    let output = command.output()?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = report.lines().find(|line| line.contains(words)).filter(|_| !output.status.success());
    let line = line.with_context(|| format!("not reported: {fault}\n{report}"))?;
    // Without the process id and the addresses.
    let line = line.split_once("ERROR: ").map_or(line, |(_, line)| line);
    Ok(vec![fault.to_owned(), line.split(" on address").next().unwrap_or(line).to_owned()])
}
