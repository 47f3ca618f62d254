//! URIs of tokens and keys (RFC 7512). Attributes that this crate would have to ignore are errors: a URI that names one
//! key must never find another.

use std::fmt;
use std::path::PathBuf;

use crate::message::KeyName;
use crate::pin::PinSource;

/// Length of the longest URI, in bytes.
const LEN_MAX: usize = 4096;
/// Longest label or id, in bytes.
const VALUE_LEN_MAX: usize = 255;

/// Class of the object that a URI names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// `type=private`: a private key of a pair.
    Private,
    /// `type=secret-key`: a key of AES or HMAC.
    Secret,
}

/// A parsed URI. Absent attributes match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uri {
    /// `token`: label of the token.
    pub token: Option<String>,
    /// `serial`: serial number of the token.
    pub serial: Option<String>,
    /// `manufacturer`: manufacturer of the token.
    pub manufacturer: Option<String>,
    /// `model`: model of the token.
    pub model: Option<String>,
    /// `object`: label of the key.
    pub object: Option<String>,
    /// `id`: id of the key, CKA_ID.
    pub id: Option<Vec<u8>>,
    /// `type`: class of the key.
    pub kind: Option<ObjectKind>,
    /// `module-path`: absolute path of the module.
    pub module_path: Option<PathBuf>,
    /// `pin-source`: source of the user's PIN.
    pub pin_source: Option<PinSource>,
}

/// Error of a URI. It names the attribute, and never contains a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriError(pub(crate) String);

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UriError {}

fn wrong(text: impl Into<String>) -> UriError {
    UriError(text.into())
}

impl Uri {
    /// Parses a URI of RFC 7512.
    ///
    /// # Errors
    /// [`UriError`]: not a URI of PKCS#11, an attribute that is unknown or stands twice, or `pin-value`.
    pub fn parse(text: &str) -> Result<Uri, UriError> {
        if text.len() > LEN_MAX {
            return Err(wrong(format!("the URI is longer than {LEN_MAX} bytes")));
        }
        let rest = text.strip_prefix("pkcs11:").ok_or_else(|| wrong("expected a URI that begins with pkcs11:"))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Uri::default();
        for attribute in path.split(';').filter(|attribute| !attribute.is_empty()) {
            uri.path_attribute(attribute)?;
        }
        for attribute in query.split('&').filter(|attribute| !attribute.is_empty()) {
            uri.query_attribute(attribute)?;
        }
        Ok(uri)
    }

    fn path_attribute(&mut self, attribute: &str) -> Result<(), UriError> {
        let (name, value) = split(attribute)?;
        match name {
            "token" => set(&mut self.token, name, text(name, value)?),
            "serial" => set(&mut self.serial, name, text(name, value)?),
            "manufacturer" => set(&mut self.manufacturer, name, text(name, value)?),
            "model" => set(&mut self.model, name, text(name, value)?),
            "object" => set(&mut self.object, name, text(name, value)?),
            "id" => set(&mut self.id, name, bytes(name, value)?),
            "type" => {
                let kind = match value {
                    "private" => ObjectKind::Private,
                    "secret-key" => ObjectKind::Secret,
                    _ => return Err(wrong("type: expected private or secret-key")),
                };
                set(&mut self.kind, name, kind)
            }
            "slot-id" | "slot-description" | "slot-manufacturer" => {
                Err(wrong(format!("{name}: slots change between starts; name the token by token or serial")))
            }
            _ => Err(unknown(name)),
        }
    }

    fn query_attribute(&mut self, attribute: &str) -> Result<(), UriError> {
        let (name, value) = split(attribute)?;
        match name {
            "module-path" => {
                let path = PathBuf::from(text(name, value)?);
                if !path.is_absolute() {
                    return Err(wrong("module-path: expected an absolute path"));
                }
                set(&mut self.module_path, name, path)
            }
            "pin-source" => set(&mut self.pin_source, name, PinSource::parse(&text(name, value)?)?),
            "pin-value" => Err(wrong(
                "pin-value: a PIN in a URI ends in logs; put it in a file and name it by pin-source=file:PATH",
            )),
            _ => Err(unknown(name)),
        }
    }

    /// True if the URI has an attribute of its query: `module-path` or `pin-source`.
    pub fn has_query(&self) -> bool {
        self.module_path.is_some() || self.pin_source.is_some()
    }

