//! Checks of a response, parsed once for a run.

use std::borrow::Cow;

use memchr::memmem::Finder;
use serde_json::Value;
use serde_json_path::JsonPath;

use super::RequestError;
use super::template::{Name, Template, Values};
use crate::plan::Assertion;
use crate::record::{Class, Failure};

/// Length of the excerpt of a response in a failure's message, in characters.
const EXCERPT: usize = 120;

/// All assertions about a response, parsed.
#[derive(Default)]
pub(crate) struct Checks {
    /// Statuses that pass; empty for 200 to 299.
    statuses: Vec<u16>,
    bodies: Vec<BodyCheck>,
}

enum BodyCheck {
    Json { text: String, path: JsonPath, equals: Template },
    Holds { text: Template, finder: Option<Box<Finder<'static>>> },
    Is(Template),
}

impl Checks {
    /// Parses the assertions of a plan.
    ///
    /// # Errors
    /// [`RequestError`], of the first assertion that is not valid.
    pub(crate) fn new(assertions: &[Assertion]) -> Result<Self, RequestError> {
        let mut checks = Checks::default();
        let template = |text: &str| Template::parse(text).map_err(|err| RequestError::new("assertion", err));
        for assertion in assertions {
            checks.bodies.push(match assertion {
                Assertion::Status(statuses) => {
                    checks.statuses.extend(statuses);
                    continue;
                }
                Assertion::JsonPath { path: text, equals } => {
                    BodyCheck::Json { text: text.clone(), path: json_path(text)?, equals: template(equals)? }
                }
                Assertion::BodyHolds(text) => {
                    let text = template(text)?;
                    let finder = text.as_fixed().map(|bytes| Box::new(Finder::new(bytes).into_owned()));
                    BodyCheck::Holds { text, finder }
                }
                Assertion::BodyIs(text) => BodyCheck::Is(template(text)?),
            });
        }
        Ok(checks)
    }

