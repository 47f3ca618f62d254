//! docs/guides/message-level-encryption.md, run as it is written, on ports of this test's own.

use sealway_testkit::guide;

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/message-level-encryption.md");

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let ports = [8080, 8081, 8082, 8083, 8084, 8085, 9000, 9001];
    guide::play(GUIDE, BINARY, folder.path(), &ports).unwrap();
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
