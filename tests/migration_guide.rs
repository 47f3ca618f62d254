//! The guide to wire 3, run as it is written: its files are written, its commands run in their order in an empty folder,
//! against the gateway that they start. Ports are the test's own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::Path;
use std::process::{Command, Stdio};

use sealway_testkit::daemon::free_port;

const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
const GUIDE: &str = include_str!("../docs/guides/migrate-to-wire-3.md");

/// A fenced block: what follows its marks, its text, its line, and the name in backticks on the paragraph before it.
struct Block {
    info: String,
    text: String,
    line: usize,
    file: Option<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut open, mut before) = (false, "");
    for (index, line) in text.lines().enumerate() {
        match (open, line.strip_prefix("```")) {
            (false, Some(info)) => {
                let file = before.strip_prefix('`').and_then(|rest| rest.strip_suffix("`:")).map(str::to_owned);
                blocks.push(Block { info: info.to_owned(), text: String::new(), line: index + 1, file });
                (open, before) = (true, "");
            }
            (true, Some(_)) => open = false,
            (true, None) => blocks.last_mut().unwrap().text.push_str(&format!("{line}\n")),
            (false, None) if !line.is_empty() => before = line,
            (false, None) => {}
        }
    }
    blocks
}

/// The blocks as one script of the shell. The last command of a block `wait` may take a while; that of `refused` must fail, and
/// with a 403.
fn script(blocks: &[Block]) -> String {
    let mut script = String::from("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for block in blocks.iter().filter(|block| block.info.starts_with("sh")) {
        script.push_str(&format!("echo '### line {}' >&2\n", block.line));
        let text = block.text.replace(" &\n", " >>serve.log 2>&1 &\n");
        let last = text.trim_end();
        script.push_str(&match block.info.as_str() {
            "sh" => text,
            "sh wait" => {
                format!("for try in $(seq 600); do if {last} 2>try.log; then break; fi; sleep 0.1; done\n{last}\n")
            }
            "sh refused" => {
                format!("if {last} >refused.log 2>&1; then exit 1; fi\ncat refused.log\ngrep -q 403 refused.log\n")
            }
            other => panic!("line {}: what is `{other}`?", block.line),
        });
    }
    script
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [listener, admin] = [free_port().unwrap(), free_port().unwrap()].map(|port| format!("127.0.0.1:{port}"));
    let guide = GUIDE.replace("127.0.0.1:8080", &listener).replace("127.0.0.1:9901", &admin);
    let blocks = blocks(&guide);
    assert!(blocks.iter().filter(|block| block.info.starts_with("sh")).count() > 9);
    for block in blocks.iter().filter(|block| block.file.is_some()) {
        std::fs::write(folder.join(block.file.as_ref().unwrap()), &block.text).unwrap();
    }
    let programs = folder.join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(BINARY, programs.join("sealway")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script(&blocks)]).current_dir(folder).env_clear().env("PATH", path).env("HOME", folder);
    let done = shell.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let at = err.lines().rev().find(|line| line.starts_with("### ")).unwrap_or_default();
    assert!(done.status.success(), "the block at {at}: {}\n{out}\n{err}\n{}", done.status, read("serve.log"));
    let metrics = read("metrics.txt");
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in {metrics}")).parse::<f64>().unwrap()
    };
    for wire in [2, 3] {
        assert_eq!(value(&format!("sealway_inits_total{{wire=\"{wire}\"}}")), 1.0);
        // On wire 3 the end of a session is a sealed call too.
        assert!(value(&format!("sealway_sealed_calls_total{{wire=\"{wire}\"}}")) >= 1.0);
        for name in ["last_call_seconds", "last_init_seconds"] {
            assert!(value(&format!("sealway_{name}{{wire=\"{wire}\"}}")) > 1e9);
        }
    }
    assert_eq!(value("sealway_last_call_seconds{wire=\"1\"}"), 0.0);
}

#[test]
fn what_the_guide_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides");
    let mut missing = Vec::new();
    for part in GUIDE.split("](").skip(1) {
        let to = part.split(')').next().unwrap().split('#').next().unwrap();
        if !to.is_empty() && !to.starts_with("http") && !root.join(to).exists() {
            missing.push(to);
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
    assert!(root.join("../../vectors/reference/client3.py").is_file());
}
