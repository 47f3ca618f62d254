//! Frames of the WebSocket protocol (RFC 6455 section 5), as a server reads and writes them: no extensions, strict.

/// Opcode that continues a message.
pub(crate) const CONTINUATION: u8 = 0x0;
/// Opcode that begins a text message.
pub(crate) const TEXT: u8 = 0x1;
/// Opcode that begins a binary message.
pub(crate) const BINARY: u8 = 0x2;
/// Opcode that closes the connection.
pub(crate) const CLOSE: u8 = 0x8;
/// Opcode of a ping, which asks for a pong.
pub(crate) const PING: u8 = 0x9;
/// Opcode of a pong, the answer to a ping.
pub(crate) const PONG: u8 = 0xA;
/// Bit of the last frame of a message.
pub(crate) const FIN: u8 = 0x80;

/// Longest payload of a control frame, in bytes.
pub(crate) const CONTROL_LEN_MAX: usize = 125;
/// Longest head that the relay writes: without a mask.
pub(crate) const HEAD_OUT_MAX: usize = 10;

/// The head of a frame from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) is_final: bool,
    pub(crate) opcode: u8,
    pub(crate) mask: [u8; 4],
    /// Length of the payload, in bytes.
    pub(crate) len: u64,
    /// Length of the head itself: 6 to 14.
    pub(crate) head_len: usize,
}

impl Head {
    pub(crate) fn is_control(&self) -> bool {
        self.opcode >= CLOSE
    }
}

/// The input is not a frame of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault;

/// Parses a head; `None` if more bytes are needed.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Fault> {
    let [first, second, rest @ ..] = bytes else {
        return match bytes {
            [first] if !is_first(*first) => Err(Fault),
            _ => Ok(None),
        };
    };
    if !is_first(*first) || second & 0x80 == 0 {
        return Err(Fault);
    }
    let short = second & 0x7f;
    let (len, rest, len_len) = match short {
        126 => match rest.split_first_chunk::<2>() {
            Some((len, rest)) => (u64::from(u16::from_be_bytes(*len)), rest, 2),
            None => return Ok(None),
        },
        127 => match rest.split_first_chunk::<8>() {
            Some((len, rest)) => (u64::from_be_bytes(*len), rest, 8),
            None => return Ok(None),
        },
        short => (u64::from(short), rest, 0),
    };
    let is_shortest = match short {
        126 => len > 125,
        127 => len > 0xffff && len >> 63 == 0,
        _ => true,
    };
    let (is_final, opcode) = (first & FIN != 0, first & 0x0f);
    if !is_shortest || (opcode >= CLOSE && (short > 125 || !is_final)) {
        return Err(Fault);
    }
    let Some(mask) = rest.first_chunk::<4>() else { return Ok(None) };
    Ok(Some(Head { is_final, opcode, mask: *mask, len, head_len: 2 + len_len + 4 }))
}

/// Returns whether a first byte has no reserved bit, and a known opcode.
fn is_first(byte: u8) -> bool {
    byte & 0x70 == 0 && matches!(byte & 0x0f, CONTINUATION..=BINARY | CLOSE..=PONG)
}

/// Encodes the head of a frame of the relay, and returns its length.
pub(crate) fn encode_head(first: u8, len: usize) -> ([u8; HEAD_OUT_MAX], usize) {
    let mut head = [0; HEAD_OUT_MAX];
    head[0] = first;
    let wide = (len as u64).to_be_bytes();
    match len {
        0..=125 => {
            head[1] = wide[7];
            (head, 2)
        }
        126..=0xffff => {
            head[1] = 126;
            head[2..4].copy_from_slice(&wide[6..]);
            (head, 4)
        }
        _ => {
            head[1] = 127;
            head[2..10].copy_from_slice(&wide);
            (head, 10)
        }
    }
}

