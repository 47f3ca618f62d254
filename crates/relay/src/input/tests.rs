use super::*;

const MASK: [u8; 4] = [9, 8, 7, 6];

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let (head, len) = ws::encode_head(first, payload.len());
    let mut bytes = head[..len].to_vec();
    bytes[1] |= 0x80;
    bytes.extend(MASK);
    let start = bytes.len();
    bytes.extend(payload);
    ws::unmask(&mut bytes[start..], MASK, 0);
    bytes
}

fn attached() -> Input {
    let mut input = Input::new(1024 * 1024);
    input.take_attach();
    input
}

/// Returns the forwarded bytes if the input arrives in pieces of `step`.
fn forwarded(bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize), CloseCause> {
    let (mut input, mut out, mut records) = (attached(), Vec::new(), 0);
    let mut kept: Vec<u8> = Vec::new();
    for piece in bytes.chunks(step) {
        kept.extend(piece);
        let mut buf = vec![0; HEAD_ROOM];
        buf.extend(&kept);
        let mut at = HEAD_ROOM;
        while at < buf.len() {
            match input.next(&mut buf, &mut at) {
                Next::Frame { at, is_record, .. } => {
                    out.extend(&buf[at]);
                    records += usize::from(is_record);
                }
                Next::Need(_) => break,
                Next::Broken(cause) => return Err(cause),
                _ => {}
            }
        }
        kept = buf[at..].to_vec();
    }
    assert!(kept.is_empty());
    Ok((out, records))
}

/// Parses the messages of forwarded bytes, which it trusts.
fn messages(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut all, mut message) = (Vec::new(), Vec::new());
    while let [first, second, rest @ ..] = bytes {
        let (len, rest) = match second {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            127 => (usize::try_from(u64::from_be_bytes(*rest.first_chunk().unwrap())).unwrap(), &rest[8..]),
            short => (usize::from(*short), rest),
        };
        assert_eq!(first & 0x0f == ws::CONTINUATION, !message.is_empty(), "continuations alone continue");
        message.extend_from_slice(&rest[..len]);
        if first & ws::FIN != 0 {
            all.push(std::mem::take(&mut message));
        }
        bytes = &rest[len..];
    }
    all
}

#[test]
fn messages_come_out_as_they_went_in_however_they_are_cut() {
    let plain = |len: usize| (0..len).map(|at| (at % 251) as u8).collect::<Vec<u8>>();
    let lens = [1, 125, 126, 65535, 65536, WHOLE_FRAME_MAX + 1, 200_000];
    let bytes: Vec<u8> = lens.iter().flat_map(|len| frame(0x82, &plain(*len))).collect();
    let want: Vec<_> = lens.iter().map(|len| plain(*len)).collect();
    for step in [1013, 65536, 131_072, bytes.len()] {
        let (out, records) = forwarded(&bytes, step).unwrap();
        assert_eq!((messages(&out), records), (want.clone(), 0), "{step}");
    }
}

#[test]
fn fragments_and_what_is_between_them_keep_their_message() {
    let mut bytes = frame(0x02, b"one ");
    bytes.extend(frame(0x89, b"ping"));
    bytes.extend(frame(0x00, b"two "));
    bytes.extend(frame(0x80, b"three"));
    bytes.extend(frame(0x82, b""));
    let (out, _) = forwarded(&bytes, 1).unwrap();
    assert_eq!(out, [&[0x02, 4][..], b"one ", &[0x00, 4], b"two ", &[0x80, 5], b"three", &[0x82, 0]].concat());
}

#[test]
fn a_record_is_found_in_whatever_frames_it_comes() {
    let mut record = b"FSEC\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x10".to_vec();
    record.extend([7; 16]);
    assert_eq!(forwarded(&frame(0x82, &record), 3).unwrap().1, 1);
    for cut in 1..record.len() {
        let bytes = [frame(0x02, &record[..cut]), frame(0x80, &record[cut..])].concat();
        assert_eq!(forwarded(&bytes, bytes.len()).unwrap().1, 1, "{cut}");
    }
    record.push(0);
    assert_eq!(forwarded(&frame(0x82, &record), 50).unwrap().1, 0, "its length is not what it says");
}

