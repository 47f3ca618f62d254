//! The rules of the decoder and of the encoder, one by one.

use bytes::BytesMut;
use http::header::{self, HeaderName};
use http::{HeaderValue, Method, StatusCode};

use super::index::Key;
use super::table::{Table, TableEntry};

use super::{Decoder, Encoder, Error, Field, Name, Reason, Scheme, huffman, static_table};

pub(super) fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn text_of(field: &Field) -> (String, String) {
    let (name, value) = match field {
        Field::Method(method) => (":method", method.as_str().as_bytes()),
        Field::Scheme(scheme) => (":scheme", scheme.as_bytes()),
        Field::Authority(text) => (":authority", &text[..]),
        Field::Path(text) => (":path", &text[..]),
        Field::Protocol(text) => (":protocol", &text[..]),
        Field::Status(status) => (":status", status.as_str().as_bytes()),
        Field::Header(name, value) => (name.as_str(), value.as_bytes()),
        Field::Malformed(name, reason) => return (format!("{name:?}"), reason.to_string()),
    };
    (name.to_owned(), String::from_utf8_lossy(value).into_owned())
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, Error> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut |field, _| fields.push(field))?;
    Ok(fields)
}

pub(super) fn decode_text(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, Error> {
    Ok(decode(decoder, block)?.iter().map(text_of).collect())
}

pub(super) fn encode_text(encoder: &mut Encoder, list: &[(&str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    let mut block = encoder.begin(&mut out);
    for (name, value) in list {
        match *name {
            ":method" => block.method(&Method::from_bytes(value.as_bytes()).unwrap()),
            ":scheme" if *value == "http" => block.scheme(&Scheme::Http),
            ":scheme" => block.scheme(&Scheme::Https),
            ":authority" => block.authority(value.as_bytes()),
            ":path" => block.path(value.as_bytes()),
            ":status" => block.status(StatusCode::from_bytes(value.as_bytes()).unwrap()),
            _ => block.header(&HeaderName::try_from(*name).unwrap(), &HeaderValue::try_from(*value).unwrap()),
        }
    }
    out.to_vec()
}

/// A literal field in plain text, with indexing.
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0x40, name.len() as u8], name, &[value.len() as u8], value].concat()
}

fn error_of(block: &[u8]) -> Option<Error> {
    decode(&mut Decoder::new(4096), block).err()
}

fn huffman_decode(code: &[u8]) -> Option<Vec<u8>> {
    huffman::decode(code, &mut Vec::new()).map(<[u8]>::to_vec)
}

fn huffman_encode(text: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    huffman::encode(text, huffman::encoded_len(text), &mut out);
    out
}

#[test]
fn every_octet_survives_the_huffman_code_at_every_position() {
    for octet in 0..=255_u8 {
        for before in 0..9 {
            let text = [vec![b'0'; before], vec![octet; 3], vec![b'a'; before]].concat();
            assert_eq!(huffman_decode(&huffman_encode(&text)), Some(text));
        }
    }
}

#[test]
fn codes_are_those_of_appendix_b() {
    for (text, code) in [
        ("0", "07"),
        ("\0", "ffc7"),
        ("A", "87"),
        ("~", "ffef"),
        ("\n", "fffffff3"),
        ("|", "ff9f"),
        ("\u{16}", "fffffffb"),
        ("\u{7f}", "ffffffcf"),
    ] {
        assert_eq!(huffman_encode(text.as_bytes()), bytes_of(code), "{text:?}");
    }
    assert_eq!(huffman_encode(&[0xff]), bytes_of("fffffbbf"));
}

#[test]
fn padding_that_is_too_long_or_not_all_ones_is_rejected() {
    // Each of "0" to eight of them, whose codes of 5 zero bits leave 0 to 7 bits of padding.
    for count in 1..=8_usize {
        let code = huffman_encode(&vec![b'0'; count]);
        let padding = code.len() * 8 - count * 5;
        assert!(huffman_decode(&code).is_some());
        for bit in 0..padding {
            let mut wrong = code.to_vec();
            *wrong.last_mut().unwrap() ^= 1 << bit;
            // The changed bits may begin with the code of another symbol, but the rest is no padding then, or the text differs.
            assert_ne!(huffman_decode(&wrong), Some(vec![b'0'; count]), "{count} {bit}");
        }
        let longer = [&code[..], &[0xff]].concat();
        assert_eq!(huffman_decode(&longer), None, "{count}");
    }
    assert_eq!(huffman_decode(&[0xff]), None);
    // "a" is 00011, then 3 bits that are no code.
    for last in 0..7 {
        assert_eq!(huffman_decode(&[0x18 | last]), None);
    }
    assert_eq!(huffman_decode(&[0x1f]), Some(b"a".to_vec()));
}

