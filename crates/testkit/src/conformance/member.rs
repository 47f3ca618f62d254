//! The members of a line, and the form of bytes and headers in them.

use sealway_proto::session::native::{InnerHeaders, Suite};
use serde_json::{Map, Value, json};

use super::Refusal;

/// Name and value pairs, in their order.
pub(super) type Pairs = Vec<(String, String)>;

/// The members of a line.
pub(super) struct Members<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Members<'a> {
    pub(super) fn get(&self, name: &str) -> Result<&'a Value, Refusal> {
        self.0.get(name).ok_or_else(|| Refusal::fault(format!("{name} is missing")))
    }

    fn of<T>(&self, name: &str, what: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<T, Refusal> {
        read(self.get(name)?).ok_or_else(|| Refusal::fault(format!("{name}: expected {what}")))
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str, Refusal> {
        self.of(name, "a text", Value::as_str)
    }

    /// Returns a text, or `None` if it is null or absent.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.text(name).map(Some),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, Refusal> {
        self.of(name, "a whole number", Value::as_u64)
    }

    pub(super) fn status(&self) -> Result<u16, Refusal> {
        self.of("status", "an HTTP status", |value| value.as_u64()?.try_into().ok())
    }

    /// Returns a number, or `None` if it is null or absent.
    pub(super) fn optional_u32(&self, name: &str) -> Result<Option<u32>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.of(name, "a number of 32 bits", |value| value.as_u64()?.try_into().ok()).map(Some),
        }
    }

    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        self.of(name, "hexadecimal digits", |value| unhex(value.as_str()?))
    }

    pub(super) fn array<const N: usize>(&self, name: &str) -> Result<[u8; N], Refusal> {
        let bytes = self.bytes(name)?;
        bytes.try_into().map_err(|_| Refusal::fault(format!("{name}: expected {N} bytes")))
    }

    /// Returns a list of byte strings of one length.
    pub(super) fn arrays<const N: usize>(&self, name: &str) -> Result<Vec<[u8; N]>, Refusal> {
        self.of(name, "a list of bytes of a fixed length", |value| {
            value.as_array()?.iter().map(|entry| unhex(entry.as_str()?)?.try_into().ok()).collect()
        })
    }

    pub(super) fn suite(&self, name: &str) -> Result<Suite, Refusal> {
        self.of(name, "a suite", |value| Suite::from_name(value.as_str()?))
    }

    pub(super) fn suites(&self, name: &str) -> Result<Vec<Suite>, Refusal> {
        self.of(name, "a list of suites", |value| {
            value.as_array()?.iter().map(|entry| Suite::from_name(entry.as_str()?)).collect()
        })
    }

    pub(super) fn headers(&self) -> Result<Pairs, Refusal> {
        self.of("headers", "a list of pairs", |value| {
            let pair = |entry: &Value| match entry.as_array()?.as_slice() {
                [name, value] => Some((name.as_str()?.to_owned(), value.as_str()?.to_owned())),
                _ => None,
            };
            value.as_array()?.iter().map(pair).collect()
        })
    }

    pub(super) fn inner_headers(&self) -> Result<InnerHeaders, Refusal> {
        let mut inner = InnerHeaders::new();
        for (name, value) in self.headers()? {
            let bytes: Option<Vec<u8>> = value.chars().map(|character| u8::try_from(character).ok()).collect();
            inner.push(&name.to_ascii_lowercase(), &bytes.ok_or_else(|| Refusal::fault("headers: no byte"))?)?;
        }
        Ok(inner)
    }
}

/// Returns inner headers as a list of pairs.
pub(super) fn pairs(inner: &InnerHeaders) -> Value {
    let text = |value: &[u8]| value.iter().map(|byte| char::from(*byte)).collect::<String>();
    inner.iter().map(|(name, value)| json!([name, text(value)])).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| if let [high, low] = pair { Some(digit(*high)? << 4 | digit(*low)?) } else { None }).collect()
}
