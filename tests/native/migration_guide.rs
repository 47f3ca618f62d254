//! The first tutorial and the guide to wire 3, run as written: the test writes their files and runs their commands in order in an
//! empty folder, against the gateway that they start. The ports are the test's own.

use std::path::Path;

use sealway_testkit::daemon::{free_port, root};
use sealway_testkit::guide::{self, Block, blocks};

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/migrate-to-wire-3.md");
const TUTORIAL: &str = include_str!("../../docs/tutorials/first-sealed-request.md");

/// Returns the blocks as one shell script. The command of a block `wait` may take a while; that of `fails` must fail, that of
/// `refused` with a 403. Blocks `build` are left out: they need the network or a compiler.
fn script(blocks: &[Block]) -> String {
    let mut script = String::from("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for block in blocks.iter().filter(|block| block.info.starts_with("sh") && block.info != "sh build") {
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
            "sh fails" => format!("if {last}; then exit 1; fi\n"),
            other => panic!("line {}: what is `{other}`?", block.line),
        });
    }
    script
}

/// Writes the files of a page and runs its commands in the folder.
fn play(page: &str, folder: &Path) {
    let blocks = blocks(page);
    assert!(blocks.iter().filter(|block| block.info.starts_with("sh")).count() > 9);
    for block in blocks.iter().filter(|block| block.file.is_some()) {
        std::fs::write(folder.join(block.file.as_ref().unwrap()), &block.text).unwrap();
    }
    let mut shell = guide::shell(BINARY, folder, &script(&blocks)).unwrap();
    guide::run(&mut shell, &folder.join("serve.log")).unwrap();
}

#[test]
fn every_command_of_the_tutorial_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let [listener, service] = [free_port().unwrap(), free_port().unwrap()].map(|port| port.to_string());
    let page = TUTORIAL.replace("9000", &service).replace("localhost:3000", &format!("localhost:{listener}"));
    play(&page, folder.path());
    let log = std::fs::read_to_string(folder.path().join("serve.log")).unwrap();
    assert!(log.contains("received /api/orders {\"item\":\"book\"} from sealway-cli"), "{log}");
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [listener, admin] = [free_port().unwrap(), free_port().unwrap()].map(|port| format!("127.0.0.1:{port}"));
    let text = GUIDE.replace("127.0.0.1:8080", &listener).replace("127.0.0.1:9901", &admin);
    play(&text, folder);
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
fn everything_that_the_pages_name_exists() {
    assert_eq!([guide::missing(GUIDE), guide::missing(TUTORIAL)].concat(), [""; 0]);
    assert!(root().join("vectors/reference/client3.py").is_file());
}