#[test]
fn the_end_symbol_within_a_string_is_rejected() {
    assert_eq!(huffman_decode(&[0xff; 4]), None);
    assert_eq!(huffman_decode(&[0xff, 0xff, 0xff, 0xfc]), None);
    for before in 0..20 {
        let text = vec![b'0'; before * 8];
        let code = [&huffman_encode(&text)[..], &[0xff, 0xff, 0xff, 0xff, 0x07]].concat();
        assert_eq!(huffman_decode(&code), None);
    }
}

#[test]
fn a_code_that_is_cut_is_rejected_or_ends_as_padding() {
    let text = b"\n\r\x16 and \xff\xfe text";
    let code = huffman_encode(text);
    for len in 0..code.len() {
        if let Some(decoded) = huffman_decode(&code[..len]) {
            assert!(text.starts_with(&decoded));
        }
    }
}

#[test]
fn decoding_a_string_grows_the_buffer_to_eight_fifths_of_it_at_most() {
    let mut scratch = Vec::new();
    assert!(huffman::decode(&[0; 1000], &mut scratch).is_some());
    assert!(scratch.len() <= 1602);
}

#[test]
fn both_forms_of_the_static_table_agree() {
    for (position, entry) in static_table::ENTRIES.iter().enumerate() {
        let (name, value) = text_of(&entry.field);
        assert_eq!((entry.name_len as usize, entry.size()), (name.len(), name.len() + value.len() + 32));
        match &entry.field {
            Field::Header(name, value) => {
                let index = static_table::name_index(name).unwrap();
                assert_eq!(index, position + 1);
                assert!(static_table::is_header_value(index, value.as_bytes()));
            }
            Field::Status(status) => {
                assert_eq!(static_table::status_index(*status), Some(position + 1));
            }
            _ => {}
        }
    }
    assert_eq!(static_table::name_index(&HeaderName::from_static("x-other")), None);
    assert_eq!(static_table::name_index(&header::X_FRAME_OPTIONS), None);
}

/// An entry with a number and a size.
#[derive(Debug, PartialEq)]
struct Item(u32, usize);

impl TableEntry for Item {
    fn size(&self) -> usize {
        self.1
    }
}

#[test]
fn the_table_evicts_the_oldest_entries_and_counts_sizes() {
    let mut table = Table::new(100);
    for number in 0..4 {
        assert!(table.insert(Item(number, 40)));
    }
    assert_eq!((table.get(0), table.get(1), table.get(2)), (Some(&Item(3, 40)), Some(&Item(2, 40)), None));
    assert_eq!((table.len(), table.size()), (2, 80));
    table.set_capacity(79);
    assert_eq!((table.get(0), table.get(1)), (Some(&Item(3, 40)), None));
    assert!(table.insert(Item(9, 79)));
    assert_eq!((table.len(), table.get(0)), (1, Some(&Item(9, 79))));
}

#[test]
fn an_entry_larger_than_the_table_empties_it() {
    let mut table = Table::new(100);
    table.insert(Item(1, 40));
    assert!(!table.insert(Item(2, 101)));
    assert_eq!((table.len(), table.size()), (0, 0));
}

#[test]
fn a_new_entry_may_use_the_name_of_an_entry_that_it_evicts() {
    let mut decoder = Decoder::new(64);
    decode(&mut decoder, &literal(b"x-name", b"one")).unwrap();
    let fields = decode_text(&mut decoder, b"\x7e\x14value-that-is-longer").unwrap();
    assert_eq!(fields, [("x-name".to_owned(), "value-that-is-longer".to_owned())]);
    assert_eq!(decoder.table().len(), 1);
}

#[test]
fn indices_outside_of_the_tables_are_errors() {
    assert_eq!(error_of(&[0x80]), Some(Error::UnknownIndex));
    assert_eq!(error_of(&[0xbe]), Some(Error::UnknownIndex));
    assert_eq!(error_of(&[0x7e, 0x00]), Some(Error::UnknownIndex));
    assert_eq!(error_of(&[0xbd]), None);
    let block = [&literal(b"a", b"")[..], &[0xbe, 0xbf]].concat();
    assert_eq!(error_of(&block), Some(Error::UnknownIndex));
}