    /// Returns whether a check needs the body of the response.
    pub(crate) fn want_body(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// Returns whether a check uses this template value.
    pub(crate) fn has(&self, name: Name) -> bool {
        self.bodies.iter().any(|check| match check {
            BodyCheck::Json { equals, .. } => equals.has(name),
            BodyCheck::Holds { text, .. } | BodyCheck::Is(text) => text.has(name),
        })
    }

    /// Checks the status of a response.
    pub(crate) fn status(&self, status: u16) -> Result<(), Failure> {
        let right = match self.statuses.as_slice() {
            [] => (200..300).contains(&status),
            statuses => statuses.contains(&status),
        };
        if right { Ok(()) } else { Err(Failure::new(Class::Status, format!("unexpected status {status}"))) }
    }

    /// Checks the body of a response against all assertions about it.
    pub(crate) fn body(&self, body: &[u8], values: &Values) -> Result<(), Failure> {
        let mut json = None;
        for check in &self.bodies {
            match check {
                BodyCheck::Json { text, path, equals } => {
                    let value = match &mut json {
                        Some(value) => value,
                        none => none.insert(serde_json::from_slice::<Value>(body).map_err(|err| {
                            Failure::new(Class::Assertion, format!("the body is not JSON ({err}): {}", excerpt(body)))
                        })?),
                    };
                    let expected = filled(equals, values);
                    let nodes = path.query(value);
                    if !nodes.iter().any(|node| as_text(node).as_bytes() == expected.as_ref()) {
                        return Err(json_failure(text, nodes.first(), &expected));
                    }
                }
                BodyCheck::Holds { text, finder } => {
                    let expected = filled(text, values);
                    let found = match finder {
                        Some(finder) => finder.find(body).is_some(),
                        None => memchr::memmem::find(body, &expected).is_some(),
                    };
                    if !found {
                        let (expected, body) = (excerpt(&expected), excerpt(body));
                        return Err(Failure::new(
                            Class::Assertion,
                            format!("the body does not contain {expected}: {body}"),
                        ));
                    }
                }
                BodyCheck::Is(text) => {
                    let expected = filled(text, values);
                    if body != expected.as_ref() {
                        let (expected, body) = (excerpt(&expected), excerpt(body));
                        return Err(Failure::new(Class::Assertion, format!("the body is not {expected} but {body}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Parses a JSONPath of RFC 9535.
pub(crate) fn json_path(text: &str) -> Result<JsonPath, RequestError> {
    JsonPath::parse(text).map_err(|err| {
        let at = err.position() + 1;
        RequestError::new("assertion", format!("{text} is not a JSONPath: {} at character {at}", err.message()))
    })
}

fn filled<'a>(template: &'a Template, values: &Values) -> Cow<'a, [u8]> {
    match template.as_fixed() {
        Some(bytes) => Cow::Borrowed(bytes),
        None => {
            let mut out = Vec::new();
            template.fill(values, &mut out);
            Cow::Owned(out)
        }
    }
}

/// Returns a string without its quotes, and any other value as JSON.
fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(value.to_string()),
    }
}

fn json_failure(path: &str, found: Option<&Value>, expected: &[u8]) -> Failure {
    let expected = excerpt(expected);
    let detail = match found {
        None => format!("nothing at {path}; expected {expected}"),
        Some(value) => {
            format!("{} at {path}; expected {expected}", excerpt(as_text(value).as_bytes()))
        }
    };
    Failure::new(Class::Assertion, detail)
}

/// Returns the beginning of a body on one line, in quotes.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let body = &body[..body.len().min(EXCERPT * 4)];
    let text = String::from_utf8_lossy(body);
    let mut letters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut text: String = letters.by_ref().take(EXCERPT).collect();
    if letters.next().is_some() {
        text.push('…');
    }
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values { counter: 41, ..Values::default() }
    }

    fn shown(assertion: Assertion, body: &str) -> Result<(), String> {
        let checks = Checks::new(&[assertion]).unwrap();
        checks.body(body.as_bytes(), &values()).map_err(|failure| failure.detail)
    }

    fn json(path: &str, equals: &str, body: &str) -> Result<(), String> {
        shown(Assertion::JsonPath { path: path.into(), equals: equals.into() }, body)
    }

    #[test]
    fn without_a_list_of_statuses_two_hundred_to_two_hundred_and_ninety_nine_are_right() {
        let checks = Checks::new(&[]).unwrap();
        assert!(checks.status(200).is_ok() && checks.status(299).is_ok());
        assert_eq!(checks.status(302).unwrap_err().class, Class::Status);
        let checks = Checks::new(&[Assertion::Status(vec![404, 410])]).unwrap();
        assert!(checks.status(404).is_ok() && checks.status(200).is_err());
    }

    #[test]
    fn values_of_json_are_compared_as_text() {
        let body = r#"{"id":"x-41","n":41,"ok":true,"none":null,"list":[{"a":1},{"a":2}]}"#;
        for (path, equals) in [
            ("$.id", "x-{{counter}}"),
            ("$.n", "{{counter}}"),
            ("$.ok", "true"),
            ("$.none", "null"),
            ("$.list[1].a", "2"),
            ("$.list[*].a", "2"),
            ("$['list'][0]", r#"{"a":1}"#),
        ] {
            assert_eq!(json(path, equals, body), Ok(()), "{path}");
        }
        assert_eq!(json("$.id", "y", body).unwrap_err(), r#""x-41" at $.id; expected "y""#);
        assert_eq!(json("$.other", "y", body).unwrap_err(), r#"nothing at $.other; expected "y""#);
        assert!(json("$.id", "y", "<html>").unwrap_err().starts_with("the body is not JSON"));
    }

    #[test]
    fn a_body_holds_or_is_a_text() {
        assert_eq!(shown(Assertion::BodyHolds("41".into()), "a 41 b"), Ok(()));
        assert_eq!(shown(Assertion::BodyHolds("{{counter}}".into()), "a 41 b"), Ok(()));
        assert!(shown(Assertion::BodyHolds("42".into()), "a 41 b").is_err());
        assert_eq!(shown(Assertion::BodyIs("n={{counter}}".into()), "n=41"), Ok(()));
        assert_eq!(shown(Assertion::BodyIs("n".into()), "n=41").unwrap_err(), r#"the body is not "n" but "n=41""#);
    }

    #[test]
    fn a_path_that_is_none_is_reported_with_its_place() {
        let path = Assertion::JsonPath { path: "$.a[".into(), equals: String::new() };
        let shown = Checks::new(&[path]).err().unwrap().to_string();
        assert!(shown.contains("$.a[ is not a JSONPath") && shown.contains("at character"), "{shown}");
    }
}
