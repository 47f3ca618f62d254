//! The examples of RFC 9292 section 5, byte by byte and cut at every byte.

use sealway_proto::bhttp::{BhttpError, Control, Framing, Head, Rule};

use super::{Message, fields, hex, read, read_both, request, write};

/// Section 5.1, with known length.
pub(crate) const REQUEST_KNOWN: &str = "
    00034745 54056874 74707300 0a2f6865 6c6c6f2e 74787440 6c0a7573 65722d61 67656e74 34637572 6c2f372e 31362e33 206c6962
    6375726c 2f372e31 362e3320 4f70656e 53534c2f 302e392e 376c207a 6c69622f 312e322e 3304686f 73740f77 77772e65 78616d70
    6c652e63 6f6d0f61 63636570 742d6c61 6e677561 67650665 6e2c206d 690000";

/// Section 5.1, with indeterminate length and ten bytes of padding.
pub(crate) const REQUEST_INDETERMINATE: &str = "
    02034745 54056874 74707300 0a2f6865 6c6c6f2e 7478740a 75736572 2d616765 6e743463 75726c2f 372e3136 2e33206c 69626375
    726c2f37 2e31362e 33204f70 656e5353 4c2f302e 392e376c 207a6c69 622f312e 322e3304 686f7374 0f777777 2e657861 6d706c65
    2e636f6d 0f616363 6570742d 6c616e67 75616765 06656e2c 206d6900 00000000 00000000 00000000";

/// Section 5.2: two informational answers before the final one, with indeterminate length.
pub(crate) const ANSWER_INDETERMINATE: &str = "
    03406607 72756e6e 696e670a 22736c65 65702031 35220040 67046c69 6e6b233c 2f737479 6c652e63 73733e3b 2072656c 3d707265
    6c6f6164 3b206173 3d737479 6c65046c 696e6b24 3c2f7363 72697074 2e6a733e 3b207265 6c3d7072 656c6f61 643b2061 733d7363
    72697074 0040c804 64617465 1d4d6f6e 2c203237 204a756c 20323030 39203132 3a32383a 35332047 4d540673 65727665 72064170
    61636865 0d6c6173 742d6d6f 64696669 65641d57 65642c20 3232204a 756c2032 30303920 31393a31 353a3536 20474d54 04657461
    67142233 34616133 38372d64 2d313536 38656230 30220d61 63636570 742d7261 6e676573 05627974 65730e63 6f6e7465 6e742d6c
    656e6774 68023531 04766172 790f4163 63657074 2d456e63 6f64696e 670c636f 6e74656e 742d7479 70650a74 6578742f 706c6169
    6e003348 656c6c6f 20576f72 6c642120 4d792063 6f6e7465 6e742069 6e636c75 64657320 61207472 61696c69 6e672043 524c462e
    0d0a0000";

/// Section 5.2: an answer with a trailer, with known length.
pub(crate) const ANSWER_KNOWN: &str = "
    0140c800 1d546869 7320636f 6e74656e 7420636f 6e746169 6e732043 524c462e 0d0a0d07 74726169 6c657204 74657874";

/// The request in RFC 9458 appendix A, which ends behind its control data.
pub(crate) const REQUEST_OHTTP: &str = "00034745540568747470730b6578616d706c652e636f6d012f";

fn hello() -> Message {
    let lines = [
        ("user-agent", "curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"),
        ("host", "www.example.com"),
        ("accept-language", "en, mi"),
    ];
    let head = Head { control: request("GET", "https", "", "/hello.txt"), fields: fields(&lines) };
    Message { head: Some(head), ..Message::default() }
}

fn answer(status: u16, lines: &[(&str, &str)]) -> Head {
    Head { control: Control::Answer(status), fields: fields(lines) }
}