#[test]
fn a_block_that_ends_within_a_field_is_an_error() {
    let block = [&literal(b"x-name", b"value")[..], &[0x00, 0x83]].concat();
    for len in 1..block.len() {
        let result = error_of(&block[..len]);
        assert_eq!(result, if len == 14 { None } else { Some(Error::Truncated) }, "{len}");
    }
    for block in [&[0xff][..], &[0xff, 0x80], &[0x3f], &[0x41], &[0x41, 0x7f], &[0x41, 0x7f, 0x80]] {
        assert_eq!(error_of(block), Some(Error::Truncated), "{block:?}");
    }
}

#[test]
fn integers_beyond_28_bits_are_errors() {
    assert_eq!(error_of(&[0xff, 0xff, 0xff, 0xff, 0x7f]), Some(Error::IntegerOverflow));
    assert_eq!(error_of(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x00]), Some(Error::IntegerOverflow));
    assert_eq!(error_of(&[0xff, 0x80, 0xff, 0xff, 0x7f]), Some(Error::UnknownIndex));
    assert_eq!(error_of(&[0x41, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]), Some(Error::IntegerOverflow));
}

#[test]
fn an_invalid_huffman_code_is_an_error() {
    assert_eq!(error_of(&[0x41, 0x81, 0xff]), Some(Error::Huffman));
    assert_eq!(error_of(&[0x41, 0x84, 0xff, 0xff, 0xff, 0xff]), Some(Error::Huffman));
}

#[test]
fn size_updates_are_accepted_twice_at_the_beginning_and_nowhere_else() {
    assert_eq!(error_of(&[0x20, 0x3f, 0xe1, 0x1f, 0x82]), None);
    assert_eq!(error_of(&[0x20, 0x20, 0x20]), Some(Error::TableSizeMisplaced));
    assert_eq!(error_of(&[0x82, 0x20]), Some(Error::TableSizeMisplaced));
    assert_eq!(error_of(&[0x3f, 0xe2, 0x1f]), Some(Error::TableSizeAboveLimit));
}

#[test]
fn a_size_update_evicts() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &[literal(b"a", b"1"), literal(b"b", b"2")].concat()).unwrap();
    assert_eq!(decode_text(&mut decoder, &[0x3f, 0x04, 0xbe]).unwrap(), [("b".to_owned(), "2".to_owned())]);
    assert_eq!(decode(&mut decoder, &[0xbf]), Err(Error::UnknownIndex));
}

#[test]
fn a_reduction_of_the_table_must_be_answered_in_the_next_block() {
    let mut decoder = Decoder::new(4096);
    decoder.set_table_max(100);
    assert_eq!(decode(&mut decoder, &[0x82]), Err(Error::TableSizeMissing));

    // The smallest of several sizes counts, and the last one is the limit.
    let mut decoder = Decoder::new(4096);
    decoder.set_table_max(10);
    decoder.set_table_max(4096);
    assert_eq!(decode(&mut decoder, &[0x3f, 0xe1, 0x1f, 0x82]), Err(Error::TableSizeMissing));
    let mut decoder = Decoder::new(4096);
    decoder.set_table_max(10);
    decoder.set_table_max(4096);
    assert!(decode(&mut decoder, &[0x2a, 0x3f, 0xe1, 0x1f, 0x82]).is_ok());
    assert!(decode(&mut decoder, &[0x82]).is_ok());

    // A peer that uses less already has nothing to change, and a larger limit needs no answer.
    decode(&mut decoder, &[0x20]).unwrap();
    decoder.set_table_max(100);
    decoder.set_table_max(65536);
    assert!(decode(&mut decoder, &[0x82]).is_ok());
}

