//! Tokens in bodies: as the body itself, as the sole member of an object, or at configured paths. SPEC mle.md#bodies

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;
use zeroize::Zeroizing;

use super::json::Text;
use super::path::{At, Path, PathError, Step, steps};
use super::profile::Wrapper;
use super::refusal::{Class, Refusal};
use super::splice::{Body, find, insert, merge, remove, replace};

/// Default of the most elements that `[*]` names. They are counted before any token is opened.
pub const EACH_MAX_DEFAULT: usize = 16;

/// The JSON of values that are neither objects nor arrays. Libraries differ, so it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalars {
    /// Rejects such values in both directions.
    Refuse,
    /// A string is encrypted without its quotes; what is decrypted and is not JSON is a string: Java, Node and Python.
    Raw,
    /// Every value is encrypted as its JSON, strings with quotes: Go.
    Json,
}

/// Takes the token out of a body.
///
/// # Errors
/// [`Class::Json`] if the body is not JSON, or the token is not the sole member of its object: what stands beside it in clear is
/// not protected.
pub fn unwrap(body: &[u8], wrapper: Wrapper) -> Result<Vec<u8>, Refusal> {
    let Wrapper::Member(name) = wrapper else { return Ok(body.to_vec()) };
    let text = Text::parse(body)?;
    let mut members = text.members(&text.root());
    let (Some(member), None) = (members.next(), members.next()) else {
        return Err(Refusal::new(Class::Json, "the body is not an object with the token as its sole member"));
    };
    if text.string(&member.name).as_deref() != Some(name) {
        return Err(Refusal::quoting(Class::Json, "the sole member of the body is not", name));
    }
    let token = text.string(&member.value).ok_or_else(|| Refusal::new(Class::Json, "the token is not a string"))?;
    Ok(token.as_bytes().to_vec())
}

/// Returns whether a body has the form of the wrapper, by its bytes alone: one object whose sole member has the name. A bare token
/// is recognised by its media type instead.
pub fn is_wrapped(body: &[u8], wrapper: Wrapper) -> bool {
    matches!(wrapper, Wrapper::Member(_)) && unwrap(body, wrapper).is_ok()
}

/// Makes a body of a token.
pub fn wrap(token: &str, wrapper: Wrapper) -> Vec<u8> {
    match wrapper {
        Wrapper::Bare => token.as_bytes().to_vec(),
        // A token needs no escape.
        Wrapper::Member(name) => format!("{{{}:\"{token}\"}}", Value::from(name)).into_bytes(),
    }
}

/// A rule for values at a path: where they are, and where they go. Opening, `from` names the string that is the token and `to` the
/// place of its plaintext. Sealing, `from` names the value and `to` the object that gets the token as its member `field`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    from: Path,
    to: Path,
    field: Option<String>,
}

impl FieldRule {
    /// Creates a rule from two paths, and for sealing the name of the member that is the token; without it the token stands at `to`
    /// itself.
    ///
    /// # Errors
    /// [`PathError`], also if `[*]` stands at different places.
    pub fn new(from: &str, to: &str, field: Option<&str>) -> Result<FieldRule, PathError> {
        let (from, to) = (Path::parse(from)?, Path::parse(to)?);
        if from.array() != to.array() {
            return Err(PathError::EachApart);
        }
        if from.0.last() == Some(&Step::Each) && from != to {
            return Err(PathError::Element);
        }
        if field.is_some_and(str::is_empty) {
            return Err(PathError::Name);
        }
        Ok(FieldRule { from, to, field: field.map(String::from) })
    }

    /// Returns the path of the object around a token.
    pub(super) fn around(&self, field: &Field) -> Vec<At<'_>> {
        let mut path = self.from.at(field.index);
        path.pop();
        path
    }

    /// Returns the number of elements that `[*]` names, 1 without one, and 0 if the array is absent.
    fn count(&self, text: &Text<'_>, each_max: usize) -> Result<usize, Refusal> {
        let Some(array) = self.from.array() else { return Ok(1) };
        let Some(array) = find(text, &steps(array, 0))? else { return Ok(0) };
        let count = text.elements(&array).take(each_max.saturating_add(1)).count();
        if count > each_max {
            return Err(Refusal::composed(
                Class::Size,
                format!("an array on a path has more than {each_max} elements"),
            ));
        }
        Ok(count)
    }
}

