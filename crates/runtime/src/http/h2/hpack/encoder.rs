//! The encoder of header blocks (RFC 7541 sections 5 and 6), and its choice of what enters the dynamic table.

use bytes::{BufMut, BytesMut};
use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};

use super::TABLE_SIZE_DEFAULT;
use super::field::Scheme;
use super::huffman;
use super::index::{Index, Key};
use super::static_table as fields;

/// Fields larger than this part of the table do not enter it: one of them would evict many.
const TABLE_PART_MAX: usize = 4;
/// Shorter cookies are never indexed: an attacker who shares the connection could guess them (RFC 7541 section 7.1.3).
const COOKIE_MIN: usize = 20;
/// Number of entries with the same name from which another value must repeat before it enters the table.
const VARIANTS_MAX: usize = 3;
/// Number of fields that are remembered to see them repeat.
const RECENT: usize = 32;

/// Encodes the header blocks that one side of a connection sends.
#[derive(Debug)]
pub struct Encoder {
    index: Index,
    /// Size of the table from the next block on.
    table_max: usize,
    /// Smallest size since the last block; the peer must learn of it (RFC 7541 section 4.2).
    table_lowest: usize,
    /// Hashes of fields that did not enter the table.
    recent: [u32; RECENT],
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Creates the encoder of a connection.
    pub fn new() -> Self {
        Encoder {
            index: Index::new(TABLE_SIZE_DEFAULT),
            table_max: TABLE_SIZE_DEFAULT,
            table_lowest: TABLE_SIZE_DEFAULT,
            recent: [0; RECENT],
        }
    }

    /// Applies the peer's `SETTINGS_HEADER_TABLE_SIZE`. The encoder uses at most [`TABLE_SIZE_DEFAULT`] of it. Call it when the
    /// SETTINGS frame arrives: the next block begins with the size update, which the peer expects after the acknowledgement.
    pub fn set_peer_table_max(&mut self, table_max: u32) {
        self.table_max = usize::try_from(table_max).unwrap_or(usize::MAX).min(TABLE_SIZE_DEFAULT);
        self.table_lowest = self.table_lowest.min(self.table_max);
    }

    /// Begins a header block at the end of `out`. The peer must get it whole, and before any later block.
    pub fn begin<'a>(&'a mut self, out: &'a mut BytesMut) -> Block<'a> {
        for size in [self.table_lowest, self.table_max] {
            if size != self.index.capacity() {
                self.index.set_capacity(size);
                put_integer(out, 0x20, 5, size);
            }
        }
        self.table_lowest = self.table_max;
        Block { encoder: self, out }
    }

    /// Releases memory that an idle connection does not need. The table keeps its entries.
    pub fn shrink(&mut self) {
        self.index.shrink();
    }

    /// Returns whether a field has been seen lately, and remembers it.
    fn is_repeated(&mut self, hash: u32) -> bool {
        let slot = &mut self.recent[(hash >> 16) as usize % RECENT];
        std::mem::replace(slot, hash) == hash
    }

    #[cfg(test)]
    pub(super) fn index(&self) -> &Index {
        &self.index
    }
}

/// A header block that is being written. Pseudo-headers come first.
#[derive(Debug)]
pub struct Block<'a> {
    encoder: &'a mut Encoder,
    out: &'a mut BytesMut,
}

