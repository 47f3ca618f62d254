//! The cells of the tests: libraries, profiles, and the bodies that each library can do.

use serde_json::json;

use super::fields::FieldForm;

/// Bodies that every library takes and returns unchanged.
const BODIES: [&str; 7] = [
    r#"{"amount":1099,"currency":"EUR"}"#,
    r#"{"z":1,"a":{"b":true,"10":null,"2":-3},"m":[],"":""}"#,
    r#"{"name":"Zoë 𝒳 😀","escaped":"\ud83d\ude80 \" \\ \/ \n \u0000","ключ":"значение"}"#,
    r#"[{"a":1},[2,[]],"three",null,false]"#,
    "{}",
    "[]",
    " {\r\n\t\"a\" : [ 1 , 2 ] }\n",
];
/// A body with a member of the wrapper's name. Mastercard's libraries for Python and Java drop it after they have decrypted.
const NAMESAKE: &str = r#"{"encryptedData":"not a token","encData":{"encryptedRequest":1.5}}"#;
/// Numbers that a double has not, or not in this form.
const NUMBERS: [&str; 2] = [r#"{"n":12345678901234567890,"f":1.0}"#, r#"[-0.0,100000000000000000001,1.10]"#];
/// Bodies that are not JSON.
const BYTES: [&str; 4] = ["", "x", "4111 1111 1111 1111 😀", "{\"cut"];

/// Bodies with values at the paths `card` and `customer.address`; each has one at least.
const FIELDS: [&str; 4] = [
    r#"{"amount":1,"card":{"pan":"4111111111111111","cvv":"012"},"currency":"EUR"}"#,
    r#"{"card":{"pan":"4111111111111111"},"customer":{"name":"Zoë 😀","address":{"city":"Åbo","lines":["𝒳"]}}}"#,
    r#"{"customer":{"address":{"zip":"00100"},"name":"x"},"items":[{"kind":1}]}"#,
    r#"{"z":[],"card":{},"a":null}"#,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Node,
    Python,
    Go,
    Java,
}

/// A library and a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) language: Language,
    /// The name of the library in its program.
    pub(super) library: &'static str,
    pub(super) profile: &'static str,
    /// `whole` if the body is one token, `fields` if values at paths are.
    pub(super) shape: &'static str,
    pub(super) alg: &'static str,
    /// The content encryption of the gateway's tokens.
    pub(super) enc: &'static str,
    /// The settings of the field-level form.
    pub(super) fle: Option<FieldForm>,
    /// The place of signatures in `open-banking`: `nested` or `detached`.
    pub(super) signature: Option<&'static str>,
}

/// The names of the content encryptions.
pub(super) const ALL_ENCS: [&str; 6] =
    ["A256GCM", "A192GCM", "A128GCM", "A128CBC-HS256", "A192CBC-HS384", "A256CBC-HS512"];

impl Cell {
    pub(super) const fn mastercard(language: Language, shape: &'static str) -> Cell {
        let cell = Cell::jose(language, "mastercard", "mastercard-jwe", "RSA-OAEP-256", "A256GCM");
        Cell { shape, ..cell }
    }

    pub(super) const fn jose(
        language: Language,
        library: &'static str,
        profile: &'static str,
        alg: &'static str,
        enc: &'static str,
    ) -> Cell {
        Cell { language, library, profile, shape: "whole", alg, enc, fle: None, signature: None }
    }

    pub(super) const fn open_banking(
        language: Language,
        library: &'static str,
        alg: &'static str,
        form: &'static str,
    ) -> Cell {
        let cell = Cell::jose(language, library, "open-banking", alg, "A256GCM");
        Cell { signature: Some(form), ..cell }
    }

    /// Returns the content encryptions of the library's tokens, in turn.
    pub(super) fn encs(&self, is_request: bool) -> &'static [&'static str] {
        match self.profile {
            "visa" => &["A128GCM", "A256GCM"],
            "visa-acceptance" if is_request => &["A256GCM"],
            "visa-acceptance" => &["A256GCM", "A128GCM"],
            _ => &ALL_ENCS,
        }
    }

    /// True if requests with one token name the SHA-256 of its plaintext. Mastercard's Java library and the SDK do not show it.
    pub(super) fn has_digest(&self) -> bool {
        self.library != "cybersource-sdk" && (self.library, self.language) != ("mastercard", Language::Java)
    }

    /// The bodies that the library can do.
    pub(super) fn bodies(&self) -> Vec<String> {
        let large = json!({ "text": "0123456789abcdef".repeat(4096) }).to_string();
        let with = |lists: &[&[&str]]| -> Vec<String> {
            lists.concat().into_iter().map(str::to_owned).chain([large]).collect()
        };
        match (self.library, self.shape, self.language) {
            // Claims stand in an object.
            _ if self.signature == Some("nested") => {
                let bodies: Vec<String> = with(&[&BODIES, &[NAMESAKE], &NUMBERS]);
                bodies.into_iter().filter(|body| body.trim_start().starts_with('{')).collect()
            }
            // It seals `null` for a path that is absent, and panics if the token is: its one path is `card`.
            ("mastercard", "fields", Language::Go) => {
                FIELDS.iter().filter(|body| !body.starts_with("{\"customer\"")).map(|body| (*body).to_owned()).collect()
            }
            ("mastercard", "fields", _) => FIELDS.map(str::to_owned).to_vec(),
            // This form's root is an object.
            ("mastercard", _, _) if self.fle.is_some() => {
                let bodies: Vec<String> = with(&[&BODIES]);
                bodies.into_iter().filter(|body| body.trim_start().starts_with('{')).collect()
            }
            // These two do not parse numbers to doubles before they encrypt them, or keep whole numbers exact.
            ("mastercard", _, Language::Python | Language::Java) => with(&[&BODIES, &NUMBERS]),
            ("mastercard", _, _) => with(&[&BODIES, &[NAMESAKE]]),
            _ => with(&[&BODIES, &[NAMESAKE], &NUMBERS, &BYTES]),
        }
    }

    /// True if plaintexts are the bytes of the bodies.
    pub(super) fn is_byte_exact(&self) -> bool {
        self.library != "mastercard" && self.signature != Some("nested")
    }
}