#[test]
fn rules_are_kept() {
    let told = |bytes: &[u8]| forwarded(bytes, bytes.len()).unwrap_err();
    assert_eq!(told(&frame(0x81, b"text")), CloseCause::NonBinaryFrame);
    assert_eq!(told(&frame(0x80, b"nothing began")), CloseCause::ProtocolError);
    assert_eq!(told(&[frame(0x02, b"a"), frame(0x82, b"b")].concat()), CloseCause::ProtocolError);
    assert_eq!(told(&frame(0x82, &vec![0; (1 << 20) + 1])), CloseCause::RecordTooLarge);
    assert!(forwarded(&frame(0x82, &vec![0; 1 << 20]), 65536).is_ok());
    let halves = [frame(0x02, &vec![0; 1 << 19]), frame(0x80, &vec![0; (1 << 19) + 1])].concat();
    assert_eq!(told(&halves), CloseCause::RecordTooLarge);
    assert_eq!(told(&frame(0x88, b"\x03")), CloseCause::ProtocolError);
}

#[test]
fn the_attach_message_is_one_text_within_its_bound() {
    let first = |bytes: &[u8]| {
        let mut buf = [&[0; HEAD_ROOM][..], bytes].concat();
        let (mut input, mut at) = (Input::new(1 << 20), HEAD_ROOM);
        let mut next = Next::Nothing;
        while at < buf.len() && next == Next::Nothing {
            next = input.next(&mut buf, &mut at);
        }
        (next, input.take_attach())
    };
    assert_eq!(
        first(&[frame(0x01, b"he"), frame(0x8a, b""), frame(0x80, b"llo")].concat()),
        (Next::Attach, b"hello".to_vec())
    );
    assert_eq!(first(&frame(0x81, &[b'x'; 8192])).0, Next::Attach);
    assert_eq!(first(&frame(0x81, &[b'x'; 8193])).0, Next::Broken(CloseCause::AttachTooLarge));
    assert_eq!(
        first(&frame(0x82, &[b'x'; 8193])).0,
        Next::Broken(CloseCause::AttachTooLarge),
        "its length is looked at first"
    );
    assert_eq!(first(&frame(0x82, b"x")).0, Next::Broken(CloseCause::ExpectedAttach));
    let v2 = [&b"FSB2\x02\x02"[..], &[b'x'; 9000]].concat();
    assert_eq!(first(&frame(0x82, &v2)).0, Next::Broken(CloseCause::WireUnsupported), "the v2 wire is named");
    assert_eq!(first(&frame(0x82, b"FSB3....")).0, Next::Broken(CloseCause::ExpectedAttach));
    assert_eq!(first(&frame(0x81, b"FSB2....")).0, Next::Attach, "a text is no opening of v2");
    assert_eq!(
        first(&[frame(0x01, &[b'x'; 8000]), frame(0x80, &[b'x'; 193])].concat()).0,
        Next::Broken(CloseCause::AttachTooLarge)
    );
}

#[test]
fn noise_is_read_to_its_end_or_refused_and_nothing_else() {
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for round in 0..20_000 {
        // Half of them begin like frames: noise alone seldom passes the first byte.
        let mut bytes: Vec<u8> = (0..random() % 64).map(|_| random()).collect();
        if round % 2 == 0 {
            bytes = frame([0x82, 0x02, 0x00, 0x80, 0x89, 0x88][usize::from(random() % 6)], &bytes);
            let at = usize::from(random()) % bytes.len();
            bytes[at] ^= random() & 1;
        }
        let mut input = if random() & 1 == 0 { attached() } else { Input::new(1 << 20) };
        let (mut buf, mut at) = ([&[0; HEAD_ROOM][..], &bytes].concat(), HEAD_ROOM);
        while at < buf.len() {
            let before = at;
            match input.next(&mut buf, &mut at) {
                Next::Need(need) => {
                    assert!(need > buf.len() - at);
                    break;
                }
                Next::Broken(_) => break,
                Next::Attach => drop(input.take_attach()),
                Next::Frame { at: frame, payload, .. } => assert!(frame.len() > payload && frame.end <= buf.len()),
                Next::Nothing | Next::Ping(_) | Next::Close(_) => {}
            }
            assert!(at > before, "it goes on");
        }
    }
}