/// A value that a rule found, to be opened or sealed. Its text is wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    pub(super) rule: usize,
    index: usize,
    text: Zeroizing<Vec<u8>>,
}

impl Field {
    /// Returns the token to be opened, or the plaintext to be sealed.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

impl core::fmt::Debug for Field {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Field").field("rule", &self.rule).field("index", &self.index).finish_non_exhaustive()
    }
}

/// Values in a body, and whether a value stands in clear at the target of a rule that has none.
struct Collection {
    fields: Vec<Field>,
    is_target_in_clear: bool,
}

fn collect(
    body: &[u8],
    rules: &[FieldRule],
    each_max: usize,
    mut take: impl FnMut(&Text<'_>, &core::ops::Range<usize>) -> Result<Zeroizing<Vec<u8>>, Refusal>,
) -> Result<Collection, Refusal> {
    let text = Text::parse(body)?;
    // All arrays are counted before anything is taken.
    let counts = rules.iter().map(|rule| rule.count(&text, each_max)).collect::<Result<Vec<_>, _>>()?;
    let mut collected = Collection { fields: Vec::new(), is_target_in_clear: false };
    for (number, (rule, count)) in rules.iter().zip(counts).enumerate() {
        for index in 0..count {
            match find(&text, &rule.from.at(index))? {
                Some(value) => {
                    collected.fields.push(Field { rule: number, index, text: take(&text, &value)? });
                }
                // The root is there in every body.
                None if rule.to.is_root() => {}
                None => collected.is_target_in_clear |= find(&text, &rule.to.at(index))?.is_some(),
            }
        }
    }
    Ok(collected)
}

/// A sealed value: what stands in the place of the plaintext, and members that go beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The token, or the value of the field-level form.
    pub value: String,
    /// Names and values of further members; none for a token.
    pub beside: Vec<(String, String)>,
}

impl From<String> for Envelope {
    fn from(token: String) -> Envelope {
        Envelope { value: token, beside: Vec::new() }
    }
}

/// Finds the tokens in a body. An absent path has none; a body without any token is one in clear.
///
/// # Errors
/// [`Class::Json`] if the body is not JSON, a configured member is there twice, what is at a path is not a string, or a body with a
/// token has a value in clear where the plaintext of an absent one goes; [`Class::Size`] for more than `each_max` elements.
pub fn find_sealed(body: &[u8], rules: &[FieldRule], each_max: usize) -> Result<Vec<Field>, Refusal> {
    let collected = collect(body, rules, each_max, |text, value| {
        let token =
            text.string(value).ok_or_else(|| Refusal::new(Class::Json, "the value at a path is not a token"))?;
        Ok(Zeroizing::new(token.as_bytes().to_vec()))
    })?;
    if collected.is_target_in_clear && !collected.fields.is_empty() {
        return Err(Refusal::new(Class::Json, "a value stands in clear at a target path, beside tokens at others"));
    }
    Ok(collected.fields)
}

/// Finds the values in a body that are to be sealed. An absent path has none.
///
/// # Errors
/// As [`find_sealed`]; [`Class::Json`] for a value that is no object and no array with [`Scalars::Refuse`].
pub fn find_plain(body: &[u8], rules: &[FieldRule], each_max: usize, scalars: Scalars) -> Result<Vec<Field>, Refusal> {
    let collected = collect(body, rules, each_max, |text, value| {
        let is_scalar = !text.is_object(value) && !text.is_array(value);
        match (scalars, text.string(value)) {
            (Scalars::Refuse, _) if is_scalar => Err(Refusal::new(Class::Json, "a value to be sealed is a scalar")),
            (Scalars::Raw, Some(string)) => Ok(Zeroizing::new(string.as_bytes().to_vec())),
            _ => Ok(Zeroizing::new(text.at(value).as_bytes().to_vec())),
        }
    })?;
    Ok(collected.fields)
}

