//! Mastercard's field-level form: AES-128-CBC under a key that RSA-OAEP wraps, with the metadata beside each value or in headers of
//! the message. It has no integrity: a message can be changed on the way. SPEC mle.md#field-level-form

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use subtle::{Choice, ConstantTimeEq, ConstantTimeGreater};
use zeroize::Zeroizing;

use super::algorithm::Alg;
use super::body::{Envelope, Field, FieldRule};
use super::crypto::JoseProvider;
use super::json::Text;
use super::keys::SealingKey;
use super::kid::{certificate_sha256, hex};
use super::path::{At, Path, PathError};
use super::profile::{Message, Profile};
use super::refusal::{Class, Refusal};
use super::seal::{SealError, SealRandoms, copy};
use super::splice::{Body, find, remove};

/// The length of the content key, in bytes.
pub(super) const KEY_LEN: usize = 16;
/// The length of a block and of the initialisation vector, in bytes.
pub(super) const BLOCK_LEN: usize = 16;

/// The spelling of bytes in members and headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Hexadecimal digits (RFC 4648 section 8): written in lower case, read in both.
    Hex,
    /// Standard base64 with padding (RFC 4648 section 4).
    Base64,
    /// base64url without padding (RFC 4648 section 5): Mastercard's library for Go.
    Base64Url,
}

impl Encoding {
    /// Writes bytes as text in this spelling.
    pub fn encode(self, bytes: &[u8]) -> String {
        match self {
            Encoding::Hex => hex(bytes),
            Encoding::Base64 => STANDARD.encode(bytes),
            Encoding::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
        }
    }

    /// Reads the one canonical spelling of bytes; of hexadecimal both letter cases.
    ///
    /// # Errors
    /// [`Class::Base64`], for hexadecimal too.
    pub fn decode(self, text: &[u8]) -> Result<Vec<u8>, Refusal> {
        let wrong = |_| Refusal::new(Class::Base64, "a value is not of the configured encoding");
        match self {
            Encoding::Hex => unhex(text).ok_or(()).map_err(wrong),
            Encoding::Base64 => STANDARD.decode(text).map_err(|_| ()).map_err(wrong),
            Encoding::Base64Url => URL_SAFE_NO_PAD.decode(text).map_err(|_| ()).map_err(wrong),
        }
    }
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// The place of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Members beside each value, with a key of its own.
    Body,
    /// HTTP headers: one key and one IV serve all values of a message.
    Headers,
}

/// The names of members; those of the metadata name headers where it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleNames {
    /// The encrypted value, always a member.
    pub value: String,
    /// The initialisation vector of the cipher.
    pub iv: String,
    /// The content key in its encrypted form.
    pub encrypted_key: String,
    /// The digest of RSA-OAEP, `SHA256` or `SHA512`; `None` if messages do not have it.
    pub digest: Option<String>,
    /// The name of the recipient's key (`kid`).
    pub key_fingerprint: Option<String>,
    /// The SHA-256 of the recipient's certificate in hexadecimal digits: written, and not read.
    pub certificate_fingerprint: Option<String>,
}

impl FleNames {
    /// Returns the names of the metadata, without that of the value.
    pub fn metadata(&self) -> impl Iterator<Item = &str> {
        let optional = [&self.digest, &self.key_fingerprint, &self.certificate_fingerprint];
        let optional = optional.into_iter().filter_map(|name| name.as_deref());
        [self.iv.as_str(), &self.encrypted_key].into_iter().chain(optional)
    }
}

/// The settings of the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fle {
    place: Place,
    encoding: Encoding,
    names: FleNames,
}

/// The defect of the names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleError {
    /// A name cannot be that of a member on a path.
    #[error("{0:?}: {1}")]
    Name(String, PathError),
    /// A name stands for two parts.
    #[error("{0:?} is the name of two things")]
    Twice(String),
}