    /// Checks that the URI names a token, its module and the source of its PIN, and no key.
    ///
    /// # Errors
    /// [`UriError`] names the attribute that is missing or is not a token's.
    pub fn check_token(&self) -> Result<(), UriError> {
        if self.key().is_some() || self.kind.is_some() {
            return Err(wrong("expected the URI of a token, without object, id and type"));
        }
        self.token_parts().map(drop)
    }

    /// Returns the module and the source of the PIN of a token.
    pub(crate) fn token_parts(&self) -> Result<(PathBuf, PinSource), UriError> {
        if self.token.is_none() && self.serial.is_none() {
            return Err(wrong("expected the token's label or serial number: token=… or serial=…"));
        }
        let module = self.module_path.clone().ok_or_else(|| wrong("expected module-path=…, the path of the module"))?;
        let pin = self.pin_source.clone().ok_or_else(|| wrong("expected pin-source=file:… or pin-source=env:…"))?;
        Ok((module, pin))
    }

    /// Label and id of the key; `None` if the URI names no key.
    pub fn key(&self) -> Option<KeyName> {
        let key = KeyName { id: self.id.clone(), label: self.object.clone() };
        (key.id.is_some() || key.label.is_some()).then_some(key)
    }

    /// Attributes of the token alone, as a URI: for logs, metrics and comparison.
    pub fn token_name(&self) -> String {
        let all = [
            ("token", &self.token),
            ("serial", &self.serial),
            ("manufacturer", &self.manufacturer),
            ("model", &self.model),
        ];
        let given =
            all.iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_ref()?.as_bytes()))));
        format!("pkcs11:{}", given.collect::<Vec<_>>().join(";"))
    }

    /// True if each token attribute of this URI is the same in `token`: the key's URI is of that token.
    pub fn is_on(&self, token: &Uri) -> bool {
        let fits = |mine: &Option<String>, other: &Option<String>| mine.is_none() || mine == other;
        fits(&self.token, &token.token)
            && fits(&self.serial, &token.serial)
            && fits(&self.manufacturer, &token.manufacturer)
            && fits(&self.model, &token.model)
    }
}

/// Writes the attributes of the path; those of the query stay out.
impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.token_name())?;
        let mut sign = if self.token_name().ends_with(':') { "" } else { ";" };
        let mut part = |name: &str, value: &str| {
            write!(f, "{sign}{name}={value}")?;
            sign = ";";
            Ok::<_, fmt::Error>(())
        };
        if let Some(object) = &self.object {
            part("object", &encoded(object.as_bytes()))?;
        }
        if let Some(id) = &self.id {
            part("id", &id.iter().map(|byte| format!("%{byte:02X}")).collect::<String>())?;
        }
        match self.kind {
            Some(ObjectKind::Private) => part("type", "private"),
            Some(ObjectKind::Secret) => part("type", "secret-key"),
            None => Ok(()),
        }
    }
}

fn split(attribute: &str) -> Result<(&str, &str), UriError> {
    attribute.split_once('=').ok_or_else(|| wrong("expected attributes of the form name=value"))
}

fn set<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), UriError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(wrong(format!("{name}: it stands twice"))),
    }
}

/// The name is a user's text: only a short one of letters appears in the error.
fn unknown(name: &str) -> UriError {
    let is_plain = name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let name = if is_plain { name } else { "an attribute" };
    wrong(format!(
        "{name}: not supported; expected token, serial, manufacturer, model, object, id, type, module-path, pin-source"
    ))
}

/// Decodes percent-encoding (RFC 3986 section 2.1).
fn bytes(name: &str, value: &str) -> Result<Vec<u8>, UriError> {
    let malformed = || wrong(format!("{name}: malformed percent-encoding"));
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            if !byte.is_ascii_graphic() {
                return Err(wrong(format!("{name}: blanks and other than ASCII characters must be percent-encoded")));
            }
            decoded.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(malformed);
        let (high, low) = (digit()?, digit()?);
        decoded.push(u8::try_from(high << 4 | low).map_err(|_| malformed())?);
    }
    if decoded.is_empty() || decoded.len() > VALUE_LEN_MAX {
        return Err(wrong(format!("{name}: expected 1 to {VALUE_LEN_MAX} bytes")));
    }
    Ok(decoded)
}