/// Puts plaintexts in the place of tokens: each with the field that [`find_sealed`] returned, in its order. An object is merged into
/// an object; another value takes the place of `to`. An object whose only member was the token goes with it.
///
/// # Errors
/// [`Class::Json`] if a plaintext is not JSON as `scalars` has it, or a value in clear stands at a target.
pub fn put_opened(
    body: &[u8],
    rules: &[FieldRule],
    opened: &[(Field, Zeroizing<Vec<u8>>)],
    scalars: Scalars,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let mut body: Body = Zeroizing::new(body.to_vec());
    for (field, plaintext) in opened {
        let Some(rule) = rules.get(field.rule) else { continue };
        let value = json_of(plaintext, scalars)?;
        body = put_value(&body, &rule.from.at(field.index), &rule.to.at(field.index), &value)?;
    }
    Ok(body)
}

/// Returns the JSON text of a plaintext.
fn json_of(plaintext: &[u8], scalars: Scalars) -> Result<Body, Refusal> {
    let value = match (Text::parse(plaintext), scalars) {
        (Ok(text), _) => text.at(&text.root()).as_bytes().to_vec(),
        (Err(_), Scalars::Raw) => {
            let text =
                core::str::from_utf8(plaintext).map_err(|_| Refusal::new(Class::Json, "a plaintext is not UTF-8"))?;
            format!("{}", Value::from(text)).into_bytes()
        }
        (Err(_), _) => return Err(Refusal::new(Class::Json, "a plaintext is not JSON")),
    };
    let is_scalar = !value.starts_with(b"{") && !value.starts_with(b"[");
    if is_scalar && scalars == Scalars::Refuse {
        return Err(Refusal::new(Class::Json, "a plaintext is a scalar"));
    }
    Ok(Zeroizing::new(value))
}

fn put_value(body: &[u8], from: &[At<'_>], to: &[At<'_>], value: &[u8]) -> Result<Body, Refusal> {
    if from == to {
        let text = Text::parse(body)?;
        let range = find(&text, from)?.ok_or_else(|| Refusal::new(Class::Json, "a token is absent"))?;
        return Ok(replace(body, &range, value));
    }
    let (mut body, mut is_empty) = remove(body, from)?;
    let mut parent = from.split_last().map_or(&[][..], |(_, parent)| parent);
    // A wrapper that held the token alone goes with it, unless the plaintext goes there.
    while is_empty && parent != to && matches!(parent.last(), Some(At::Name(_))) {
        (body, is_empty) = remove(&body, parent)?;
        parent = parent.split_last().map_or(&[][..], |(_, parent)| parent);
    }
    let text = Text::parse(&body)?;
    match find(&text, to)? {
        None => insert(&body, to, value),
        Some(target) if value.starts_with(b"{") && text.is_object(&target) => merge(&body, to, value),
        Some(target) if text.is_object(&target) && text.members(&target).next().is_none() => {
            Ok(replace(&body, &target, value))
        }
        Some(_) => Err(Refusal::new(Class::Json, "there is a value in clear at a target path")),
    }
}

