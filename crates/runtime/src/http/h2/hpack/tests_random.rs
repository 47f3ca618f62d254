//! Random input, from seeds: what is found can be repeated.

use bytes::BytesMut;
use http::header::HeaderName;
use http::{HeaderValue, Method, StatusCode};

use super::{Decoder, Encoder, FIELD_OVERHEAD, Field, Scheme, TABLE_SIZE_DEFAULT, huffman};

/// A xorshift generator of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 32) as usize) % end
    }

    fn bytes(&mut self, len_max: usize) -> Vec<u8> {
        (0..self.below(len_max + 1)).map(|_| (self.next() >> 56) as u8).collect()
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns text of a field value, mostly one that occurred before.
    fn value(&mut self) -> String {
        if self.below(3) > 0 {
            return format!("value-{}", self.below(20));
        }
        let len = self.pick(&[0, 1, 5, 30, 300, 1500]);
        (0..self.below(len + 1)).map(|_| char::from(b'!' + (self.next() % 94) as u8)).collect()
    }

    fn field(&mut self) -> Field {
        let text = self.value();
        match self.below(16) {
            0 => Field::Method(self.pick(&[Method::GET, Method::POST, Method::PUT].each_ref()).clone()),
            1 => {
                Field::Scheme(self.pick(&[Scheme::Http, Scheme::Https, Scheme::Other("ws".into())].each_ref()).clone())
            }
            2 => Field::Authority(text.into()),
            3 => Field::Path(text.into()),
            4 => Field::Protocol(text.into()),
            5 => Field::Status(StatusCode::from_u16(self.pick(&[200, 204, 302, 404, 418, 599])).unwrap()),
            _ => {
                let names = ["accept", "cookie", "date", "etag", "server", "set-cookie", "x-request-id", "x-a", "x-b"];
                let name = match self.below(4) {
                    0 => format!("x-name-{}", self.below(40)),
                    _ => self.pick(&names).to_owned(),
                };
                let mut value = HeaderValue::try_from(text).unwrap();
                value.set_sensitive(self.below(10) == 0);
                Field::Header(HeaderName::try_from(name).unwrap(), value)
            }
        }
    }
}

fn encode(encoder: &mut Encoder, fields: &[Field]) -> BytesMut {
    let mut out = BytesMut::new();
    let mut block = encoder.begin(&mut out);
    for field in fields {
        match field {
            Field::Method(method) => block.method(method),
            Field::Scheme(scheme) => block.scheme(scheme),
            Field::Authority(text) => block.authority(text),
            Field::Path(text) => block.path(text),
            Field::Protocol(text) => block.protocol(text),
            Field::Status(status) => block.status(*status),
            Field::Header(name, value) => block.header(name, value),
            Field::Malformed(..) => unreachable!(),
        }
    }
    out
}

fn text_len(field: &Field) -> usize {
    match field {
        Field::Method(method) => 7 + method.as_str().len(),
        Field::Scheme(scheme) => 7 + scheme.as_bytes().len(),
        Field::Authority(text) => 10 + text.len(),
        Field::Path(text) => 5 + text.len(),
        Field::Protocol(text) => 9 + text.len(),
        Field::Status(_) => 10,
        Field::Header(name, value) => name.as_str().len() + value.len(),
        Field::Malformed(..) => unreachable!(),
    }
}

#[test]
fn the_decoder_returns_the_lists_that_the_encoder_wrote_while_table_sizes_change() {
    let mut random = Random(7541);
    for _ in 0..20 {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(TABLE_SIZE_DEFAULT));
        for _ in 0..500 {
            for _ in 0..random.below(8).saturating_sub(5) {
                let size = random.pick(&[0, 31, 100, 256, 1000, 4096, 65536]);
                encoder.set_peer_table_max(size as u32);
                decoder.set_table_max(size);
            }
            let fields: Vec<_> = (0..random.below(25)).map(|_| random.field()).collect();
            let block = encode(&mut encoder, &fields);
            let mut decoded = Vec::new();
            decoder
                .decode(&block, &mut |field, size| {
                    assert_eq!(size, text_len(&field) + FIELD_OVERHEAD);
                    decoded.push(field);
                })
                .unwrap();
            assert_eq!(decoded, fields);
            assert_eq!(decoder.table().size(), encoder.index().size());
            assert!(decoder.table().size() <= encoder.index().capacity());
        }
    }
}