#[test]
fn malformed_contents_are_reported_and_keep_the_table_in_step() {
    let token = |text: &str| Name::Header(HeaderName::try_from(text).unwrap());
    for (name, value, expected, reason) in [
        (&b"Upper"[..], &b"x"[..], Name::Malformed(Reason::Name), Reason::Name),
        (b"", b"x", Name::Malformed(Reason::Name), Reason::Name),
        (b"a b", b"x", Name::Malformed(Reason::Name), Reason::Name),
        (b"a\0", b"x", Name::Malformed(Reason::Name), Reason::Name),
        (b"a:", b"x", Name::Malformed(Reason::Name), Reason::Name),
        (b"\xc3\xa4", b"x", Name::Malformed(Reason::Name), Reason::Name),
        (b":unknown", b"x", Name::Malformed(Reason::UnknownPseudoHeader), Reason::UnknownPseudoHeader),
        (b":", b"x", Name::Malformed(Reason::UnknownPseudoHeader), Reason::UnknownPseudoHeader),
        (b"a", b"\0", token("a"), Reason::Value),
        (b"a", b"b\rc", token("a"), Reason::Value),
        (b"a", b"b\nc", token("a"), Reason::Value),
        (b"a", b" b", token("a"), Reason::Value),
        (b"a", b"b ", token("a"), Reason::Value),
        (b"a", b"\tb", token("a"), Reason::Value),
        (b"a", b"b\t", token("a"), Reason::Value),
        (b"a", b" ", token("a"), Reason::Value),
        (b":status", b"20", Name::Status, Reason::PseudoHeaderValue),
        (b":status", b"099", Name::Status, Reason::PseudoHeaderValue),
        (b":status", b"2 0", Name::Status, Reason::PseudoHeaderValue),
        (b":method", b"", Name::Method, Reason::PseudoHeaderValue),
        (b":method", b"GE T", Name::Method, Reason::PseudoHeaderValue),
        (b":path", b"/a b", Name::Path, Reason::PseudoHeaderValue),
        (b":path", b"/ HTTP/1.1\r\nx: y", Name::Path, Reason::PseudoHeaderValue),
        (b":authority", b"a\0", Name::Authority, Reason::PseudoHeaderValue),
        (b":scheme", b"ht\ntp", Name::Scheme, Reason::PseudoHeaderValue),
        (b":protocol", b"a\x7f", Name::Protocol, Reason::PseudoHeaderValue),
    ] {
        let mut decoder = Decoder::new(4096);
        let mut fields = Vec::new();
        let block = [&literal(name, value)[..], &[0xbe, 0x82]].concat();
        decoder.decode(&block, &mut |field, size| fields.push((field, size))).unwrap();
        let malformed = (Field::Malformed(expected, reason), name.len() + value.len() + 32);
        assert_eq!(fields, [malformed.clone(), malformed, (Field::Method(Method::GET), 42)], "{name:?} {value:?}");
        assert_eq!(decoder.table().size(), name.len() + value.len() + 32);
    }
}

#[test]
fn a_later_field_may_use_the_name_of_a_malformed_value() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &[literal(b"x-a", b"\0"), literal(b":path", b"\0"), literal(b"X-B", b"")].concat()).unwrap();
    let fields = decode_text(&mut decoder, b"\x0f\x31\x01v\x0f\x30\x01/").unwrap();
    assert_eq!(fields, [("x-a".to_owned(), "v".to_owned()), (":path".to_owned(), "/".to_owned())]);
    let mut sizes = Vec::new();
    decoder.decode(b"\x0f\x2f\x01v", &mut |field, size| sizes.push((field, size))).unwrap();
    assert_eq!(sizes, [(Field::Malformed(Name::Malformed(Reason::Name), Reason::Name), 36)]);
}

#[test]
fn values_may_have_blanks_inside_and_octets_above_ascii() {
    let mut decoder = Decoder::new(4096);
    let fields = decode(&mut decoder, &literal(b"a", b"b \t\xff c")).unwrap();
    assert_eq!(fields, [Field::Header(HeaderName::from_static("a"), HeaderValue::from_bytes(b"b \t\xff c").unwrap())]);
}

#[test]
fn sensitive_values_never_enter_the_table() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new(4096);
    let mut secret = HeaderValue::from_static("secret");
    secret.set_sensitive(true);
    for _ in 0..3 {
        let mut out = BytesMut::new();
        let mut block = encoder.begin(&mut out);
        block.header(&HeaderName::from_static("x-api-key"), &secret);
        block.header(&header::ETAG, &secret);
        block.header(&header::AUTHORIZATION, &HeaderValue::from_static("Bearer abc"));
        block.header(&header::AUTHORIZATION, &HeaderValue::from_static(""));
        block.header(&header::PROXY_AUTHORIZATION, &HeaderValue::from_static("Basic abc"));
        block.header(&header::COOKIE, &HeaderValue::from_static("id=1234567890123456"));
        let fields = decode(&mut decoder, &out).unwrap();
        assert!(fields.iter().all(|field| matches!(field, Field::Header(_, value) if value.is_sensitive())));
        assert_eq!((encoder.index().size(), decoder.table().size()), (0, 0));
    }
}

#[test]
fn values_that_change_with_each_message_enter_the_table_only_when_they_repeat() {
    let mut encoder = Encoder::new();
    for second in 0..10 {
        let date = format!("Mon, 21 Oct 2013 20:13:0{second} GMT");
        encode_text(&mut encoder, &[("date", &date), (":path", &format!("/?{second}"))]);
        assert_eq!(encoder.index().size(), 0);
    }
    let list = [("date", "Mon, 21 Oct 2013 20:13:09 GMT"), (":path", "/?9")];
    encode_text(&mut encoder, &list);
    assert_eq!(encoder.index().size(), 65 + 40);
    assert_eq!(encode_text(&mut encoder, &list), [0xbf, 0xbe]);
}

