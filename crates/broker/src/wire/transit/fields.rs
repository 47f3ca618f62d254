//! Fields of a request: a JSON object of texts, numbers, switches and one list of such objects, within bounds. Errors name
//! the field, and never contain a value.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

use crate::operation::BATCH_MAX;
use crate::{Refusal, Result};

/// Most fields of an object: more than any request has.
const FIELDS_MAX: usize = 32;
/// Longest name of a field, in bytes.
const NAME_LEN_MAX: usize = 64;
/// Largest whole number: JSON libraries keep it exact.
const NUMBER_MAX: u64 = 1 << 53;

/// Fields of a request or of an entry of its batch, each taken once.
#[derive(Default)]
pub struct Fields(Vec<(String, Value)>);

/// Value of a field. It has no `Debug`: it may be a secret.
enum Value {
    Null,
    Switch(bool),
    Number(u64),
    Text(Zeroizing<String>),
    List(Vec<Fields>),
    /// A value that no field has: an object, a fraction, a negative number.
    Other,
}

impl Fields {
    /// Parses the body of a request; an empty one, and `null`, have no fields.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): not a JSON object within the bounds.
    pub fn parse(body: &[u8]) -> Result<Fields> {
        if matches!(body.trim_ascii(), b"" | b"null") {
            return Ok(Fields::default());
        }
        let mut json = serde_json::Deserializer::from_slice(body);
        let parsed = (&mut json).deserialize_map(ObjectVisitor { is_entry: false }).and_then(|fields| {
            json.end()?;
            Ok(fields)
        });
        // Errors of the parser about a text would cite it: only this module's own are shown.
        parsed.map_err(|err| match err.to_string().strip_prefix(OWN) {
            Some(text) => Refusal::invalid(text.split(" at line ").next().unwrap_or_default().to_owned()),
            None => Refusal::invalid(format!(
                "body: expected a JSON object; the error is at line {} column {}",
                err.line(),
                err.column()
            )),
        })
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        match self.0.swap_remove(at).1 {
            Value::Null => None,
            value => Some(value),
        }
    }

