//! Decides which requests must be sealed, and which paths are rejected because a service may read them as a sealed one.
//! `spec/routes.md` is the contract.
//!
//! This module does not know listeners, hosts or methods: a caller passes the rules of a request, in order.

mod form;

use alloc::string::String;

use self::form::{Forms, forms};

/// The mode of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SealMode {
    /// Every request must be sealed.
    #[default]
    Required,
    /// Requests with `X-Kid`, `X-Idempotency-Key` or `X-Seal` are opened; others pass through.
    Optional,
    /// All requests pass through unopened.
    Off,
}

/// The path of a rule, exact or a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    path: String,
    is_prefix: bool,
    form: String,
}

/// The path of a rule has no canonical form of its own, so no other spelling could be told from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no path for a rule: it begins with one /, has visible ASCII characters alone, no query, no fragment, \
     no .. segment and no control character, and its escapes are UTF-8"
)]
pub struct PatternInvalid(pub String);

impl Pattern {
    /// The pattern of every path.
    pub const ANY: Pattern = Pattern { path: String::new(), is_prefix: true, form: String::new() };

    /// Names one path, as sent.
    ///
    /// # Errors
    ///
    /// The path has no canonical form.
    pub fn exact(path: impl Into<String>) -> Result<Pattern, PatternInvalid> {
        Pattern::new(path.into(), false)
    }

    /// Names every path that begins with `prefix`, as sent.
    ///
    /// # Errors
    ///
    /// The prefix has no canonical form.
    pub fn prefix(prefix: impl Into<String>) -> Result<Pattern, PatternInvalid> {
        Pattern::new(prefix.into(), true)
    }

    // SPEC routes.md#rules
    /// Returns whether it names every path that begins with its own.
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    fn new(path: String, is_prefix: bool) -> Result<Pattern, PatternInvalid> {
        let is_sent = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        match forms(&path) {
            Some(Forms { whole: form, bare: None })
                if path.starts_with('/') && path.bytes().all(is_sent) && (path == "/" || !form.is_empty()) =>
            {
                Ok(Pattern { path, is_prefix, form })
            }
            _ => Err(PatternInvalid(path)),
        }
    }

    /// The path as written, without a mark of a prefix.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether this names a path, as sent.
    pub fn names(&self, path: &str) -> bool {
        if self.is_prefix { path.starts_with(self.path.as_str()) } else { path == self.path }
    }

    /// Returns whether this names every path that `other` names.
    pub fn covers(&self, other: &Pattern) -> bool {
        self.names(&other.path) && (self.is_prefix || !other.is_prefix)
    }

    fn matches(&self, form: &str) -> bool {
        match form.strip_prefix(self.form.as_str()) {
            Some("") => true,
            Some(rest) => self.is_prefix && (rest.starts_with('/') || !self.path.ends_with('/')),
            None => false,
        }
    }

    fn names_all(&self) -> bool {
        self.is_prefix && matches!(self.path.as_str(), "" | "/")
    }
}

/// The decision for a request, with the caller's `T` of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// The request must be sealed. `None`: no rule names the path.
    Sealed(Option<T>),
    /// The request is opened if it carries a header of a seal, and passes through otherwise.
    Optional(T),
    /// The request passes through unopened.
    Plain(T),
    /// The request is rejected, sealed or not: a service may read the path as one that must be sealed.
    Refused,
}

/// Decides for a path as sent, without its query. The first rule that names the path counts.
// SPEC routes.md#decision
pub fn decide<'a, T>(rules: impl Iterator<Item = (&'a Pattern, SealMode, T)> + Clone, path: &str) -> Decision<T> {
    let decision = match rules.clone().find(|(pattern, ..)| pattern.names(path)) {
        None => return Decision::Sealed(None),
        Some((_, SealMode::Required, rule)) => return Decision::Sealed(Some(rule)),
        Some((pattern, SealMode::Optional, rule)) => (pattern, Decision::Optional(rule)),
        Some((pattern, SealMode::Off, rule)) => (pattern, Decision::Plain(rule)),
    };
    let (pattern, decision) = decision;
    let is_sealed = |(_, sealed, _): (_, _, T)| sealed == SealMode::Required;
    let has_sealed = rules.clone().any(is_sealed) || !rules.clone().any(|(pattern, ..)| pattern.names_all());
    if !pattern.is_prefix || !has_sealed {
        return decision;
    }
    let is_plain = |form: &str| leads_to_plain(rules.clone(), form);
    match forms(path) {
        Some(Forms { whole, bare }) if is_plain(&whole) && bare.as_deref().is_none_or(is_plain) => decision,
        _ => Decision::Refused,
    }
}

/// Returns whether a canonical form is of a rule that is not `required`, and of no such rule that is as narrow.
fn leads_to_plain<'a, T>(rules: impl Iterator<Item = (&'a Pattern, SealMode, T)>, form: &str) -> bool {
    let mut longest = None;
    for (pattern, sealed, _) in rules.filter(|(pattern, ..)| pattern.matches(form)) {
        let len = Some(pattern.form.len());
        match sealed {
            SealMode::Required if len >= longest => return false,
            SealMode::Optional | SealMode::Off if pattern.is_prefix => longest = longest.max(len),
            _ => {}
        }
    }
    longest.is_some()
}

#[cfg(test)]
mod tests;
