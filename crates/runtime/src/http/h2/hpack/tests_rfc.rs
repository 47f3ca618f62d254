//! The examples of RFC 7541 appendix C.

use bytes::BytesMut;

use super::tests::{bytes_of, decode_text, encode_text};
use super::{Decoder, Encoder};

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];
/// Sizes of the dynamic table after each of the requests.
const REQUEST_SIZES: [usize; 3] = [57, 110, 164];

const RESPONSES: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ],
];
/// Sizes of the dynamic table after each of the responses, with a maximum of 256.
const RESPONSE_SIZES: [usize; 3] = [222, 222, 215];

const C4: [&str; 3] = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
];

fn decode_all(table_max: usize, blocks: [&str; 3], lists: [&[(&str, &str)]; 3], sizes: [usize; 3]) {
    let mut decoder = Decoder::new(table_max);
    for ((block, list), size) in blocks.into_iter().zip(lists).zip(sizes) {
        let fields = decode_text(&mut decoder, &bytes_of(block)).unwrap();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(fields, list);
        assert_eq!(decoder.table().size(), size);
    }
}

#[test]
fn single_fields_of_appendix_c2_are_decoded() {
    for (block, name, value, size) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key", "custom-header", 55),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path", "/sample/path", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password", "secret", 0),
        ("82", ":method", "GET", 0),
    ] {
        let mut decoder = Decoder::new(4096);
        assert_eq!(decode_text(&mut decoder, &bytes_of(block)).unwrap(), [(name.to_owned(), value.to_owned())]);
        assert_eq!(decoder.table().size(), size, "{name}");
    }
}

#[test]
fn requests_of_appendix_c3_are_decoded() {
    let blocks = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    decode_all(4096, blocks, REQUESTS, REQUEST_SIZES);
}

#[test]
fn requests_of_appendix_c4_are_decoded() {
    decode_all(4096, C4, REQUESTS, REQUEST_SIZES);
}

#[test]
fn requests_are_encoded_as_in_appendix_c4() {
    let mut encoder = Encoder::new();
    for ((block, list), size) in C4.into_iter().zip(REQUESTS).zip(REQUEST_SIZES) {
        assert_eq!(encode_text(&mut encoder, list), bytes_of(block));
        assert_eq!(encoder.index().size(), size);
    }
}

#[test]
fn responses_of_appendix_c5_are_decoded() {
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 \
         474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 \
         666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 \
         3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    decode_all(256, blocks, RESPONSES, RESPONSE_SIZES);
}

#[test]
fn responses_of_appendix_c6_are_decoded() {
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 \
         63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
         b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    decode_all(256, blocks, RESPONSES, RESPONSE_SIZES);
}

#[test]
fn steady_fields_are_encoded_as_in_appendix_c6() {
    // The date, the location and the cookie do not enter the table at first: the policy differs from the example there.
    let mut encoder = Encoder::new();
    encoder.set_peer_table_max(256);
    let first = encode_text(&mut encoder, &RESPONSES[0][..2]);
    assert_eq!(first, bytes_of("3fe1 01 4882 6402 5885 aec3 771a 4b"));
    // The Huffman code of 307 is not shorter than its text.
    assert_eq!(encode_text(&mut encoder, &RESPONSES[1][..2]), bytes_of("4803 3330 37 bf"));
    assert_eq!(encode_text(&mut encoder, &[("content-encoding", "gzip")]), bytes_of("5a83 9bd9 ab"));
    let cookie = encode_text(&mut encoder, &RESPONSES[2][5..]);
    let text = bytes_of(
        "ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
         3d50 07",
    );
    assert_eq!(cookie[..2], bytes_of("0f28"));
    assert_eq!(cookie[2..], text);
}

#[test]
fn integers_of_appendix_c1_are_encoded() {
    for (first, bits, value, expected) in [(0, 5, 10, "0a"), (0, 5, 1337, "1f 9a 0a"), (0, 8, 42, "2a")] {
        let mut out = BytesMut::new();
        super::encoder::put_integer(&mut out, first, bits, value);
        assert_eq!(out, bytes_of(expected), "{value}");
    }
}

#[test]
fn integers_of_appendix_c1_are_decoded() {
    // 10 and 1337 as sizes of the dynamic table, whose prefix has 5 bits; 42 as an index, for which 7 bits do.
    let mut decoder = Decoder::new(4096);
    for (block, size) in [("2a", 10), ("3f 9a 0a", 1337)] {
        decode_text(&mut decoder, &bytes_of(block)).unwrap();
        assert_eq!(decoder.table().capacity(), size);
    }
    assert_eq!(decode_text(&mut decoder, &[0x80 | 42]).unwrap(), [("if-range".to_owned(), String::new())]);
}
