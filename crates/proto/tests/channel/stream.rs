//! Properties: records carry the same bytes, however a stream is cut into records, and whatever stands between them.

use proptest::prelude::*;
use sealway_proto::channel::{Content, RecordContent, Suite};

use crate::ends::{connected_with, settings};

fn suites() -> impl Strategy<Value = Suite> {
    prop::sample::select(Suite::all().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_of_a_stream_gives_the_same_stream(
        suite in suites(),
        stream in prop::collection::vec(any::<u8>(), 0..5000),
        cuts in prop::collection::vec((0_usize..1200, 0_u8..4, 0_u64..40), 1..30),
        pad_to in 0_usize..300,
        rekey_after_records in 2_u64..6,
    ) {
        let (mut client, server) = settings(suite);
        (client.pad_to, client.rekey_after_records, client.rekey_after_ms) = (pad_to, rekey_after_records, 100);
        let (mut client, mut server) = connected_with((client, server));
        let (mut rest, mut got, mut now_ms) = (stream.as_slice(), Vec::new(), 0);
        for (len, between, waited_ms) in cuts.into_iter().chain([(stream.len(), 3, 1)]) {
            let (part, after) = rest.split_at(len.min(rest.len()));
            (rest, now_ms) = (after, now_ms + waited_ms);
            let mut record = Vec::new();
            client.sealer.seal(Content::Data, part, &mut record, now_ms).unwrap();
            match server.opener.open(&mut record).unwrap() {
                RecordContent::Data(bytes) => got.extend_from_slice(bytes),
                other => prop_assert!(false, "{other:?}"),
            }
            let content = match between {
                0 => Content::Ping(0),
                1 => Content::Rekey,
                _ => continue,
            };
            let mut record = Vec::new();
            client.sealer.seal(content, b"", &mut record, now_ms).unwrap();
            prop_assert!(matches!(server.opener.open(&mut record).unwrap(), RecordContent::Ping(0) | RecordContent::Rekeyed));
        }
        prop_assert_eq!(got, stream);
    }
}