    /// Takes the text of a field.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): it is not a text.
    pub fn text(&mut self, name: &str) -> Result<Option<Zeroizing<String>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::invalid(format!("{name}: expected a string"))),
        }
    }

    /// Takes bytes in base64 with padding (RFC 4648 section 4).
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): it is not base64.
    pub fn bytes(&mut self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let bytes = STANDARD.decode(text.as_bytes()).map(Zeroizing::new);
        bytes.map(Some).map_err(|_| Refusal::invalid(format!("{name}: expected base64 with padding")))
    }

    /// Takes bytes as of [`Fields::bytes`] that have to be there.
    ///
    /// # Errors
    /// As of [`Fields::bytes`]; the field is missing.
    pub fn required_bytes(&mut self, name: &str) -> Result<Zeroizing<Vec<u8>>> {
        self.bytes(name)?.ok_or_else(|| Refusal::invalid(format!("{name}: required, in base64")))
    }

    /// Takes a whole number, or a text of its digits.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): it is not such a number.
    pub fn number(&mut self, name: &str) -> Result<Option<u32>> {
        let number = match self.take(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => u32::try_from(number).ok(),
            Some(Value::Text(text)) => Some(&*text)
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse().ok()),
            Some(_) => None,
        };
        number.map(Some).ok_or_else(|| Refusal::invalid(format!("{name}: expected a whole number")))
    }

    /// Takes a switch: `true` or `false`, also as a text.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): it is neither.
    pub fn switch(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Switch(is_on)) => Ok(Some(is_on)),
            Some(Value::Text(text)) if *text == "true" => Ok(Some(true)),
            Some(Value::Text(text)) if *text == "false" => Ok(Some(false)),
            Some(_) => Err(Refusal::invalid(format!("{name}: expected true or false"))),
        }
    }

    /// Takes a text that is one of these names; without it the first one.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): another text, or no text.
    pub fn choice<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<T> {
        let text = self.text(name)?;
        let found = match &text {
            None => words.first(),
            Some(text) => words.iter().find(|(word, _)| *word == text.as_str()),
        };
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            Refusal::invalid(format!("{name}: expected one of {}", words.join(", ")))
        })
    }

    /// Rejects fields whose effect this broker does not have: set to anything but `false`, 0 or the empty text.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument), with the reason.
    pub fn without(&mut self, names: &[&str], why: &str) -> Result<()> {
        for name in names {
            let is_off = match self.take(name) {
                None | Some(Value::Switch(false) | Value::Number(0)) => true,
                Some(Value::Text(text)) => matches!(text.as_str(), "" | "0" | "0s" | "false"),
                Some(_) => false,
            };
            if !is_off {
                return Err(Refusal::invalid(format!("{name}: {why}")));
            }
        }
        Ok(())
    }

    /// Takes the entries of a batch: those of `batch_input`, or the fields themselves as the only entry.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): it is not a list of objects, it is empty, or other fields
    /// stand beside it.
    pub fn batch(mut self) -> Result<Batch> {
        match self.take("batch_input") {
            None => Ok(Batch { entries: vec![self], is_list: false, partial: None }),
            Some(Value::List(entries)) if !entries.is_empty() => {
                let partial = self.number("partial_failure_response_code")?;
                let partial = partial.map(|code| u16::try_from(code).unwrap_or_default());
                if partial.is_some_and(|code| !(200..=599).contains(&code)) {
                    return Err(Refusal::invalid("partial_failure_response_code: expected a status from 200 to 599"));
                }
                self.end()?;
                Ok(Batch { entries, is_list: true, partial })
            }
            Some(_) => Err(Refusal::invalid(format!("batch_input: expected a list of 1 to {BATCH_MAX} objects"))),
        }
    }

    /// True if the request, or the first entry of its batch, has the field.
    pub(super) fn entry_has(&self, name: &str) -> bool {
        let list = self.0.iter().find_map(|(_, value)| match value {
            Value::List(entries) => entries.first(),
            _ => None,
        });
        [Some(self), list].into_iter().flatten().any(|fields| fields.0.iter().any(|(known, _)| known == name))
    }

    /// Rejects fields that were not taken: a misspelt one must not be without effect.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument), with the name.
    pub fn end(self) -> Result<()> {
        match self.0.into_iter().find(|(_, value)| !matches!(value, Value::Null)) {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::invalid(format!("{name}: not a field of this request"))),
        }
    }
}

/// Entries of a request, whether or not it has a list.
pub struct Batch {
    /// Fields of each entry, in the request's order.
    pub entries: Vec<Fields>,
    /// True for `batch_input`: the answer is a list too.
    pub is_list: bool,
    /// Status for a batch of which only some entries failed; `None` for the default.
    pub partial: Option<u16>,
}

/// Begin of an error text of this module.
const OWN: &str = "\u{1}";

fn own<E: Error>(text: &str) -> E {
    E::custom(format!("{OWN}{text}"))
}

/// Visits an object. An entry of a batch has no list of its own.
#[derive(Clone, Copy)]
struct ObjectVisitor {
    is_entry: bool,
}

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        while let Some(name) = map.next_key_seed(Name)? {
            if fields.len() == FIELDS_MAX {
                return Err(own(&format!("body: more than {FIELDS_MAX} fields in an object")));
            }
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(own(&format!("{name}: given twice")));
            }
            let value = map.next_value_seed(ValueVisitor { is_entry: self.is_entry })?;
            fields.push((name, value));
        }
        Ok(Fields(fields))
    }
}

impl<'de> DeserializeSeed<'de> for ObjectVisitor {
    type Value = Fields;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Fields, D::Error> {
        json.deserialize_map(self)
    }
}

