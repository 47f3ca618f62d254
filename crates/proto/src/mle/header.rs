//! The protected header of a token (RFC 7516 section 4), read strictly. SPEC mle.md#header

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::algorithm::{Alg, Enc};
use super::compact::{self, Alphabet};
use super::json::Text;
use super::refusal::{Class, Refusal};

/// Largest protected header, in bytes of its JSON.
pub const HEADER_LEN_MAX: usize = 4 * 1024;
/// Longest key name (`kid`), in bytes.
pub const KID_LEN_MAX: usize = 256;

/// Parameters that carry key material or name a place to fetch it. Nothing that a token names is fetched.
pub(super) const KEY_PARAMS: [&str; 5] = ["jku", "jwk", "x5u", "x5c", "x5t"];
/// Parameters of key agreement (RFC 7518 section 4.6.1), for `ECDH-ES` alone.
const AGREEMENT_PARAMS: [&str; 3] = ["epk", "apu", "apv"];
/// Parameters of algorithms that do not exist here (RFC 7518 sections 4.7 and 4.8).
const OTHER_PARAMS: [&str; 4] = ["iv", "tag", "p2s", "p2c"];

/// An ephemeral public key on P-256 (RFC 7518 section 4.6.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EphemeralPublic {
    /// The point, `0x04 || X || Y`. It is not yet checked to be on the curve.
    pub point: [u8; 65],
    /// The decoded `apu`, empty if absent.
    pub apu: Vec<u8>,
    /// The decoded `apv`, empty if absent.
    pub apv: Vec<u8>,
}

/// A protected header. `typ`, `cty` and unknown parameters are checked to be there once, and are not kept: they decide nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The algorithm of the encrypted key.
    pub alg: Alg,
    /// The algorithm of the content.
    pub enc: Enc,
    /// The name of the recipient's key.
    pub kid: Option<String>,
    /// The number of `iat`, in the unit of the profile.
    pub iat: Option<u64>,
    /// The SHA-256 of the recipient's certificate.
    pub x5t_s256: Option<[u8; 32]>,
    /// The sender's ephemeral key, with `ECDH-ES`.
    pub ephemeral: Option<EphemeralPublic>,
}

/// Members of one object by name, each at most once.
pub(super) struct Members<'a> {
    pub(super) text: Text<'a>,
    list: Vec<(Cow<'a, str>, Range<usize>)>,
}