/// Encodes a whole frame of the relay with a short payload.
pub(crate) fn control(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(CONTROL_LEN_MAX)];
    let (head, len) = encode_head(FIN | opcode, payload.len());
    [&head[..len], payload].concat()
}

/// Encodes a close frame with a code and a reason.
pub(crate) fn close(code: u16, reason: &str) -> Vec<u8> {
    control(CLOSE, &[&code.to_be_bytes(), reason.as_bytes()].concat())
}

/// Returns whether the payload of a close frame is valid: empty, or a code that may be sent and UTF-8.
pub(crate) fn is_close_payload(payload: &[u8]) -> bool {
    match payload {
        [] => true,
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let is_code = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            is_code && std::str::from_utf8(reason).is_ok()
        }
        [_] => false,
    }
}

/// Applies or removes a mask. `offset` is the length of the payload before these bytes.
pub(crate) fn unmask(bytes: &mut [u8], mask: [u8; 4], offset: u64) {
    let mut turned = mask;
    turned.rotate_left((offset % 4) as usize);
    let [a, b, c, d] = turned;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u64::from_ne_bytes(eight) ^ wide).to_ne_bytes());
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(turned.into_iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_strictly() {
        let head = |bytes: &[u8]| parse_head(bytes);
        let mask = [1, 2, 3, 4];
        assert_eq!(
            head(&[0x82, 0x80, 1, 2, 3, 4]).unwrap().unwrap(),
            Head { is_final: true, opcode: BINARY, mask, len: 0, head_len: 6 }
        );
        assert_eq!(head(&[0x02, 0xfe, 0, 126, 1, 2, 3, 4]).unwrap().unwrap().len, 126);
        let long = [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4];
        assert_eq!(head(&long).unwrap().unwrap(), Head { is_final: true, opcode: 2, mask, len: 65536, head_len: 14 });
        for cut in 0..long.len() {
            assert_eq!(head(&long[..cut]), Ok(None), "{cut}");
        }
        for bad in [
            &[0xc2, 0x80][..],
            &[0x92],
            &[0x83, 0x80],
            &[0x8b, 0x80],
            &[0x82, 0x00],
            &[0x82, 0xfe, 0, 125, 1, 2, 3, 4],
            &[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4],
            &[0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4],
            &[0x09, 0x80, 0, 0, 0, 0],
            &[0x89, 0xfe, 0, 126, 0, 0, 0, 0],
        ] {
            assert_eq!(head(bad), Err(Fault), "{bad:?}");
        }
    }

    #[test]
    fn a_mask_is_taken_off_wherever_a_payload_is_cut() {
        let plain: Vec<u8> = (0..100).collect();
        let mask = [0xde, 0xad, 0xbe, 0xef];
        let masked: Vec<u8> = plain.iter().zip(mask.into_iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        for cut in 0..=100 {
            let mut bytes = masked.clone();
            let (head, tail) = bytes.split_at_mut(cut);
            unmask(head, mask, 0);
            unmask(tail, mask, cut as u64);
            assert_eq!(bytes, plain, "{cut}");
        }
    }

    #[test]
    fn heads_that_we_write_have_the_shortest_form() {
        for (len, bytes) in [(0, 2), (125, 2), (126, 4), (65535, 4), (65536, 10)] {
            assert_eq!(encode_head(0x82, len).1, bytes, "{len}");
        }
        assert_eq!(close(1008, "x"), [0x88, 3, 0x03, 0xf0, b'x']);
    }

    #[test]
    fn close_payloads_are_judged() {
        for good in [&b""[..], b"\x03\xe8", b"\x03\xe8bye", b"\x0b\xb8"] {
            assert!(is_close_payload(good), "{good:?}");
        }
        for bad in [&b"\x03"[..], b"\x03\xed", b"\x03\xee", b"\x00\x00", b"\x13\x88", b"\x03\xe8\xff"] {
            assert!(!is_close_payload(bad), "{bad:?}");
        }
    }
}
