//! Every rule of the reader and of the writer.

use sealway_proto::bhttp::{
    BhttpError, Control, Event, FIELDS_MAX, Field, Head, INTERIMS_MAX, PATH_LEN_MAX, Part, Reader, Rule,
    SECTION_LEN_MAX, Writer,
};

use super::{CONTENT_MAX, read_both, request};

fn varint(value: usize) -> Vec<u8> {
    match value {
        0..=0x3f => vec![value as u8],
        0x40..=0x3fff => (value as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => (value as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&varint(bytes.len()), bytes].concat()
}

fn lines(lines: &[(&str, &[u8])]) -> Vec<u8> {
    lines.iter().flat_map(|(name, value)| [text(name.as_bytes()), text(value)].concat()).collect()
}

fn control(texts: [&str; 4]) -> Vec<u8> {
    texts.iter().flat_map(|part| text(part.as_bytes())).collect()
}

const GET: [&str; 4] = ["GET", "https", "a.example", "/"];

/// A request in both framings.
fn both(texts: [&str; 4], headers: &[(&str, &[u8])], content: &[u8], trailers: &[(&str, &[u8])]) -> [Vec<u8>; 2] {
    let (headers, trailers) = (lines(headers), lines(trailers));
    let known = [vec![0], control(texts), text(&headers), text(content), text(&trailers)].concat();
    let chunk = if content.is_empty() { Vec::new() } else { text(content) };
    let indeterminate = [vec![2], control(texts), headers, vec![0], chunk, vec![0], trailers, vec![0]].concat();
    [known, indeterminate]
}

fn error(bytes: &[u8]) -> (Part, Rule) {
    let err = read_both(bytes, true).expect_err("the message breaks a rule");
    (err.part, err.rule)
}

#[test]
fn a_framing_indicator_is_one_of_the_requests_in_any_length() {
    for (number, rule) in [(1, Rule::WrongKind), (3, Rule::WrongKind), (4, Rule::Unknown), (0x3f, Rule::Unknown)] {
        assert_eq!(error(&[number]), (Part::Framing, rule));
    }
    assert_eq!(error(&[0xff; 8]), (Part::Framing, Rule::Unknown));
    let long = [&[0xc0, 0, 0, 0, 0, 0, 0, 0][..], &both(GET, &[], b"", &[])[0][1..]].concat();
    assert_eq!(read_both(&long, true), read_both(&both(GET, &[], b"", &[])[0], true));
}

#[test]
fn control_data_is_checked() {
    let long = format!("/{}", "a".repeat(PATH_LEN_MAX));
    let cases = [
        (["", "https", "a", "/"], Part::Method, Rule::Empty),
        (["GE T", "https", "a", "/"], Part::Method, Rule::Characters),
        (["GET", "ht tp", "a", "/"], Part::Scheme, Rule::Characters),
        (["GET", "https", "a b", "/"], Part::Authority, Rule::Characters),
        (["GET", "https", "a\n", "/"], Part::Authority, Rule::Characters),
        (["GET", "https", "ä", "/"], Part::Authority, Rule::Characters),
        (["GET", "https", "a", ""], Part::Path, Rule::Empty),
        (["GET", "https", "a", "*"], Part::Path, Rule::Characters),
        (["GET", "https", "a", "https://a/"], Part::Path, Rule::Characters),
        (["GET", "https", "a", "/\u{1}"], Part::Path, Rule::Characters),
        (["GET", "https", "a", "/a b"], Part::Path, Rule::Characters),
        (["GET", "https", "a", "/a#b"], Part::Path, Rule::Characters),
        (["GET", "https", "a", &long], Part::Path, Rule::TooLong),
    ];
    for (texts, part, rule) in cases {
        for bytes in both(texts, &[], b"", &[]) {
            assert_eq!(error(&bytes), (part, rule), "{texts:?}");
        }
        let [method, scheme, authority, path] = texts;
        let head = Head { control: request(method, scheme, authority, path), fields: Vec::new() };
        let written = Writer::indeterminate().head(&mut Vec::new(), &head).unwrap_err();
        assert_eq!((written.part, written.rule), (part, rule), "the writer keeps to the reader's rules");
    }
    for texts in [["OPTIONS", "https", "a", "*"], ["get", "HTTPS", "", "/?a=b"]] {
        for bytes in both(texts, &[], b"", &[]) {
            let head = read_both(&bytes, true).unwrap().head.unwrap();
            assert_eq!(head.control, request(texts[0], "https", texts[2], texts[3]));
        }
    }
}

#[test]
fn names_and_values_are_checked() {
    let cases: [(&str, &[u8], Part, Rule); 15] = [
        ("a b", b"", Part::FieldName, Rule::Characters),
        ("a\0", b"", Part::FieldName, Rule::Characters),
        ("a:b", b"", Part::FieldName, Rule::Characters),
        ("ä", b"", Part::FieldName, Rule::Characters),
        (":", b"", Part::FieldName, Rule::Empty),
        (":path", b"/", Part::FieldName, Rule::PseudoField),
        (":Status", b"200", Part::FieldName, Rule::PseudoField),
        (":method", b"GET", Part::FieldName, Rule::PseudoField),
        ("a", b"b\0", Part::FieldValue, Rule::Characters),
        ("a", b"b\r\nc", Part::FieldValue, Rule::Characters),
        ("a", b"\x7f", Part::FieldValue, Rule::Characters),
        ("a", b" b", Part::FieldValue, Rule::OuterBlank),
        ("a", b"b\t", Part::FieldValue, Rule::OuterBlank),
        ("content-length", b"-1", Part::ContentLength, Rule::Characters),
        ("content-length", b"", Part::ContentLength, Rule::Characters),
    ];
    for (name, value, part, rule) in cases {
        for bytes in both(GET, &[(name, value)], b"", &[]) {
            assert_eq!(error(&bytes), (part, rule), "{name:?}");
        }
    }
    let [known, _] = both(GET, &[("", b"a")], b"", &[]);
    assert_eq!(error(&known), (Part::FieldName, Rule::Empty), "indeterminate length ends at an empty name");
    for bytes in both(GET, &[("Accept", b"\xfftext\tb"), (":b", b"1")], b"", &[]) {
        assert_eq!(error(&bytes), (Part::FieldName, Rule::PseudoField), "behind a field");
    }
    for bytes in both(GET, &[], b"", &[(":b", b"1")]) {
        assert_eq!(error(&bytes), (Part::FieldName, Rule::PseudoField), "in trailers");
    }
    let good: [(&str, &[u8]); 6] =
        [(":b", b"1"), ("ACCEPT", b"\xfftext\tb"), ("cookie", b"a=1"), ("x", b""), ("Cookie", b"b=2"), ("cookie", b"")];
    for bytes in both(GET, &good, b"", &[("T", b"1")]) {
        let message = read_both(&bytes, true).unwrap();
        let fields = [(":b", &b"1"[..]), ("accept", b"\xfftext\tb"), ("x", b""), ("cookie", b"a=1; b=2")];
        let fields: Vec<Field> = fields.iter().map(|(name, value)| Field::new(name, *value)).collect();
        assert_eq!(message.head.unwrap().fields, fields);
        assert_eq!(message.trailers, [Field::new("t", "1")]);
    }
}

#[test]
fn content_length_is_the_length_of_the_content() {
    for (length, is_right) in [(&b"3"[..], true), (b"2", false), (b"4", false), (b"99999999999999999999", false)] {
        for bytes in both(GET, &[("content-length", length)], b"abc", &[]) {
            match is_right {
                true => assert!(read_both(&bytes, true).is_ok()),
                false => assert_eq!(error(&bytes), (Part::ContentLength, Rule::Differs)),
            }
        }
    }
    for bytes in both(GET, &[("content-length", b"3"), ("Content-Length", b"3")], b"abc", &[]) {
        assert_eq!(error(&bytes), (Part::ContentLength, Rule::Repeated));
    }
    // Content that is missing has the length zero.
    let cut = [vec![0], control(GET), text(&lines(&[("content-length", b"3")]))].concat();
    assert_eq!(error(&cut), (Part::ContentLength, Rule::Differs));
    // The answer to a HEAD has a length without the content.
    assert!(read_both(&[vec![1, 0x40, 0xc8], text(&lines(&[("content-length", b"3")]))].concat(), false).is_ok());
}

#[test]
fn bounds_are_on_what_is_claimed_and_not_on_what_arrived() {
    let claim = [0xff; 8];
    let start = [vec![0], control(GET)].concat();
    assert_eq!(error(&[&[0][..], &claim].concat()), (Part::Method, Rule::TooLong));
    assert_eq!(error(&[&start[..], &claim].concat()), (Part::Section, Rule::TooLong));
    assert_eq!(error(&[&start[..], &[20], &claim].concat()), (Part::FieldName, Rule::Overrun));
    assert_eq!(error(&[&start[..], &[20, 1, b'a'], &claim].concat()), (Part::FieldValue, Rule::Overrun));
    assert_eq!(error(&[&start[..], &[0], &claim].concat()), (Part::Content, Rule::TooLong));
    assert_eq!(error(&[&start[..], &[2, 1, b'a', 0x40, 1]].concat()), (Part::FieldValue, Rule::Overrun));
    let start = [vec![2], control(GET)].concat();
    assert_eq!(error(&[&start[..], &claim].concat()), (Part::FieldName, Rule::TooLong));
    assert_eq!(error(&[&start[..], &[0], &claim].concat()), (Part::Content, Rule::TooLong));
    assert_eq!(error(&[&start[..], &[0, 0], &claim].concat()), (Part::FieldName, Rule::TooLong));
}

#[test]
fn sections_content_and_informational_answers_have_bounds() {
    let many: Vec<(&str, &[u8])> = vec![("a", b"b"); FIELDS_MAX];
    let long = vec![b'a'; SECTION_LEN_MAX];
    for bytes in both(GET, &many, b"", &many) {
        assert_eq!(read_both(&bytes, true).unwrap().trailers.len(), FIELDS_MAX);
    }
    let more = [many.clone(), vec![("a", b"b")]].concat();
    for bytes in both(GET, &more, b"", &[]) {
        assert_eq!(error(&bytes), (Part::Section, Rule::TooMany));
    }
    for bytes in both(GET, &[], b"", &more) {
        assert_eq!(error(&bytes), (Part::Trailers, Rule::TooMany));
    }
    for bytes in both(GET, &[("a", &long)], b"", &[]) {
        let err = read_both(&bytes, true).unwrap_err();
        assert_eq!((err.rule, err.status()), (Rule::TooLong, 431));
    }
    let full = vec![b'a'; CONTENT_MAX as usize];
    for bytes in both(GET, &[], &full, &[]) {
        assert_eq!(read_both(&bytes, true).unwrap().content, full);
    }
    for bytes in both(GET, &[], &[&full[..], b"a"].concat(), &[]) {
        let err = read_both(&bytes, true).unwrap_err();
        assert_eq!((err.part, err.rule, err.status()), (Part::Content, Rule::TooLong, 413));
    }
    let interim = |count: usize| [vec![3], [0x40, 0x66, 0].repeat(count), vec![0x40, 0xc8, 0]].concat();
    assert_eq!(read_both(&interim(INTERIMS_MAX), false).unwrap().interims.len(), INTERIMS_MAX);
    assert_eq!(read_both(&interim(INTERIMS_MAX + 1), false).unwrap_err().rule, Rule::TooMany);
    for status in [[0, 99], [0x42, 0x58]] {
        let status: &[u8] = if status[0] == 0 { &status[1..] } else { &status };
        let err: BhttpError =
            read_both(&[&[1][..], &[0x40][..1 - (status.len() - 1)], status].concat(), false).unwrap_err();
        assert_eq!((err.part, err.rule), (Part::Status, Rule::OutOfRange));
    }
    assert_eq!(read_both(&[1, 0x40, 0x66, 0], false).unwrap_err().rule, Rule::Truncated, "no final answer");
}

#[test]
fn padding_is_zeros() {
    for bytes in both(GET, &[], b"a", &[]) {
        let padded = [&bytes[..], &[0; 100]].concat();
        assert_eq!(read_both(&padded, true), read_both(&bytes, true));
        for at in bytes.len()..padded.len() {
            let mut wrong = padded.clone();
            wrong[at] = 1;
            assert_eq!(error(&wrong), (Part::Padding, Rule::NotZero));
        }
    }
}

#[test]
fn indeterminate_parts_end_at_their_zero_alone() {
    let start = [vec![2], control(GET)].concat();
    let header = lines(&[("a", b"b")]);
    assert_eq!(error(&[&start[..], &header].concat()), (Part::Section, Rule::Truncated));
    assert_eq!(error(&[&start[..], &[0, 1, b'a']].concat()), (Part::Content, Rule::Truncated));
    assert_eq!(error(&[&start[..], &[0, 0], &header].concat()), (Part::Trailers, Rule::Truncated));
}

#[test]
fn a_writer_keeps_its_order_and_its_length() {
    let head = Head { control: Control::Answer(200), fields: Vec::new() };
    let mut out = b"before".to_vec();
    let mut writer = Writer::known(3);
    assert_eq!(writer.content(&mut out, b"abc").unwrap_err().rule, Rule::Order);
    let bad = Head { control: Control::Answer(200), fields: vec![Field::new("a", "b\n")] };
    assert_eq!(writer.head(&mut out, &bad).unwrap_err().part, Part::FieldValue);
    assert_eq!(out, b"before", "a part that fails writes nothing");
    writer.head(&mut out, &head).unwrap();
    assert_eq!(writer.head(&mut out, &head).unwrap_err().rule, Rule::Order);
    writer.content(&mut out, b"ab").unwrap();
    assert_eq!(writer.end(&mut out, &[]).unwrap_err().rule, Rule::Order, "content is missing");
    assert_eq!(writer.content(&mut out, b"cd").unwrap_err().rule, Rule::Order, "more than the length");
    writer.content(&mut out, b"c").unwrap();
    writer.end(&mut out, &[]).unwrap();
    assert_eq!(out, [&b"before"[..], &[1, 0x40, 0xc8, 0, 3], b"abc", &[0]].concat());
}

#[test]
fn the_head_is_there_before_the_content_arrives() {
    let [known, _] = both(GET, &[("a", b"b")], b"abc", &[]);
    let mut reader = Reader::request(CONTENT_MAX);
    let (head, content) = known.split_at(known.len() - 5);
    assert!(matches!(reader.read(&mut &*head), Ok(Some(Event::Head(_)))));
    let mut rest = content;
    assert_eq!(reader.read(&mut rest), Ok(Some(Event::Content(b"abc"))));
    assert_eq!(reader.end(), Ok(None));
}
