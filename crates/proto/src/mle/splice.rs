//! Edits of a JSON text by byte ranges. What is not on an edited path keeps every byte: the text of numbers, the order of members
//! and white space. SPEC mle.md#splice

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::Value;
use zeroize::Zeroizing;

use super::json::{Member, Text};
use super::path::At;
use super::refusal::{Class, Refusal};

/// A text while it is edited. It may hold plaintext, so it is wiped.
pub(super) type Body = Zeroizing<Vec<u8>>;

fn broken(detail: &'static str) -> Refusal {
    Refusal::new(Class::Json, detail)
}

/// Finds the member of an object with this name.
///
/// # Errors
/// [`Class::Json`] if there are two: readers differ in which one they take.
fn member(text: &Text<'_>, object: &Range<usize>, name: &str) -> Result<Option<Member>, Refusal> {
    let mut found = text.members(object).filter(|member| text.string(&member.name).as_deref() == Some(name));
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(Refusal::quoting(Class::Json, "a member on a configured path is there twice", name)),
        (first, _) => Ok(first),
    }
}

/// Finds the value at a path; `None` if it is absent.
///
/// # Errors
/// [`Class::Json`] for a duplicate member on the path.
pub(super) fn find(text: &Text<'_>, path: &[At<'_>]) -> Result<Option<Range<usize>>, Refusal> {
    let mut value = text.root();
    for step in path {
        let next = match step {
            At::Name(name) => member(text, &value, name)?.map(|member| member.value),
            At::Index(index) => text.elements(&value).nth(*index),
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Replaces a range of a text.
pub(super) fn replace(body: &[u8], range: &Range<usize>, with: &[u8]) -> Body {
    let mut out = Zeroizing::new(Vec::with_capacity(body.len() + with.len()));
    out.extend_from_slice(body.get(..range.start).unwrap_or_default());
    out.extend_from_slice(with);
    out.extend_from_slice(body.get(range.end..).unwrap_or_default());
    out
}

/// Removes the member at a path, which must be there, with one comma. Returns whether its object is empty now.
///
/// # Errors
/// [`Class::Json`] if it is not there, or twice.
pub(super) fn remove(body: &[u8], path: &[At<'_>]) -> Result<(Body, bool), Refusal> {
    let absent = || broken("a value to be removed is absent");
    let text = Text::parse(body)?;
    let Some((At::Name(name), parent)) = path.split_last() else { return Err(absent()) };
    let object = find(&text, parent)?.ok_or_else(absent)?;
    let gone = member(&text, &object, name)?.ok_or_else(absent)?;
    let mut previous = None;
    let mut next = None;
    for other in text.members(&object) {
        if other.value.end <= gone.name.start {
            previous = Some(other.value.end);
        } else if other.name.start >= gone.value.end && next.is_none() {
            next = Some(other.name.start);
        }
    }
    let range = match (previous, next) {
        (_, Some(next)) => gone.name.start..next,
        (Some(previous), None) => previous..gone.value.end,
        (None, None) => gone.name.start..gone.value.end,
    };
    Ok((replace(body, &range, b""), previous.is_none() && next.is_none()))
}

/// Writes a value to a path, and the objects on the way that are absent.
///
/// # Errors
/// [`Class::Json`] if there is a value already, or the way leads through what is no object.
pub(super) fn insert(body: &[u8], path: &[At<'_>], value: &[u8]) -> Result<Body, Refusal> {
    let text = Text::parse(body)?;
    let mut object = text.root();
    let mut rest = path;
    while let Some((step, after)) = rest.split_first() {
        let next = match step {
            At::Name(name) => member(&text, &object, name)?.map(|member| member.value),
            At::Index(index) => {
                Some(text.elements(&object).nth(*index).ok_or_else(|| broken("a target path leads through no array"))?)
            }
        };
        let Some(next) = next else { break };
        object = next;
        rest = after;
    }
    let Some((At::Name(name), deeper)) = rest.split_first() else {
        return Err(broken("there is a value in clear at a target path"));
    };
    let mut nested = Zeroizing::new(Vec::new());
    for step in deeper {
        let At::Name(name) = step else { return Err(broken("a target path leads through no array")) };
        nested.extend_from_slice(format!("{{{}:", Value::from(*name)).as_bytes());
    }
    nested.extend_from_slice(value);
    nested.extend(core::iter::repeat_n(b'}', deeper.len()));
    append(body, &text, &object, name, &nested)
}

/// Appends a member, which is not there yet, to an object.
fn append(body: &[u8], text: &Text<'_>, object: &Range<usize>, name: &str, value: &[u8]) -> Result<Body, Refusal> {
    if !text.is_object(object) {
        return Err(broken("a target path leads through what is no object"));
    }
    let last = text.members(object).last().map(|member| member.value.end);
    let at = last.unwrap_or(object.start + 1);
    let mut piece = Zeroizing::new(Vec::with_capacity(name.len() + value.len() + 8));
    piece.extend_from_slice(if last.is_some() { b"," } else { b"" });
    let quoted: String = format!("{}:", Value::from(name));
    piece.extend_from_slice(quoted.as_bytes());
    piece.extend_from_slice(value);
    Ok(replace(body, &(at..at), &piece))
}

/// Appends the members of one object to the object at a path. An object without members is replaced, to the byte.
///
/// # Errors
/// [`Class::Json`] if either is not an object, or a member would be there twice.
pub(super) fn merge(body: &[u8], path: &[At<'_>], object: &[u8]) -> Result<Body, Refusal> {
    let no_object = || broken("an object cannot be merged into what is no object");
    let (text, added) = (Text::parse(body)?, Text::parse(object)?);
    let into = find(&text, path)?.filter(|into| text.is_object(into)).ok_or_else(no_object)?;
    let from = added.root();
    if !added.is_object(&from) {
        return Err(no_object());
    }
    let mut names = BTreeSet::new();
    let mut last = None;
    for member in text.members(&into) {
        names.insert(text.string(&member.name).unwrap_or_default());
        last = Some(member.value.end);
    }
    let mut span: Option<Range<usize>> = None;
    for member in added.members(&from) {
        let name = added.string(&member.name).unwrap_or_default();
        if !names.insert(name.clone()) {
            return Err(broken("a member of the plaintext is there in clear already, or twice"));
        }
        span = Some(span.map_or(member.name.start, |span| span.start)..member.value.end);
    }
    match (last, span) {
        (None, _) => Ok(replace(body, &into, added.at(&from).as_bytes())),
        (Some(_), None) => Ok(Zeroizing::new(body.to_vec())),
        (Some(last), Some(span)) => {
            let mut piece = Zeroizing::new(Vec::with_capacity(span.len() + 1));
            piece.push(b',');
            piece.extend_from_slice(added.at(&span).as_bytes());
            Ok(replace(body, &(last..last), &piece))
        }
    }
}

#[cfg(test)]
mod tests;