#[test]
fn a_value_that_is_sensitive_at_the_encoder_is_sensitive_at_the_decoder() {
    let mut random = Random(6);
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(TABLE_SIZE_DEFAULT));
    for _ in 0..1000 {
        let fields: Vec<_> = (0..random.below(25)).map(|_| random.field()).collect();
        let is_sensitive = |field: &Field| matches!(field, Field::Header(_, value) if value.is_sensitive());
        let mut sensitive = Vec::new();
        decoder.decode(&encode(&mut encoder, &fields), &mut |field, _| sensitive.push(is_sensitive(&field))).unwrap();
        for (field, decoded) in fields.iter().zip(sensitive) {
            let is_cookie = matches!(field, Field::Header(name, value) if name == "cookie" && value.len() < 20);
            assert_eq!(decoded, is_sensitive(field) || is_cookie, "{field:?}");
        }
    }
}

#[test]
fn random_blocks_never_panic_and_never_grow_the_table_beyond_its_maximum() {
    let blocks = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let mut random = Random(9113);
    let mut decoder = Decoder::new(300);
    let (mut fields, mut errors) = (0, 0);
    for _ in 0..blocks {
        let mut block = random.bytes(24);
        if random.below(2) == 0 {
            // Most random octets are indices out of range; small ones get further.
            block.iter_mut().for_each(|octet| *octet &= 0x5f);
        }
        errors += usize::from(decoder.decode(&block, &mut |_, _| fields += 1).is_err());
        assert!(decoder.table().size() <= 300);
    }
    assert!(fields > blocks / 10 && errors > blocks / 10, "{fields} fields, {errors} errors");
}

#[test]
fn random_changes_of_a_valid_block_never_panic() {
    let mut random = Random(3);
    for _ in 0..if cfg!(debug_assertions) { 5_000 } else { 100_000 } {
        let fields: Vec<_> = (0..random.below(12)).map(|_| random.field()).collect();
        let mut block = encode(&mut Encoder::new(), &fields);
        for _ in 0..=random.below(3) {
            let position = random.below(block.len() + 1);
            if let Some(octet) = block.get_mut(position) {
                *octet = (random.next() >> 56) as u8;
            } else {
                block.truncate(random.below(block.len() + 1));
            }
        }
        let _ = Decoder::new(TABLE_SIZE_DEFAULT).decode(&block, &mut |_, _| {});
    }
}

#[test]
fn random_text_survives_the_huffman_code() {
    let mut random = Random(1);
    let mut scratch = Vec::new();
    for round in 0..20_000 {
        let mut text = random.bytes(100);
        match round % 3 {
            0 => text.iter_mut().for_each(|octet| *octet = b' ' + *octet % 95),
            1 => text.iter_mut().for_each(|octet| *octet = b"0a1/e \n\xff"[usize::from(*octet) % 8]),
            _ => {}
        }
        let mut code = BytesMut::new();
        let len = huffman::encoded_len(&text);
        huffman::encode(&text, len, &mut code);
        assert_eq!(code.len(), len);
        assert_eq!(huffman::decode(&code, &mut scratch), Some(&text[..]));
        // The code of random octets is either invalid, or what the encoder makes of the decoded text.
        let code = random.bytes(40);
        if let Some(text) = huffman::decode(&code, &mut scratch).map(<[u8]>::to_vec) {
            let mut again = BytesMut::new();
            huffman::encode(&text, huffman::encoded_len(&text), &mut again);
            assert_eq!(again, code);
        }
    }
}
