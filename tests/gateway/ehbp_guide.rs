//! docs/guides/replace-ehbp-server.md, run as it is written, on ports of this test's own.

use sealway_testkit::guide;

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/guides/replace-ehbp-server.md");

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    guide::play(GUIDE, BINARY, folder.path(), &[8080, 9000]).unwrap();
    let published = std::fs::read(folder.path().join("published.bin")).unwrap();
    // The key of the identity file: clients that have it keep it.
    assert_eq!((published.len(), &published[..3]), (41, &b"\0\0\x20"[..]));
    assert_eq!(
        published[3..35],
        [
            0x07, 0xa3, 0x7c, 0xbc, 0x14, 0x20, 0x93, 0xc8, 0xb7, 0x55, 0xdc, 0x1b, 0x10, 0xe8, 0x6c, 0xb4, 0x26, 0x37,
            0x4a, 0xd1, 0x6a, 0xa8, 0x53, 0xed, 0x0b, 0xdf, 0xc0, 0xb2, 0xb8, 0x6d, 0x1c, 0x7c,
        ]
    );
}

#[test]
fn everything_that_the_guide_names_exists() {
    assert_eq!(guide::missing(GUIDE), [""; 0]);
}