fn early_hints() -> Message {
    let links = [("link", "</style.css>; rel=preload; as=style"), ("link", "</script.js>; rel=preload; as=script")];
    let lines = [
        ("date", "Mon, 27 Jul 2009 12:28:53 GMT"),
        ("server", "Apache"),
        ("last-modified", "Wed, 22 Jul 2009 19:15:56 GMT"),
        ("etag", "\"34aa387-d-1568eb00\""),
        ("accept-ranges", "bytes"),
        ("content-length", "51"),
        ("vary", "Accept-Encoding"),
        ("content-type", "text/plain"),
    ];
    Message {
        interims: vec![answer(102, &[("running", "\"sleep 15\"")]), answer(103, &links)],
        head: Some(answer(200, &lines)),
        content: b"Hello World! My content includes a trailing CRLF.\r\n".to_vec(),
        trailers: Vec::new(),
    }
}

fn with_trailer() -> Message {
    Message {
        head: Some(answer(200, &[])),
        content: b"This content contains CRLF.\r\n".to_vec(),
        trailers: fields(&[("trailer", "text")]),
        ..Message::default()
    }
}

#[test]
fn the_examples_of_rfc_9292_are_read_and_written() {
    let cases = [
        (REQUEST_KNOWN, true, Framing::Known, 0, hello()),
        (REQUEST_INDETERMINATE, true, Framing::Indeterminate, 10, hello()),
        (ANSWER_INDETERMINATE, false, Framing::Indeterminate, 0, early_hints()),
        (ANSWER_KNOWN, false, Framing::Known, 0, with_trailer()),
    ];
    for (text, is_request, framing, padding, message) in cases {
        let bytes = hex(text);
        assert_eq!(read_both(&bytes, is_request).unwrap(), message);
        assert_eq!(write(&message, framing), bytes[..bytes.len() - padding]);
        for piece_len in 1..40 {
            assert_eq!(read(&bytes, is_request, piece_len).as_ref(), Ok(&message), "pieces of {piece_len}");
        }
    }
}

#[test]
fn the_request_of_rfc_9458_ends_behind_its_control_data() {
    let head = Head { control: request("GET", "https", "example.com", "/"), fields: Vec::new() };
    let message = read_both(&hex(REQUEST_OHTTP), true).unwrap();
    assert_eq!(message, Message { head: Some(head), ..Message::default() });
    let message = read_both(&hex("0140c8"), false).unwrap();
    assert_eq!(message, Message { head: Some(answer(200, &[])), ..Message::default() });
}

/// Returns the lengths to which a message can be cut and is still taken.
fn taken(text: &str, is_request: bool) -> Vec<usize> {
    let bytes = hex(text);
    let cuts = (0..bytes.len()).map(|len| (len, read_both(&bytes[..len], is_request)));
    let is_taken = |(_, cut): &(usize, Result<Message, BhttpError>)| match cut {
        Ok(_) => true,
        Err(err) => {
            assert_eq!(err.rule, Rule::Truncated);
            false
        }
    };
    cuts.filter(is_taken).map(|(len, _)| len).collect()
}

#[test]
fn a_message_may_be_cut_only_where_all_that_is_missing_is_empty() {
    // Behind the control data, and before the lengths of content and trailers.
    assert_eq!(taken(REQUEST_KNOWN, true), [23, 23 + 2 + 108, 23 + 2 + 108 + 1]);
    let len = hex(REQUEST_INDETERMINATE).len();
    let padded: Vec<usize> = (len - 12..len).collect();
    assert_eq!(taken(REQUEST_INDETERMINATE, true), padded);
    assert!(taken(REQUEST_OHTTP, true).is_empty());
    let len = hex(ANSWER_INDETERMINATE).len();
    assert_eq!(taken(ANSWER_INDETERMINATE, false), [len - 54, len - 1]);
    // Behind the status, with an empty header section, and with all but the trailers.
    assert_eq!(taken(ANSWER_KNOWN, false), [3, 4, 4 + 1 + 29]);
}