impl Block<'_> {
    /// Appends the pseudo-header `:method`, by index if a table has it.
    pub fn method(&mut self, method: &Method) {
        match *method {
            Method::GET => self.indexed(fields::METHOD),
            Method::POST => self.indexed(fields::METHOD_POST),
            _ => self.field(Key::of_index(fields::METHOD), method.as_str().as_bytes()),
        }
    }

    /// Appends the pseudo-header `:scheme`, by index if a table has it.
    pub fn scheme(&mut self, scheme: &Scheme) {
        match scheme {
            Scheme::Http => self.indexed(fields::SCHEME),
            Scheme::Https => self.indexed(fields::SCHEME_HTTPS),
            Scheme::Other(text) => self.field(Key::of_index(fields::SCHEME), text),
        }
    }

    /// Appends the pseudo-header `:authority`, by index if a table has it.
    pub fn authority(&mut self, authority: &[u8]) {
        self.field(Key::of_index(fields::AUTHORITY), authority);
    }

    /// Appends the pseudo-header `:path`, by index if a table has it.
    pub fn path(&mut self, path: &[u8]) {
        match path {
            b"/" => self.indexed(fields::PATH),
            b"/index.html" => self.indexed(fields::PATH_INDEX),
            _ => self.field(Key::of_index(fields::PATH), path),
        }
    }

    /// Appends the pseudo-header `:protocol`, by index if a table has it.
    pub fn protocol(&mut self, protocol: &[u8]) {
        self.field(Key::of_text(b":protocol"), protocol);
    }

    /// Appends the pseudo-header `:status`, by index if a table has it.
    pub fn status(&mut self, status: StatusCode) {
        match fields::status_index(status) {
            Some(index) => self.indexed(index),
            None => self.field(Key::of_index(fields::STATUS), status.as_str().as_bytes()),
        }
    }

    /// Appends a field that is no pseudo-header. A value that is marked as sensitive, and credentials whatever they are marked
    /// as, are never indexed, neither here nor by the next hop (RFC 7541 section 6.2.3).
    pub fn header(&mut self, name: &HeaderName, value: &HeaderValue) {
        let text = value.as_bytes();
        let index = fields::name_index(name);
        let key = index.map_or_else(|| Key::of_text(name.as_str().as_bytes()), Key::of_index);
        if value.is_sensitive() || is_secret(key, text) {
            return self.literal(NEVER_INDEXED, key, None, text);
        }
        match index {
            Some(index) if fields::is_header_value(index, text) => self.indexed(index),
            // It is set once for one client, and is often a secret.
            Some(fields::SET_COOKIE) => self.literal(WITHOUT_INDEXING, key, None, text),
            _ => self.field(key, text),
        }
    }

    /// Appends a field that may be in the dynamic table, or may enter it.
    fn field(&mut self, key: Key<'_>, value: &[u8]) {
        if key.size(value) > self.encoder.index.capacity() / TABLE_PART_MAX {
            return self.literal(WITHOUT_INDEXING, key, None, value);
        }
        let hashes = key.hashes(value);
        if let Some(age) = self.encoder.index.find(key, value, hashes) {
            return self.indexed(fields::LEN + 1 + age);
        }
        let (name_age, variants) = self.encoder.index.find_name(key, hashes, VARIANTS_MAX);
        let is_steady = variants < VARIANTS_MAX && !is_volatile(key);
        if is_steady || self.encoder.is_repeated(hashes.field()) {
            self.literal(INDEXING, key, name_age, value);
            self.encoder.index.insert(key, value, hashes);
        } else {
            self.literal(WITHOUT_INDEXING, key, name_age, value);
        }
    }

    fn indexed(&mut self, index: usize) {
        put_integer(self.out, 0x80, 7, index);
    }

    /// Appends a literal field; `age` is that of an entry of the dynamic table with the same name.
    fn literal(&mut self, form: Form, key: Key<'_>, age: Option<usize>, value: &[u8]) {
        match (key.index, age) {
            (0, None) => {
                self.out.put_u8(form.first);
                put_string(self.out, key.text);
            }
            (0, Some(age)) => put_integer(self.out, form.first, form.bits, fields::LEN + 1 + age),
            (index, _) => put_integer(self.out, form.first, form.bits, index),
        }
        put_string(self.out, value);
    }
}

/// Returns whether a field must not enter any table on the way (RFC 7541 section 7.1.3).
fn is_secret(key: Key<'_>, value: &[u8]) -> bool {
    match key.index {
        fields::AUTHORIZATION | fields::PROXY_AUTHORIZATION => true,
        fields::COOKIE => value.len() < COOKIE_MIN,
        _ => false,
    }
}

/// Returns whether the values of a name change with each message, as a rule. They enter the table when they repeat, which is
/// common for a resource that is polled, in a load test, and for `date` within a second. Names that are missing here get
/// [`VARIANTS_MAX`] entries before the same rule holds for them.
fn is_volatile(key: Key<'_>) -> bool {
    match key.index {
        0 => matches!(
            key.text,
            b"x-request-id"
                | b"x-correlation-id"
                | b"x-trace-id"
                | b"x-amzn-trace-id"
                | b"x-b3-traceid"
                | b"x-b3-spanid"
                | b"traceparent"
                | b"tracestate"
                | b"request-id"
                | b"idempotency-key"
        ),
        index => matches!(
            index,
            fields::PATH
                | fields::CONTENT_LENGTH
                | fields::CONTENT_RANGE
                | fields::COOKIE
                | fields::DATE
                | fields::ETAG
                | fields::EXPIRES
                | fields::IF_MODIFIED_SINCE
                | fields::IF_NONE_MATCH
                | fields::LAST_MODIFIED
                | fields::LOCATION
                | fields::RANGE
        ),
    }
}

/// A form of a literal field (RFC 7541 section 6.2).
#[derive(Clone, Copy, Debug)]
struct Form {
    first: u8,
    /// Bits of the prefix of the name's index.
    bits: u32,
}

const INDEXING: Form = Form { first: 0x40, bits: 6 };
const WITHOUT_INDEXING: Form = Form { first: 0x00, bits: 4 };
const NEVER_INDEXED: Form = Form { first: 0x10, bits: 4 };

/// Appends an integer (RFC 7541 section 5.1) with a prefix of `bits`; `first` has the bits before it.
pub(super) fn put_integer(out: &mut BytesMut, first: u8, bits: u32, value: usize) {
    let prefix_max = (1_usize << bits) - 1;
    if value < prefix_max {
        return out.put_u8(first | value as u8);
    }
    out.put_u8(first | prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.put_u8(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

/// Appends a string (RFC 7541 section 5.2), Huffman-coded if that is shorter.
fn put_string(out: &mut BytesMut, text: &[u8]) {
    let len = huffman::encoded_len(text);
    if len < text.len() {
        put_integer(out, 0x80, 7, len);
        huffman::encode(text, len, out);
    } else {
        put_integer(out, 0x00, 7, text.len());
        out.put_slice(text);
    }
}