/// Visits a name of a field: up to 64 lower-case letters, digits and underscores, as errors show it.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<String, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.len() > NAME_LEN_MAX || !name.bytes().all(is_plain) {
            return Err(own("body: a name of a field has up to 64 lower-case letters, digits and underscores"));
        }
        Ok(name.to_owned())
    }
}

#[derive(Clone, Copy)]
struct ValueVisitor {
    is_entry: bool,
}

impl<'de> DeserializeSeed<'de> for ValueVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, is_on: bool) -> Result<Value, E> {
        Ok(Value::Switch(is_on))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(if number <= NUMBER_MAX { Value::Number(number) } else { Value::Other })
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Zeroizing::new(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        if self.is_entry {
            return Err(own("batch_input: an entry has a list, which no field of an entry is"));
        }
        let mut entries = Vec::new();
        while let Some(fields) = list.next_element_seed(ObjectVisitor { is_entry: true })? {
            if entries.len() == BATCH_MAX {
                return Err(own(&format!("batch_input: expected a list of 1 to {BATCH_MAX} objects")));
            }
            entries.push(fields);
        }
        Ok(Value::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str) -> String {
        Fields::parse(body.as_bytes()).err().map(|refusal| refusal.text).unwrap_or_default()
    }

    #[test]
    fn a_request_has_texts_numbers_and_switches_also_as_texts() {
        let body = br#"{"a":"eHk=","b":7,"c":"8","d":true,"e":"false","f":null,"g":""}"#;
        let mut fields = Fields::parse(body).unwrap();
        assert_eq!(**fields.required_bytes("a").unwrap(), *b"xy");
        assert_eq!((fields.number("b").unwrap(), fields.number("c").unwrap()), (Some(7), Some(8)));
        assert_eq!((fields.switch("d").unwrap(), fields.switch("e").unwrap()), (Some(true), Some(false)));
        assert!(fields.text("f").unwrap().is_none());
        fields.without(&["g", "h"], "no").unwrap();
        fields.end().unwrap();
        for body in ["", "null", " null\n"] {
            Fields::parse(body.as_bytes()).unwrap().end().unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_no_value_is_shown() {
        for (body, expected) in [
            ("[]", "body: expected a JSON object"),
            ("{", "body: expected a JSON object; the error is at line 1 column 1"),
            ("{} x", "body: expected a JSON object"),
            (r#""SECRET""#, "body: expected a JSON object"),
            (r#"{"a":"SECRET" "b"}"#, "body: expected a JSON object"),
            (r#"{"a":1,"a":"SECRET"}"#, "a: given twice"),
            (r#"{"SECRET SECRET":1}"#, "body: a name of a field"),
            (r#"{"batch_input":["SECRET"]}"#, "body: expected a JSON object"),
            (r#"{"batch_input":[{"x":[]}]}"#, "batch_input: an entry has a list"),
        ] {
            let found = text(body);
            assert!(found.starts_with(expected) && !found.contains("SECRET"), "{body}: {found}");
        }
        let many: Vec<String> = (0..=FIELDS_MAX).map(|n| format!("\"f{n}\":1")).collect();
        assert!(text(&format!("{{{}}}", many.join(","))).contains("more than 32 fields"));
        let entries = vec!["{}"; BATCH_MAX + 1].join(",");
        assert!(text(&format!("{{\"batch_input\":[{entries}]}}")).contains("1 to 1024"));
        let deep = format!("{{\"a\":{}{}}}", "{\"a\":".repeat(200_000), "}".repeat(200_000));
        assert!(text(&deep).starts_with("body: expected a JSON object"));
        let mut fields = Fields::parse(br#"{"a":"SECRET!","b":1.5,"c":-1,"d":{},"e":"x","f":[]}"#).unwrap();
        for refusal in [
            fields.bytes("a").err(),
            fields.number("b").err(),
            fields.number("c").err(),
            fields.text("d").err(),
            fields.switch("e").err(),
        ] {
            assert!(!refusal.unwrap().text.contains("SECRET"));
        }
        assert_eq!(fields.end().unwrap_err().text, "f: not a field of this request");
    }
}
