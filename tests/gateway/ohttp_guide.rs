//! docs/guides/oblivious-http.md, run as it is written, on ports of this test's own.

use sealway_testkit::daemon::free_port;
use sealway_testkit::guide::{self, blocks};

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/oblivious-http.md");

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let ports: Vec<(u16, u16)> = [8080, 8081, 9000].map(|written| (written, free_port().unwrap())).into();
    let on_ports = |text: &str| {
        ports
            .iter()
            .fold(text.to_owned(), |text, (written, taken)| text.replace(&written.to_string(), &taken.to_string()))
    };
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    let mut files = Vec::new();
    for block in blocks(GUIDE) {
        if let Some(file) = &block.file {
            std::fs::write(folder.path().join(file), on_ports(&block.text)).unwrap();
            files.push(file.clone());
        }
        if block.info == "sh" {
            // Processes that it starts must not hold this test's output open.
            let text = on_ports(&block.text).replace(" &\n", " >>background.log 2>&1 &\n");
            script.push_str(&format!("echo '### line {}' >&2\n{text}", block.line));
        }
    }
    assert_eq!(files, ["service.py", "gateway.yaml", "relay.yaml"]);
    let mut shell = guide::shell(BINARY, folder.path(), &script).unwrap();
    guide::run(&mut shell, &folder.path().join("background.log")).unwrap();
    let (list, bare) = (folder.path().join("list"), folder.path().join("bare"));
    assert!(std::fs::metadata(list).unwrap().len() > 41 && std::fs::metadata(bare).unwrap().len() > 41);
}

#[test]
fn everything_that_the_guide_names_exists() {
    assert_eq!(guide::missing(GUIDE), [""; 0]);
}