impl Fle {
    /// Creates the settings. Names of headers are compared without letter case.
    ///
    /// # Errors
    /// [`FleError`].
    pub fn new(place: Place, encoding: Encoding, names: FleNames) -> Result<Fle, FleError> {
        let mut seen: Vec<String> = Vec::new();
        let is_beside = place == Place::Body;
        for name in names.metadata().chain(is_beside.then_some(names.value.as_str())) {
            let seen_as = if is_beside { name.to_owned() } else { name.to_ascii_lowercase() };
            if seen.contains(&seen_as) {
                return Err(FleError::Twice(name.to_owned()));
            }
            seen.push(seen_as);
        }
        for name in names.metadata().chain([names.value.as_str()]) {
            Path::parse(&format!("$.{name}"))
                .and_then(|path| if path.is_name() { Ok(()) } else { Err(PathError::Name) })
                .map_err(|err| FleError::Name(name.to_owned(), err))?;
        }
        Ok(Fle { place, encoding, names })
    }

    /// Returns the place of the metadata.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Returns the spelling of bytes.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the names of the parts.
    pub fn names(&self) -> &FleNames {
        &self.names
    }

    /// Creates the rule for values to be opened: `from` is the path of the object that holds the value.
    ///
    /// # Errors
    /// As [`FieldRule::new`].
    pub fn opening_rule(&self, from: &str, to: &str) -> Result<FieldRule, PathError> {
        FieldRule::new(&format!("{from}.{}", self.names.value), to, None)
    }

    /// Creates the rule for values to be sealed: `to` is the path of the object that gets the value.
    ///
    /// # Errors
    /// As [`FieldRule::new`].
    pub fn sealing_rule(&self, from: &str, to: &str) -> Result<FieldRule, PathError> {
        FieldRule::new(from, to, Some(&self.names.value))
    }

    /// Takes the metadata out of a body: of each value that [`super::body::find_sealed`] returned, from the members beside it. Returns
    /// the body without them.
    ///
    /// # Errors
    /// [`Class::Json`] for members that are there twice or are no strings; as [`Fle::read`].
    pub fn take(
        &self,
        body: &[u8],
        rules: &[FieldRule],
        fields: &[Field],
    ) -> Result<(Zeroizing<Vec<u8>>, Vec<Metadata>), Refusal> {
        let mut body: Body = Zeroizing::new(body.to_vec());
        let mut found = Vec::with_capacity(fields.len());
        for field in fields {
            let Some(rule) = rules.get(field.rule) else { continue };
            let around = rule.around(field);
            let text = Text::parse(&body)?;
            let metadata = self.read(|name| {
                let Some(value) = find(&text, &beside(&around, name))? else { return Ok(None) };
                let value = text.string(&value);
                value.map(Some).ok_or_else(|| Refusal::quoting(Class::Json, "a member is not a string", name))
            })?;
            found.push(metadata);
            for name in self.names.metadata() {
                if find(&Text::parse(&body)?, &beside(&around, name))?.is_some() {
                    body = remove(&body, &beside(&around, name))?.0;
                }
            }
        }
        Ok((body, found))
    }

    /// Reads the metadata by the names: `get` returns what has a name, or nothing.
    ///
    /// # Errors
    /// Those of `get`; [`Class::Shape`] if the IV or the encrypted key is absent; [`Class::Base64`]; [`Class::Alg`] for a digest that
    /// is not SHA-256 or SHA-512.
    pub fn read<'a>(&self, get: impl Fn(&str) -> Result<Option<Cow<'a, str>>, Refusal>) -> Result<Metadata, Refusal> {
        let bytes = |name: &str| {
            let text = get(name)?.ok_or_else(|| Refusal::quoting(Class::Shape, "the message does not have", name))?;
            self.encoding.decode(text.as_bytes())
        };
        let optional = |name: &Option<String>| name.as_deref().map_or(Ok(None), &get);
        let alg = match optional(&self.names.digest)?.as_deref() {
            None => None,
            Some("SHA256" | "SHA-256") => Some(Alg::RsaOaep256),
            Some("SHA512" | "SHA-512") => Some(Alg::RsaOaep512),
            Some(other) => return Err(Refusal::quoting(Class::Alg, "the digest is not supported", other)),
        };
        let kid = optional(&self.names.key_fingerprint)?.map(Cow::into_owned);
        Ok(Metadata { iv: bytes(&self.names.iv)?, encrypted_key: bytes(&self.names.encrypted_key)?, alg, kid })
    }
}

