//! docs/guides/seal-one-request.md, run as it is written, on ports of this test's own.

use sealway_testkit::guide;

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/seal-one-request.md");

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    guide::play(GUIDE, BINARY, folder.path(), &[8080, 9000]).unwrap();
    for (file, text) in [("open.txt", "anonymous sent amount=77"), ("team.txt", "team-a sent amount=78")] {
        assert_eq!(std::fs::read_to_string(folder.path().join(file)).unwrap().trim_end(), text);
    }
}

#[test]
fn everything_that_the_guide_names_exists() {
    assert_eq!(guide::missing(GUIDE), [""; 0]);
}
