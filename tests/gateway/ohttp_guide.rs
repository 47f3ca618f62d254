//! docs/guides/oblivious-http.md, run as it is written, on ports of this test's own.

use sealway_testkit::guide;

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/oblivious-http.md");

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    guide::play(GUIDE, BINARY, folder.path(), &[8080, 8081, 9000]).unwrap();
    let (list, bare) = (folder.path().join("list"), folder.path().join("bare"));
    assert!(std::fs::metadata(list).unwrap().len() > 41 && std::fs::metadata(bare).unwrap().len() > 41);
}

#[test]
fn everything_that_the_guide_names_exists() {
    assert_eq!(guide::missing(GUIDE), [""; 0]);
}