/// Returns the path of a member of the object at `around`.
fn beside<'a>(around: &[At<'a>], name: &'a str) -> Vec<At<'a>> {
    around.iter().copied().chain([At::Name(name)]).collect()
}

/// The metadata of an encrypted value.
#[derive(Clone, PartialEq, Eq)]
pub struct Metadata {
    pub(super) iv: Vec<u8>,
    pub(super) encrypted_key: Vec<u8>,
    pub(super) alg: Option<Alg>,
    pub(super) kid: Option<String>,
}

impl Metadata {
    /// Returns the initialisation vector as sent, of any length.
    pub fn iv(&self) -> &[u8] {
        &self.iv
    }

    /// Returns the encrypted key as sent, of any length.
    pub fn encrypted_key(&self) -> &[u8] {
        &self.encrypted_key
    }

    /// Returns the algorithm that belongs to the digest, if the message has one.
    pub fn alg(&self) -> Option<Alg> {
        self.alg
    }

    /// Returns the name of the recipient's key, if the message has one.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata").field("alg", &self.alg).field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// Seals values under one content key and IV: one value where the metadata is beside it, all of a message where it is in headers.
pub struct FieldSealer<'a> {
    fle: &'a Fle,
    provider: &'a dyn JoseProvider,
    randoms: SealRandoms,
    metadata: Vec<(String, String)>,
}

impl<'a> FieldSealer<'a> {
    /// Encrypts a content key to the recipient. `randoms` are its content key and IV.
    ///
    /// # Errors
    /// [`SealError`]; [`SealError::Algorithm`] too if the profile is one of JWE.
    // SPEC mle.md#field-level-form
    pub fn new(
        profile: &'a Profile,
        message: Message,
        key: &SealingKey,
        randoms: SealRandoms,
        provider: &'a dyn JoseProvider,
    ) -> Result<FieldSealer<'a>, SealError> {
        let (alg, enc) = key.algorithms();
        let fle = profile.fle().filter(|_| profile.allows(message, alg, enc));
        let fle = fle.ok_or(SealError::Algorithm(profile.name(), alg.as_str(), enc.as_str()))?;
        let cek = randoms.cek.get(..KEY_LEN).unwrap_or_default();
        let encrypted_key = key.content_key(cek, provider.base())?.encrypted_key;
        let digest = if alg == Alg::RsaOaep512 { "SHA512" } else { "SHA256" };
        let certificate = key.public().and_then(|public| public.x509());
        let certificate = certificate.map(|certificate| hex(&certificate_sha256(certificate, provider.base())));
        let names = &fle.names;
        let members = [
            (Some(&names.iv), Some(fle.encoding.encode(&randoms.iv))),
            (Some(&names.encrypted_key), Some(fle.encoding.encode(&encrypted_key))),
            (names.digest.as_ref(), Some(digest.to_owned())),
            (names.key_fingerprint.as_ref(), Some(key.kid().to_owned())),
            (names.certificate_fingerprint.as_ref(), certificate),
        ];
        let metadata = members.into_iter().filter_map(|(name, value)| Some((name?.clone(), value?))).collect();
        Ok(FieldSealer { fle, provider, randoms, metadata })
    }

    /// Seals a value. Its metadata is beside it unless it is in headers.
    ///
    /// # Errors
    /// [`SealError::Crypto`].
    pub fn seal(&self, plaintext: &[u8]) -> Result<Envelope, SealError> {
        let mut data = copy(plaintext);
        let padding = BLOCK_LEN - plaintext.len() % BLOCK_LEN;
        data.extend(core::iter::repeat_n(u8::try_from(padding).unwrap_or_default(), padding));
        let cek = self.randoms.cek.get(..KEY_LEN).unwrap_or_default();
        self.provider.encrypt_blocks(cek, &self.randoms.iv, &mut data)?;
        let beside = if self.fle.place == Place::Body { self.metadata.clone() } else { Vec::new() };
        Ok(Envelope { value: self.fle.encoding.encode(&data), beside })
    }

    /// Returns the names and values of the headers; none where the metadata is in the body.
    pub fn into_headers(self) -> Vec<(String, String)> {
        if self.fle.place == Place::Headers { self.metadata } else { Vec::new() }
    }
}