fn text(name: &str, value: &str) -> Result<String, UriError> {
    let text = String::from_utf8(bytes(name, value)?).map_err(|_| wrong(format!("{name}: it is not UTF-8")))?;
    if text.contains(char::is_control) {
        return Err(wrong(format!("{name}: it has control characters")));
    }
    Ok(text)
}

fn encoded(value: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b if b.is_ascii_alphanumeric() || b"-._~".contains(b) => char::from(*b).to_string(),
        b => format!("%{b:02X}"),
    };
    value.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_uri_with_every_attribute_is_parsed() {
        let uri = Uri::parse(
            "pkcs11:token=My%20token;serial=12;manufacturer=Snake;model=1.0;object=a%3Bb;id=%01%ff;type=private\
             ?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/pin",
        )
        .unwrap();
        assert_eq!((uri.token.as_deref(), uri.serial.as_deref()), (Some("My token"), Some("12")));
        assert_eq!((uri.object.as_deref(), uri.id.as_deref()), (Some("a;b"), Some([1, 255].as_slice())));
        assert_eq!(uri.kind, Some(ObjectKind::Private));
        assert_eq!(uri.pin_source, Some(PinSource::File("/etc/pin".into())));
        assert!(uri.has_query());
        assert_eq!(
            uri.to_string(),
            "pkcs11:token=My%20token;serial=12;manufacturer=Snake;model=1.0;object=a%3Bb;id=%01%FF;type=private"
        );
    }

    #[test]
    fn other_uris_are_rejected_by_name_and_no_value_is_shown() {
        for (text, part) in [
            ("", "pkcs11:"),
            ("PKCS11:token=a", "pkcs11:"),
            ("pkcs11:token=a;token=b", "token: it stands twice"),
            ("pkcs11:token", "name=value"),
            ("pkcs11:token=", "token: expected 1 to 255"),
            ("pkcs11:token=%4", "token: malformed"),
            ("pkcs11:token=%zz", "token: malformed"),
            ("pkcs11:token=%ff", "token: it is not UTF-8"),
            ("pkcs11:token=%00", "token: it has control"),
            ("pkcs11:token=a b", "token: blanks"),
            ("pkcs11:type=cert", "type: expected"),
            ("pkcs11:slot-id=3", "slot-id: slots change"),
            ("pkcs11:x-word=1", "x-word: not supported"),
            ("pkcs11:?pin-value=secretword", "pin-value: a PIN in a URI"),
            ("pkcs11:?module-path=lib.so", "module-path: expected an absolute"),
            ("pkcs11:?module-name=p11", "module-name: not supported"),
            ("pkcs11:?pin-source=secretword", "pin-source: expected"),
            ("pkcs11:?pin-source=|secretword", "pin-source: expected"),
            ("pkcs11:?pin-source=file:secretword", "pin-source: expected an absolute"),
            ("pkcs11:?pin-source=env:secret%20word", "pin-source: expected the name"),
        ] {
            let err = Uri::parse(text).unwrap_err().to_string();
            assert!(err.contains(part) && !err.contains("secretword"), "{text}: {err}");
        }
        assert!(Uri::parse(&format!("pkcs11:token={}", "a".repeat(5000))).is_err());
    }

    #[test]
    fn a_key_is_on_a_token_if_all_attributes_that_it_names_are_the_tokens() {
        let token = Uri::parse("pkcs11:token=a;serial=1").unwrap();
        for (text, is_on) in [
            ("pkcs11:token=a;object=k", true),
            ("pkcs11:serial=1;object=k", true),
            ("pkcs11:object=k", true),
            ("pkcs11:token=b;object=k", false),
            ("pkcs11:token=a;serial=2;object=k", false),
            ("pkcs11:token=a;model=x;object=k", false),
        ] {
            assert_eq!(Uri::parse(text).unwrap().is_on(&token), is_on, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_parses_round_trips(text in "pkcs11:[a-z;=?&%0-9-]{0,60}") {
            if let Ok(uri) = Uri::parse(&text) {
                let again = Uri::parse(&uri.to_string()).unwrap();
                prop_assert_eq!(Uri { module_path: None, pin_source: None, ..uri }, again);
            }
        }
    }
}