impl<'a> Members<'a> {
    pub(super) fn read(text: Text<'a>, of: &Range<usize>) -> Result<Members<'a>, Refusal> {
        if !text.is_object(of) {
            return Err(Refusal::new(Class::Header, "the header is not a JSON object"));
        }
        let mut names = BTreeSet::new();
        let mut list = Vec::new();
        for member in text.members(of) {
            let name = text.string(&member.name).unwrap_or_default();
            if !names.insert(name.clone()) {
                return Err(Refusal::quoting(Class::Header, "the header has a member twice", &name));
            }
            list.push((name, member.value));
        }
        Ok(Members { text, list })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Range<usize>> {
        self.list.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns a member that must be a string if it is there.
    pub(super) fn string(&self, name: &'static str, class: Class) -> Result<Option<Cow<'a, str>>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match self.text.string(value) {
            Some(text) => Ok(Some(text)),
            None => Err(Refusal::quoting(class, "a parameter is not a string", name)),
        }
    }

    /// Returns a member that must be digits alone if it is there: no sign, fraction, exponent or string, so that no two readers see
    /// different numbers.
    pub(super) fn number(&self, name: &'static str, class: Class) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let digits = self.text.at(value);
        let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse::<u64>() {
            Ok(number) if is_digits => Ok(Some(number)),
            _ => Err(Refusal::composed(class, format!("{name} is not a whole number"))),
        }
    }

    /// Returns a member that must be base64url if it is there.
    fn bytes(&self, name: &'static str, class: Class) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(text) = self.string(name, class)? else { return Ok(None) };
        let bytes = compact::decode(text.as_bytes(), Alphabet::Strict);
        bytes.map(Some).map_err(|_| Refusal::quoting(class, "a parameter is not base64url", name))
    }
}

impl Header {
    /// Reads the JSON of a protected header.
    ///
    /// # Errors
    /// [`Class::Size`] over [`HEADER_LEN_MAX`]; [`Class::Header`] for what is not one JSON object without duplicates, or a `typ` or
    /// `cty` that is no string; the class of the parameter for the rest: [`Class::Crit`], [`Class::Zip`], [`Class::Param`],
    /// [`Class::Alg`], [`Class::Enc`], [`Class::Kid`], [`Class::Iat`], [`Class::Epk`].
    // SPEC mle.md#header
    pub fn parse(json: &[u8]) -> Result<Header, Refusal> {
        if json.len() > HEADER_LEN_MAX {
            return Err(Refusal::new(Class::Size, "the header is longer than 4096 bytes"));
        }
        let text = Text::parse(json).map_err(|fault| Refusal::new(Class::Header, fault.as_str()))?;
        let members = Members::read(text, &text.root())?;
        for name in ["crit", "b64"] {
            if members.get(name).is_some() {
                return Err(Refusal::quoting(Class::Crit, "the profile has no such parameter", name));
            }
        }
        if members.get("zip").is_some() {
            return Err(Refusal::new(Class::Zip, "compressed content is not opened"));
        }
        if let Some(name) = KEY_PARAMS.iter().find(|name| members.get(name).is_some()) {
            return Err(Refusal::quoting(Class::Param, "a token may not bring or name key material", name));
        }
        let alg = members.string("alg", Class::Alg)?.unwrap_or_default();
        let alg = Alg::parse(&alg).ok_or_else(|| Refusal::quoting(Class::Alg, "alg is not supported", &alg))?;
        let enc = members.string("enc", Class::Enc)?.unwrap_or_default();
        let enc = Enc::parse(&enc).ok_or_else(|| Refusal::quoting(Class::Enc, "enc is not supported", &enc))?;
        let foreign = if alg == Alg::EcdhEs { &[][..] } else { &AGREEMENT_PARAMS[..] };
        if let Some(name) = foreign.iter().chain(&OTHER_PARAMS).find(|name| members.get(name).is_some()) {
            return Err(Refusal::quoting(Class::Param, "a parameter does not belong to alg", name));
        }
        for name in ["typ", "cty"] {
            members.string(name, Class::Header)?;
        }
        let ephemeral = if alg == Alg::EcdhEs { Some(ephemeral(&members)?) } else { None };
        Ok(Header { alg, enc, kid: kid(&members)?, iat: iat(&members)?, x5t_s256: x5t_s256(&members)?, ephemeral })
    }
}

pub(super) fn kid(members: &Members<'_>) -> Result<Option<String>, Refusal> {
    let kid = members.string("kid", Class::Kid)?;
    match kid {
        Some(kid) if kid.is_empty() || kid.len() > KID_LEN_MAX => {
            Err(Refusal::new(Class::Kid, "kid is empty or longer than 256 bytes"))
        }
        kid => Ok(kid.map(Cow::into_owned)),
    }
}

fn iat(members: &Members<'_>) -> Result<Option<u64>, Refusal> {
    members.number("iat", Class::Iat)
}

pub(super) fn x5t_s256(members: &Members<'_>) -> Result<Option<[u8; 32]>, Refusal> {
    let Some(bytes) = members.bytes("x5t#S256", Class::Param)? else { return Ok(None) };
    match bytes.try_into() {
        Ok(hash) => Ok(Some(hash)),
        Err(_) => Err(Refusal::new(Class::Param, "x5t#S256 is not 32 bytes")),
    }
}

fn ephemeral(members: &Members<'_>) -> Result<EphemeralPublic, Refusal> {
    let Some(epk) = members.get("epk") else { return Err(Refusal::new(Class::Epk, "epk is absent")) };
    let point = Members::read(members.text, epk)
        .map_err(|_| Refusal::new(Class::Epk, "epk is not an object, or has a member twice"))?;
    let is = |name, value: &str| matches!(point.string(name, Class::Epk), Ok(Some(text)) if text == value);
    if !is("kty", "EC") || !is("crv", "P-256") || point.get("d").is_some() {
        return Err(Refusal::new(Class::Epk, "epk is not a public key on P-256"));
    }
    let mut bytes = Vec::from([4]);
    for name in ["x", "y"] {
        match point.bytes(name, Class::Epk)? {
            Some(coordinate) if coordinate.len() == 32 => bytes.extend_from_slice(&coordinate),
            _ => return Err(Refusal::new(Class::Epk, "a coordinate of epk is not 32 bytes")),
        }
    }
    let point = bytes.try_into().map_err(|_| Refusal::new(Class::Epk, "epk is not a point"))?;
    let info = |name| Ok::<_, Refusal>(members.bytes(name, Class::Epk)?.unwrap_or_default());
    Ok(EphemeralPublic { point, apu: info("apu")?, apv: info("apv")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(json: &str) -> Class {
        Header::parse(json.as_bytes()).expect_err(json).kind()
    }

    #[test]
    fn member_order_and_white_space_are_free() {
        let json = "{ \"kid\" : \"k\\u0031\",\r\n\"cty\":\"application/json\",\"enc\":\"A256GCM\",\"x\":[{}],\"alg\":\"RSA-OAEP-256\"}\n";
        let header = Header::parse(json.as_bytes()).unwrap();
        assert_eq!((header.alg, header.enc, header.kid.as_deref()), (Alg::RsaOaep256, Enc::A256Gcm, Some("k1")));
        assert_eq!((header.iat, header.x5t_s256, header.ephemeral), (None, None, None));
    }

    #[test]
    fn each_defect_has_its_class() {
        let with = |more: &str| format!(r#"{{"alg":"RSA-OAEP-256","enc":"A256GCM"{more}}}"#);
        for (json, expected) in [
            ("", Class::Header),
            ("[]", Class::Header),
            ("null", Class::Header),
            ("{}", Class::Alg),
            (r#"{"Alg":"RSA-OAEP-256","enc":"A256GCM"}"#, Class::Alg),
            (r#"{"alg":"RSA-OAEP-256","Enc":"A256GCM"}"#, Class::Enc),
            (r#"{"alg":null,"enc":"A256GCM"}"#, Class::Alg),
            (r#"{"alg":["RSA-OAEP-256"],"enc":"A256GCM"}"#, Class::Alg),
            (&with("} "), Class::Header),
            (&with("}{"), Class::Header),
            (&format!("\u{feff}{}", with("")), Class::Header),
            (&with(",\"a\":1,\"\\u0061\":2"), Class::Header),
            (&with(r#","typ":1"#), Class::Header),
            (&with(r#","crit":[]"#), Class::Crit),
            (&with(r#","b64":true"#), Class::Crit),
            (&with(r#","zip":"DEF""#), Class::Zip),
            (&with(r#","x5t":"a""#), Class::Param),
            (&with(r#","epk":{}"#), Class::Param),
            (&with(r#","p2c":1"#), Class::Param),
            (&with(r#","x5t#S256":"AA""#), Class::Param),
            (&with(r#","kid":"""#), Class::Kid),
            (&with(r#","kid":7"#), Class::Kid),
            (&with(&format!(r#","kid":"{}""#, "k".repeat(257))), Class::Kid),
            (&with(&format!(r#","pad":"{}""#, "k".repeat(4096))), Class::Size),
        ] {
            assert_eq!(class(json), expected, "{json}");
        }
        for iat in ["-1", "1.0", "1e3", "1e400", "\"1\"", "null", "true", "[1]", "18446744073709551616", "-0"] {
            assert_eq!(class(&with(&format!(r#","iat":{iat}"#))), Class::Iat, "{iat}");
        }
        assert_eq!(Header::parse(with(r#","iat":18446744073709551615"#).as_bytes()).unwrap().iat, Some(u64::MAX));
        let longest = with(&format!(r#","kid":"{}""#, "k".repeat(256)));
        assert_eq!(Header::parse(longest.as_bytes()).unwrap().kid.map(|kid| kid.len()), Some(256));
    }

    #[test]
    fn every_spelling_of_an_algorithm_but_its_own_is_rejected() {
        for name in
            ["none", "None", "RSA1_5", "rsa-oaep-256", "RSA-OAEP-256 ", "PBES2-HS256+A128KW", "A256GCMKW", "HS256", ""]
        {
            let json = format!(r#"{{"alg":"{name}","enc":"A256GCM"}}"#);
            assert_eq!(class(&json), Class::Alg, "{name}");
        }
        for name in ["a256gcm", "A256CBC", "C20P", "XC20P", "A256GCM\\u0000", "none"] {
            let json = format!(r#"{{"alg":"RSA-OAEP-256","enc":"{name}"}}"#);
            assert_eq!(class(&json), Class::Enc, "{name}");
        }
    }
}
