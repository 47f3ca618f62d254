//! The guide to wire 3, run as it is written: its files are written, its commands run in their order in an empty folder,
//! against the gateway that they start. Ports are the test's own.

use sealway_testkit::daemon::{free_port, root};
use sealway_testkit::guide::{self, Block, blocks};

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/migrate-to-wire-3.md");

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
    let text = GUIDE.replace("127.0.0.1:8080", &listener).replace("127.0.0.1:9901", &admin);
    let blocks = blocks(&text);
    assert!(blocks.iter().filter(|block| block.info.starts_with("sh")).count() > 9);
    for block in blocks.iter().filter(|block| block.file.is_some()) {
        std::fs::write(folder.join(block.file.as_ref().unwrap()), &block.text).unwrap();
    }
    let mut shell = guide::shell(BINARY, folder, &script(&blocks)).unwrap();
    guide::run(&mut shell, &folder.join("serve.log")).unwrap();
    let metrics = std::fs::read_to_string(folder.join("metrics.txt")).unwrap_or_default();
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
    assert_eq!(guide::missing(GUIDE), [""; 0]);
    assert!(root().join("vectors/reference/client3.py").is_file());
}