/// Puts tokens in the place of values: each with the field that [`find_plain`] returned, in its order. Members beside a token need a
/// rule with a name for it.
///
/// # Errors
/// [`Class::Json`] if a value stands where a token goes.
pub fn put_sealed(body: &[u8], rules: &[FieldRule], sealed: &[(Field, Envelope)]) -> Result<Vec<u8>, Refusal> {
    let mut body: Body = Zeroizing::new(body.to_vec());
    for (field, sealed) in sealed {
        let Some(rule) = rules.get(field.rule) else { continue };
        let (from, to) = (rule.from.at(field.index), rule.to.at(field.index));
        let token = Value::from(sealed.value.as_str());
        let alone = match &rule.field {
            Some(name) => {
                let beside = sealed.beside.iter().map(|(name, value)| (name, Value::from(value.as_str())));
                let members = [(name, token)].into_iter().chain(beside);
                let members: Vec<_> =
                    members.map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
                format!("{{{}}}", members.join(","))
            }
            None => format!("{token}"),
        };
        if from == to {
            let text = Text::parse(&body)?;
            let range =
                find(&text, &from)?.ok_or_else(|| Refusal::new(Class::Json, "a value to be sealed is absent"))?;
            body = replace(&body, &range, alone.as_bytes());
            continue;
        }
        body = if rule.from.is_root() { Zeroizing::new(b"{}".to_vec()) } else { remove(&body, &from)?.0 };
        let is_there = find(&Text::parse(&body)?, &to)?.is_some();
        body = match &rule.field {
            Some(_) if is_there => merge(&body, &to, alone.as_bytes())?,
            _ => insert(&body, &to, alone.as_bytes())?,
        };
    }
    Ok(body.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(list: &[(&str, &str, Option<&str>)]) -> Vec<FieldRule> {
        list.iter().map(|(from, to, field)| FieldRule::new(from, to, *field).unwrap()).collect()
    }

    /// Opens every token of a body as if the token `T…` had the plaintext `…`.
    fn opened(body: &str, list: &[(&str, &str, Option<&str>)], scalars: Scalars) -> Result<String, Class> {
        let rules = rules(list);
        let fields = find_sealed(body.as_bytes(), &rules, EACH_MAX_DEFAULT).map_err(|err| err.kind())?;
        let plain = |field: Field| {
            let plaintext = field.text().strip_prefix(b"T").unwrap().to_vec();
            (field, Zeroizing::new(plaintext))
        };
        let fields: Vec<_> = fields.into_iter().map(plain).collect();
        let body = put_opened(body.as_bytes(), &rules, &fields, scalars).map_err(|err| err.kind())?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }

    fn sealed(body: &str, list: &[(&str, &str, Option<&str>)], scalars: Scalars) -> Result<String, Class> {
        let rules = rules(list);
        let fields = find_plain(body.as_bytes(), &rules, EACH_MAX_DEFAULT, scalars).map_err(|err| err.kind())?;
        let token = |field: Field| {
            let token = String::from("T") + core::str::from_utf8(field.text()).unwrap();
            (field, Envelope::from(token))
        };
        let fields: Vec<_> = fields.into_iter().map(token).collect();
        let body = put_sealed(body.as_bytes(), &rules, &fields).map_err(|err| err.kind())?;
        Ok(String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_wrapper_holds_the_token_alone() {
        let member = Wrapper::Member("encData");
        assert_eq!(unwrap(br#" { "encData" : "a.b\/c" } "#, member).unwrap(), b"a.b/c");
        assert_eq!(unwrap(b"a.b", Wrapper::Bare).unwrap(), b"a.b");
        for body in [
            "",
            "a.b",
            "{}",
            "[]",
            r#""a.b""#,
            r#"{"encData":"a","encData":"a"}"#,
            r#"{"encData":"a","pan":"4111"}"#,
            r#"{"pan":"4111","encData":"a"}"#,
            r#"{"EncData":"a"}"#,
            r#"{"encData":{"a":1}}"#,
            r#"{"encData":null}"#,
            r#"{"encData":"a"}x"#,
            r#"[{"encData":"a"}]"#,
        ] {
            assert_eq!(unwrap(body.as_bytes(), member).unwrap_err().kind(), Class::Json, "{body}");
            assert!(!is_wrapped(body.as_bytes(), member), "{body}");
        }
        assert_eq!(wrap("a.b", member), br#"{"encData":"a.b"}"#);
        assert!(is_wrapped(&wrap("a.b", member), member));
        assert_eq!(wrap("a.b", Wrapper::Bare), b"a.b");
    }

    #[test]
    fn plaintexts_take_the_place_of_tokens() {
        let root = [("$.encryptedData", "$", None)];
        for (body, expected) in [
            (r#"{"encryptedData":"T{\"n\":1.0}"}"#, r#"{"n":1.0}"#),
            (r#"{"encryptedData":"T[1.0]"}"#, "[1.0]"),
            (r#"{"a":1,"encryptedData":"T{\"n\":1.0}"}"#, r#"{"a":1,"n":1.0}"#),
            (r#"{"other":1.0}"#, r#"{"other":1.0}"#),
            ("[]", "[]"),
        ] {
            assert_eq!(opened(body, &root, Scalars::Refuse).as_deref(), Ok(expected), "{body}");
        }
        let deep = [("$.encrypted_payload.data", "$", None)];
        assert_eq!(
            opened(r#"{"encrypted_payload":{"data":"T{\"n\":1}"}}"#, &deep, Scalars::Json).as_deref(),
            Ok(r#"{"n":1}"#)
        );
        let moved = [("$.a.enc", "$.b.plain", None)];
        assert_eq!(
            opened(r#"{"a":{"enc":"T7"},"c":0}"#, &moved, Scalars::Json).as_deref(),
            Ok(r#"{"c":0,"b":{"plain":7}}"#)
        );
        let within = [("$.a.enc", "$.a", None)];
        assert_eq!(opened(r#"{"a":{"enc":"T{\"n\":1}"}}"#, &within, Scalars::Json).as_deref(), Ok(r#"{"a":{"n":1}}"#));
        assert_eq!(opened(r#"{"a":{"enc":"T7"}}"#, &within, Scalars::Json).as_deref(), Ok(r#"{"a":7}"#));
        let each = [("$.l[*].enc", "$.l[*].plain", None)];
        let list = r#"{"l":[{"enc":"T1"},{"x":0},{"enc":"T[]"}]}"#;
        assert_eq!(opened(list, &each, Scalars::Json).as_deref(), Ok(r#"{"l":[{"plain":1},{"x":0},{"plain":[]}]}"#));
        let elements = [("$.l[*]", "$.l[*]", None)];
        assert_eq!(opened(r#"{"l":["T1","T{}"]}"#, &elements, Scalars::Json).as_deref(), Ok(r#"{"l":[1,{}]}"#));
    }

    #[test]
    fn what_stands_in_clear_beside_a_token_is_rejected() {
        for (body, list) in [
            (r#"{"enc":"T{\"pan\":1}","pan":2}"#, [("$.enc", "$", None)]),
            (r#"{"enc":"T1","pan":2}"#, [("$.enc", "$.pan", None)]),
            (r#"{"enc":"T1","enc":"T2"}"#, [("$.enc", "$.pan", None)]),
            (r#"{"enc":{"pan":1}}"#, [("$.enc", "$.pan", None)]),
            (r#"{"enc":7}"#, [("$.enc", "$.enc", None)]),
            (r#"{"enc":"T{\"a\":1,\"a\":2}"}"#, [("$.enc", "$", None)]),
            (r#"{"enc":"Tno json"}"#, [("$.enc", "$.pan", None)]),
            (r#"{"enc":"T1} {"}"#, [("$.enc", "$.pan", None)]),
        ] {
            assert_eq!(opened(body, &list, Scalars::Json), Err(Class::Json), "{body}");
        }
    }

    #[test]
    fn a_field_in_clear_beside_a_token_at_another_path_is_rejected() {
        let list = [("$.secret.enc", "$.card", None), ("$.l[*].enc", "$.l[*].pan", None), ("$.who.enc", "$.who", None)];
        for body in [
            r#"{"l":[{"enc":"T1"}],"card":{"pan":2}}"#,
            r#"{"l":[{"enc":"T1"}],"card":null}"#,
            r#"{"l":[{"enc":"T1"},{"pan":2}]}"#,
            r#"{"secret":{"enc":"T{}"},"l":[{"id":0},{"pan":2}]}"#,
            r#"{"secret":{"enc":"T{}"},"who":{"name":"x"}}"#,
        ] {
            assert_eq!(opened(body, &list, Scalars::Json), Err(Class::Json), "{body}");
        }
        // Optional fields may be absent, and a body in clear is for the caller to judge.
        for (body, expected) in [
            (r#"{"secret":{"enc":"T{}"},"l":[{"id":0}]}"#, r#"{"l":[{"id":0}],"card":{}}"#),
            (r#"{"l":[{"enc":"T1"},{"id":0}]}"#, r#"{"l":[{"pan":1},{"id":0}]}"#),
            (r#"{"card":{"pan":2},"who":{}}"#, r#"{"card":{"pan":2},"who":{}}"#),
        ] {
            assert_eq!(opened(body, &list, Scalars::Json).as_deref(), Ok(expected), "{body}");
        }
    }

    #[test]
    fn elements_are_counted_before_the_first_is_taken() {
        let list = |count: usize| format!("{{\"l\":[{}]}}", alloc::vec![r#"{"enc":"T1"}"#; count].join(","));
        let each = [("$.l[*].enc", "$.l[*].enc", None)];
        assert!(opened(&list(16), &each, Scalars::Json).is_ok());
        assert_eq!(opened(&list(17), &each, Scalars::Json), Err(Class::Size));
        assert_eq!(opened(&list(100_000), &each, Scalars::Json), Err(Class::Size));
    }

    #[test]
    fn tokens_take_the_place_of_values() {
        for (body, list, expected) in [
            (r#"{"a":1.0}"#, ("$", "$", Some("enc")), r#"{"enc":"T{\"a\":1.0}"}"#),
            (r#"{"a":[1.0]}"#, ("$", "$.p", Some("data")), r#"{"p":{"data":"T{\"a\":[1.0]}"}}"#),
            (r#"{"b":1.0,"a":[1]}"#, ("$.a", "$", Some("enc")), r#"{"b":1.0,"enc":"T[1]"}"#),
            (r#"{"b":1.0,"a":[1]}"#, ("$.a", "$.a", Some("enc")), r#"{"b":1.0,"a":{"enc":"T[1]"}}"#),
            (r#"{"b":1.0,"a":[1]}"#, ("$.a", "$.a", None), r#"{"b":1.0,"a":"T[1]"}"#),
            (r#"{"a":[1]}"#, ("$.a", "$.c.d", None), r#"{"c":{"d":"T[1]"}}"#),
            (r#"{"b":1}"#, ("$.a", "$.a", None), r#"{"b":1}"#),
            (r#"[{"a":{}},{"a":[]}]"#, ("$[*].a", "$[*]", Some("e")), r#"[{"e":"T{}"},{"e":"T[]"}]"#),
        ] {
            assert_eq!(sealed(body, &[list], Scalars::Refuse).as_deref(), Ok(expected), "{body}");
        }
        assert_eq!(sealed(r#"{"a":{},"enc":1}"#, &[("$.a", "$", Some("enc"))], Scalars::Json), Err(Class::Json));
    }

    #[test]
    fn scalars_are_as_configured() {
        let rule = [("$.a", "$.a", None)];
        assert_eq!(sealed(r#"{"a":"x\"y"}"#, &rule, Scalars::Raw).as_deref(), Ok(r#"{"a":"Tx\"y"}"#));
        assert_eq!(sealed(r#"{"a":"x"}"#, &rule, Scalars::Json).as_deref(), Ok(r#"{"a":"T\"x\""}"#));
        for value in ["0", "\"\"", "null", "false", "12345678901234567890"] {
            let body = format!("{{\"a\":{value}}}");
            assert_eq!(sealed(&body, &rule, Scalars::Refuse), Err(Class::Json), "{value}");
            let token = Value::from(format!("T{value}"));
            assert_eq!(sealed(&body, &rule, Scalars::Json), Ok(format!("{{\"a\":{token}}}")), "{value}");
            assert_eq!(opened(&format!("{{\"a\":{token}}}"), &rule, Scalars::Json), Ok(body), "{value}");
            assert_eq!(opened(&format!("{{\"a\":{token}}}"), &rule, Scalars::Refuse), Err(Class::Json), "{value}");
        }
        assert_eq!(opened(r#"{"a":"Tplain text"}"#, &rule, Scalars::Raw).as_deref(), Ok(r#"{"a":"plain text"}"#));
    }

    #[test]
    fn paths_of_a_rule_fit_each_other() {
        for (from, to, expected) in [
            ("$.l[*].a", "$.b", PathError::EachApart),
            ("$.b", "$.l[*].a", PathError::EachApart),
            ("$.l[*].a", "$.m[*].a", PathError::EachApart),
            ("$.l[*]", "$.l[*].a", PathError::Element),
        ] {
            assert_eq!(FieldRule::new(from, to, None), Err(expected), "{from} {to}");
        }
    }
}
