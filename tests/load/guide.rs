//! The guide to load testing, run as written: the test writes its files and runs its commands in order in one empty folder,
//! against the servers that it starts. Only ports, times and sizes are made smaller.

use std::path::Path;
use std::time::Instant;

use sealway_testkit::daemon::free_port;
use sealway_testkit::guide::{self, Block, blocks};

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/load-testing.md");

/// Replacements that shorten the run, as pairs of old and new text. A word is replaced in commands and files alike.
fn short(text: &str, ports: &[(u16, u16)]) -> String {
    let mut text = text.to_owned();
    for (written, taken) in ports {
        text = text.replace(&format!(":{written}"), &format!(":{taken}"));
    }
    let times = [
        ("--duration 10s", "--duration 1s"),
        ("--duration 5s", "--duration 1s"),
        ("--duration 2s", "--duration 300ms"),
        ("duration: 2s", "duration: 300ms"),
        ("--duration 5 ", "--duration 1 "),
        ("--warm-up 2s", "--warm-up 300ms"),
        ("--run-time 2s", "--run-time 200ms --warm-up 100ms --repeats 1 --points 3"),
        ("--run-time 1s", "--run-time 200ms --warm-up 100ms --repeats 1"),
        ("--points 6", "--points 3"),
        ("ramp:300@5s,300@10s,50@5s", "ramp:300@500ms,300@500ms,50@500ms"),
        ("--preset poc", "--preset poc --burst 100 --every 500ms --times 2"),
        ("--benchmark 200", "--benchmark 20"),
        ("--every 2s", "--every 300ms"),
        ("--steady 10s", "--steady 300ms"),
        ("--steady 2s", "--steady 300ms"),
        ("--steady 1s", "--steady 0"),
        ("--channels 100,200,400", "--channels 10,20,40"),
        ("--max-channels 250", "--max-channels 25"),
        ("--channels 200", "--channels 20"),
        ("--channels 100", "--channels 20"),
        ("sealway demo &", "sealway demo --port PORT &"),
    ];
    for (written, shorter) in times {
        text = text.replace(written, shorter);
    }
    let demo = ports.iter().find(|(written, _)| *written == 3000).unwrap().1;
    // A debug build on two busy cores cannot meet the goals of a release.
    text.replace("PORT", &demo.to_string()).replace("p99<250ms", "p99<20s").replace("p99<500ms", "p99<20s")
}

/// Returns one script of all blocks, so that background processes continue. It prints the line of each block.
fn script(blocks: &[Block], ports: &[(u16, u16)]) -> String {
    let mut script = String::from("trap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    for block in blocks.iter().filter(|block| block.info.starts_with("sh")) {
        let text = short(&block.text, ports);
        // Processes that it starts must not hold this test's output open.
        let text = text.replace(" &\n", " >>background.log 2>&1 &\n");
        script.push_str("set -e\n");
        let ends = if block.info == "sh verdict" { "|| [ $? -eq 1 ]" } else { "" };
        for command in commands(&text) {
            let background = command.ends_with('&');
            let tail = if background { "" } else { ends };
            script.push_str(&format!("echo '### line {}' >&2\n{command} {tail}\n", block.line));
        }
    }
    script
}

/// Returns the commands, each with its continued lines.
fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = vec![String::new()];
    for line in text.lines() {
        let last = commands.last_mut().unwrap();
        match line.strip_suffix('\\') {
            Some(more) => last.push_str(more),
            None => {
                last.push_str(line);
                commands.push(String::new());
            }
        }
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
}

fn run(blocks: &[Block], folder: &Path) {
    let ports: Vec<(u16, u16)> =
        [3000, 7000, 8080, 8090, 8091, 8443, 9000, 9443].map(|written| (written, free_port().unwrap())).into();
    for block in blocks.iter().filter(|block| block.file.is_some()) {
        let file = folder.join(block.file.as_ref().unwrap());
        std::fs::write(file, short(&block.text, &ports)).unwrap();
    }
    let mut shell = guide::shell(BINARY, folder, &script(blocks, &ports)).unwrap();
    // The guide relies on the default ports of a matrix.
    for (name, scheme, written) in [("HTTP", "http", 8080), ("HTTPS", "https", 8443), ("MTLS", "https", 9443)] {
        let taken = ports.iter().find(|(port, _)| *port == written).unwrap().1;
        shell.env(format!("SEALWAY_LOAD_{name}_URL"), format!("{scheme}://localhost:{taken}/"));
    }
    guide::run(&mut shell, &folder.join("background.log")).unwrap();
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(GUIDE);
    let count = blocks.iter().filter(|block| block.info.starts_with("sh")).count();
    assert!(count > 12, "only {count} blocks of commands were found");
    let begin = Instant::now();
    run(&blocks, folder.path());
    println!("{:?}", begin.elapsed());
    for file in [
        "before.json",
        "before.html",
        "before.md",
        "seconds.csv",
        "load.xml",
        "mle.json",
        "one-shot.json",
        "tuned.json",
        "matrix.md",
        "after.json",
        "channels.json",
    ] {
        let len = std::fs::metadata(folder.path().join(file)).map(|data| data.len()).unwrap_or_default();
        assert!(len > 100, "{file} has {len} bytes");
    }
}

#[test]
fn everything_that_the_guide_names_exists() {
    assert_eq!(guide::missing(GUIDE), [""; 0]);
}