#[test]
fn a_name_with_ever_new_values_does_not_fill_the_table() {
    let mut encoder = Encoder::new();
    for number in 0..1000 {
        encode_text(&mut encoder, &[("x-number", &number.to_string())]);
    }
    assert_eq!(encoder.index().size(), 3 * 41);
}

#[test]
fn values_larger_than_a_quarter_of_the_table_do_not_enter_it() {
    let mut encoder = Encoder::new();
    for _ in 0..3 {
        encode_text(&mut encoder, &[("x", &"a".repeat(1024 - 32))]);
        assert_eq!(encoder.index().size(), 0);
    }
    encode_text(&mut encoder, &[("x", &"a".repeat(1024 - 33))]);
    assert_eq!(encoder.index().size(), 1024);
}

#[test]
fn fields_with_the_same_hashes_are_told_apart() {
    let mut index = super::index::Index::new(4096);
    let hashes = Key::of_text(b"a").hashes(b"1");
    for (name, value) in [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")] {
        index.insert(Key::of_text(name), value, hashes);
    }
    assert_eq!(index.find(Key::of_text(b"a"), b"1", hashes), Some(2));
    assert_eq!(index.find(Key::of_text(b"b"), b"1", hashes), Some(0));
    assert_eq!(index.find(Key::of_text(b"a"), b"3", hashes), None);
    assert_eq!(index.find(Key::of_index(1), b"1", hashes), None);
    assert_eq!(index.find_name(Key::of_text(b"a"), hashes, 9), (Some(1), 2));
    assert_eq!(index.find_name(Key::of_text(b"a"), hashes, 1), (Some(1), 1));
    assert_eq!(index.find_name(Key::of_text(b"c"), hashes, 9), (None, 0));
}

#[test]
fn the_encoder_tells_the_peer_the_lowest_and_the_last_size() {
    let mut encoder = Encoder::new();
    encoder.set_peer_table_max(65536);
    assert_eq!(encode_text(&mut encoder, &[(":method", "GET")]), [0x82]);
    encoder.set_peer_table_max(0);
    encoder.set_peer_table_max(4096);
    assert_eq!(encode_text(&mut encoder, &[(":method", "GET")]), [0x20, 0x3f, 0xe1, 0x1f, 0x82]);
    encoder.set_peer_table_max(0);
    assert_eq!(encode_text(&mut encoder, &[("x-a", "b")])[..2], [0x20, 0x00]);
    assert_eq!(encode_text(&mut encoder, &[("x-a", "b")])[..1], [0x00]);
    assert_eq!(encoder.index().size(), 0);
}

#[test]
fn literals_that_repeat_are_the_same_fields_and_few_of_them_are_remembered() {
    let mut decoder = Decoder::new(200);
    // 54 is `server`, 33 is `date`, 28 is `content-length`.
    let block = |date: &str| {
        let plain = |index: u8, value: &str| [&[0x40 | index, value.len() as u8], value.as_bytes()].concat();
        let code = huffman_encode(b"nginx/1.22.1");
        let coded = [&[0x40 | 54, 0x80 | code.len() as u8][..], &code[..]].concat();
        [coded, plain(33, date), plain(28, "7"), plain(54, "7"), literal(b"x-name", b"7")].concat()
    };
    for round in 0..100 {
        let date = format!("second {}", round / 3);
        let list =
            [("server", "nginx/1.22.1"), ("date", &date), ("content-length", "7"), ("server", "7"), ("x-name", "7")];
        let list = list.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(decode_text(&mut decoder, &block(&date)).unwrap(), list, "{round}");
        assert_eq!((decoder.table().len(), decoder.table().size() <= 200), (4, true), "{round}");
        assert_eq!(decode_text(&mut decoder, &[0xbe, 0xbf]).unwrap(), [list[4].clone(), list[3].clone()]);
    }
    assert_eq!(decoder.memo().len(), 8);
    // Another name, or another code, is another literal.
    assert_eq!(decode_text(&mut decoder, &[0x40 | 33, 1, b'7']).unwrap(), [("date".to_owned(), "7".to_owned())]);
    let coded = decode_text(&mut decoder, &[0x40 | 28, 0x81, b'7']).unwrap();
    assert_eq!(coded, [("content-length".to_owned(), "i".to_owned())]);
}
