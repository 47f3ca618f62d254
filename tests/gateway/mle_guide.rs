//! docs/guides/message-level-encryption.md, run as it is written, on ports of this test's own.

use std::path::Path;

use sealway_testkit::daemon::free_port;
use sealway_testkit::guide::{self, Block, blocks};

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/message-level-encryption.md");

/// Returns the text with the ports of this test.
fn on_ports(text: &str, ports: &[(u16, u16)]) -> String {
    ports.iter().fold(text.to_owned(), |text, (written, taken)| text.replace(&written.to_string(), &taken.to_string()))
}

/// Returns one script of all blocks, so that background processes continue.
fn script(blocks: &[Block], ports: &[(u16, u16)]) -> String {
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    for block in blocks.iter().filter(|block| block.info == "sh") {
        // Processes that it starts must not hold this test's output open.
        let text = on_ports(&block.text, ports).replace(" &\n", " >>background.log 2>&1 &\n");
        script.push_str(&format!("echo '### line {}' >&2\n{text}", block.line));
    }
    script
}

fn write_files(blocks: &[Block], folder: &Path, ports: &[(u16, u16)]) {
    for block in blocks {
        if let Some(file) = &block.file {
            std::fs::write(folder.join(file), on_ports(&block.text, ports)).unwrap();
        }
    }
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(GUIDE);
    let files: Vec<_> = blocks.iter().filter_map(|block| block.file.as_deref()).collect();
    assert_eq!(
        files,
        [
            "service.py",
            "mle.yaml",
            "fields.yaml",
            "outbound.yaml",
            "scheme.py",
            "signed.yaml",
            "banking.yaml",
            "Profiles.yaml",
            "broker.yaml"
        ]
    );
    let ports: Vec<(u16, u16)> =
        [8080, 8081, 8082, 8083, 8084, 8085, 9000, 9001].map(|written| (written, free_port().unwrap())).into();
    write_files(&blocks, folder.path(), &ports);
    let mut shell = guide::shell(BINARY, folder.path(), &script(&blocks, &ports)).unwrap();
    guide::run(&mut shell, &folder.path().join("background.log")).unwrap();
    for file in [
        "opened.json",
        "called.json",
        "unwrapped.json",
        "fields-opened.json",
        "returned.json",
        "mc.json",
        "visa.json",
        "banking.json",
    ] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(text, r#"{"pan":"4111111111111111","amount":12.50}"#, "{file}");
    }
}

#[test]
fn everything_that_the_guide_names_exists() {
    assert_eq!(guide::missing(GUIDE), [""; 0]);
}
