//! Another implementation, which checks less: what ours takes it takes too, and reads the same.

use std::io::Cursor;

use bhttp::Mode;
use proptest::prelude::*;
use sealway_proto::bhttp::{Control, Field, Framing};

use super::examples::{ANSWER_INDETERMINATE, ANSWER_KNOWN, REQUEST_INDETERMINATE, REQUEST_KNOWN, REQUEST_OHTTP};
use super::{Message, hex, read_both, write};

const EXAMPLES: [(&str, bool); 5] = [
    (REQUEST_KNOWN, true),
    (REQUEST_INDETERMINATE, true),
    (REQUEST_OHTTP, true),
    (ANSWER_INDETERMINATE, false),
    (ANSWER_KNOWN, false),
];

fn pairs<'a>(fields: impl IntoIterator<Item = &'a bhttp::Field>) -> Vec<Field> {
    let pair = |field: &bhttp::Field| {
        let name = String::from_utf8(field.name().to_vec()).expect("a name that ours took");
        Field::new(&name.to_ascii_lowercase(), field.value())
    };
    fields.into_iter().map(pair).collect()
}

fn assert_same(bytes: &[u8], ours: &Message) {
    // The oracle does not take all cuts that RFC 9292 section 3.8 allows; what is missing has the length zero.
    let theirs = bhttp::Message::read_bhttp(&mut Cursor::new(bytes))
        .or_else(|_| bhttp::Message::read_bhttp(&mut Cursor::new([bytes, &[0; 3]].concat())))
        .expect("the oracle takes what ours takes");
    let head = ours.head.as_ref().expect("a message has a head");
    match &head.control {
        Control::Request { method, scheme, authority, path } => {
            let control = theirs.control();
            assert_eq!(control.method(), Some(method.as_bytes()));
            assert_eq!(control.scheme().map(<[u8]>::to_ascii_lowercase), Some(scheme.clone().into_bytes()));
            assert_eq!(control.authority().unwrap_or_default(), authority.as_bytes());
            assert_eq!(control.path(), Some(path.as_bytes()));
        }
        Control::Answer(status) => assert_eq!(theirs.control().status().map(|status| status.code()), Some(*status)),
    }
    assert_eq!(theirs.informational().len(), ours.interims.len());
    assert_eq!(pairs(theirs.header().fields()), head.fields);
    assert_eq!(theirs.content(), ours.content);
    assert_eq!(pairs(theirs.trailer().fields()), ours.trailers);
}

#[test]
fn the_oracle_reads_the_examples_and_writes_what_ours_reads() {
    for (text, is_request) in EXAMPLES {
        let bytes = hex(text);
        let ours = read_both(&bytes, is_request).unwrap();
        assert_same(&bytes, &ours);
        let theirs = bhttp::Message::read_bhttp(&mut Cursor::new(&bytes)).unwrap();
        for (mode, framing) in
            [(Mode::KnownLength, Framing::Known), (Mode::IndeterminateLength, Framing::Indeterminate)]
        {
            let mut written = Vec::new();
            theirs.write_bhttp(mode, &mut written).unwrap();
            assert_eq!(read_both(&written, is_request).unwrap(), ours);
            assert_same(&write(&ours, framing), &ours);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]
    #[test]
    fn what_ours_takes_of_a_changed_example_the_oracle_reads_alike(
        which in 0..EXAMPLES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let (text, is_request) = EXAMPLES[which];
        let mut bytes = hex(text);
        for (at, with) in changes {
            let at = at.index(bytes.len());
            bytes[at] = with;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(ours) = read_both(&bytes, is_request) {
            assert_same(&bytes, &ours);
        }
    }
}