impl fmt::Debug for FieldSealer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldSealer").field("fle", &self.fle).finish_non_exhaustive()
    }
}

/// Decrypts in place and cuts the padding. On failure `data` keeps its length, and is no plaintext.
pub(super) fn decrypt(key: &[u8], iv: &[u8], data: &mut Vec<u8>, provider: &dyn JoseProvider) -> Result<(), Refusal> {
    let decrypted = provider.decrypt_blocks(key, iv, data);
    decrypted.map_err(|_| Refusal::new(Class::Padding, "the value does not decrypt"))?;
    match padding_len(data) {
        Some(len) => {
            data.truncate(data.len() - len);
            Ok(())
        }
        None => Err(Refusal::new(Class::Padding, "the padding is malformed")),
    }
}

/// Returns the length of a PKCS#7 padding (RFC 5652 section 6.3), 1 to 16. It reads the whole last block, whatever is in it, so that
/// its time does not show where a padding goes wrong.
fn padding_len(data: &[u8]) -> Option<usize> {
    let block = data.last_chunk::<BLOCK_LEN>()?;
    let last = *block.last()?;
    let mut is_right = !last.ct_eq(&0) & !last.ct_gt(&16);
    for (behind, byte) in (0_u8..).zip(block.iter().rev()) {
        let is_padding: Choice = last.ct_gt(&behind);
        is_right &= !is_padding | byte.ct_eq(&last);
    }
    bool::from(is_right).then_some(usize::from(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mle::body::{EACH_MAX_DEFAULT, find_sealed};

    fn names() -> FleNames {
        let text = |text: &str| text.to_owned();
        FleNames {
            value: text("data"),
            iv: text("iv"),
            encrypted_key: text("key"),
            digest: Some(text("digest")),
            key_fingerprint: Some(text("print")),
            certificate_fingerprint: None,
        }
    }

    fn fle() -> Fle {
        Fle::new(Place::Body, Encoding::Hex, names()).unwrap()
    }

    #[test]
    fn a_padding_is_one_of_sixteen() {
        for byte in 0..=u8::MAX {
            let len = usize::from(byte);
            for wrong in 1..BLOCK_LEN {
                let mut block = [0xff; 2 * BLOCK_LEN];
                if (1..=BLOCK_LEN).contains(&len) {
                    block[2 * BLOCK_LEN - len..].fill(byte);
                }
                block[2 * BLOCK_LEN - 1] = byte;
                let expected = (1..=BLOCK_LEN).contains(&len).then_some(len);
                assert_eq!(padding_len(&block), expected, "{byte}");
                // Any byte of the padding that is another one.
                block[2 * BLOCK_LEN - 1 - wrong] ^= 0x40;
                let is_inside = wrong < len;
                assert_eq!(padding_len(&block), expected.filter(|_| !is_inside), "{byte} {wrong}");
            }
        }
        assert_eq!(padding_len(&[]), None);
        assert_eq!(padding_len(&[1; 15]), None);
    }

    #[test]
    fn a_text_has_one_spelling() {
        for (encoding, right, wrong) in [
            (Encoding::Hex, "fbff", &["fbf", "fb ff", "0xfb", "fbfg", "+bff", "f\u{e9}f"][..]),
            (Encoding::Base64, "+/8=", &["+/8", "-_8=", "+/9=", "+/8=\n", "+/8=="]),
            (Encoding::Base64Url, "-_8", &["-_8=", "+/8", "-_9", " -_8"]),
        ] {
            let bytes = encoding.decode(right.as_bytes()).unwrap();
            assert_eq!((bytes.as_slice(), encoding.encode(&bytes).as_str()), (&[0xfb, 0xff][..], right));
            for text in wrong {
                assert_eq!(encoding.decode(text.as_bytes()).unwrap_err().kind(), Class::Base64, "{text:?}");
            }
        }
        assert_eq!(Encoding::Hex.decode(b"FbFF").unwrap(), [0xfb, 0xff]);
    }

    #[test]
    fn names_are_distinct_and_of_members() {
        let with = |change: fn(&mut FleNames)| {
            let mut names = names();
            change(&mut names);
            names
        };
        let twice = with(|names| names.digest = Some("iv".into()));
        assert_eq!(Fle::new(Place::Body, Encoding::Hex, twice), Err(FleError::Twice("iv".into())));
        let twice = with(|names| names.iv = "KEY".into());
        assert!(Fle::new(Place::Body, Encoding::Hex, twice.clone()).is_ok());
        assert!(matches!(Fle::new(Place::Headers, Encoding::Hex, twice), Err(FleError::Twice(_))));
        for name in ["", "a.b", "a[*]", "a\n"] {
            let mut names = names();
            names.value = name.into();
            assert!(matches!(Fle::new(Place::Body, Encoding::Hex, names), Err(FleError::Name(..))), "{name:?}");
        }
    }

    #[test]
    fn metadata_is_taken_from_beside_each_value() {
        let (fle, rules) = (fle(), [fle().opening_rule("$.l[*].c", "$.l[*].plain").unwrap()]);
        let value = |n: u8| {
            format!(r#"{{"c":{{"iv":"0{n}","data":"aa","key":"ff","print":"k{n}","digest":"SHA512","other":1.0}}}}"#)
        };
        let body = format!(r#"{{"l":[{},{{"x":0}},{}]}}"#, value(1), value(2));
        let fields = find_sealed(body.as_bytes(), &rules, EACH_MAX_DEFAULT).unwrap();
        let (rest, metadata) = fle.take(body.as_bytes(), &rules, &fields).unwrap();
        let rest = core::str::from_utf8(&rest).unwrap();
        assert_eq!(rest, r#"{"l":[{"c":{"data":"aa","other":1.0}},{"x":0},{"c":{"data":"aa","other":1.0}}]}"#);
        let kids: Vec<_> = metadata.iter().map(|it| (it.iv(), it.kid().unwrap())).collect();
        assert_eq!(kids, [(&[1][..], "k1"), (&[2], "k2")]);
        assert_eq!(metadata[0].alg(), Some(Alg::RsaOaep512));
        for (body, class) in [
            (r#"{"data":"aa","key":"ff"}"#, Class::Shape),
            (r#"{"data":"aa","iv":"00"}"#, Class::Shape),
            (r#"{"data":"aa","key":"ff","iv":"0"}"#, Class::Base64),
            (r#"{"data":"aa","key":"ff","iv":7}"#, Class::Json),
            (r#"{"data":"aa","key":"ff","iv":"00","iv":"00"}"#, Class::Json),
            (r#"{"data":"aa","key":"ff","iv":"00","digest":"SHA1"}"#, Class::Alg),
        ] {
            let rules = [fle.opening_rule("$", "$").unwrap()];
            let fields = find_sealed(body.as_bytes(), &rules, EACH_MAX_DEFAULT).unwrap();
            assert_eq!(fle.take(body.as_bytes(), &rules, &fields).unwrap_err().kind(), class, "{body}");
        }
    }
}
