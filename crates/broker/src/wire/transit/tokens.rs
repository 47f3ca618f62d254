//! Tokens of the transit API's callers: a file of names, each with the SHA-256 of a token. No file has a token itself.
// SPEC broker.md#transit

use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

use crate::hash::{hex, unhex};
use crate::keys::is_key_id;
use crate::profile::problem::{Notes, Problem};
use crate::profile::section::Section;
use crate::profile::tree::{Kind, Node};
use crate::profile::{Leniency, Reload};

/// Most tokens of a file: each of them is compared at each request.
const TOKENS_MAX: usize = 256;
/// Lengths of a token, in bytes: a shorter one could be found by its hash.
const TOKEN_LENS: std::ops::RangeInclusive<usize> = 24..=512;
/// Random bytes of a generated token.
const DRAWN_LEN: usize = 32;

/// Tokens of a file, which a reload replaces as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    tokens: Vec<(Arc<str>, [u8; 32])>,
    warnings: Vec<Problem>,
}

impl Tokens {
    /// Parses a file: a list of maps with `Token`, a name, and `Sha256`, 64 hexadecimal digits in lower case. A name may
    /// have several tokens.
    ///
    /// # Errors
    /// All defects of the text.
    pub fn parse(text: &str, leniency: Leniency) -> Result<Tokens, Vec<Problem>> {
        let root = Node::parse(text).map_err(|err| vec![Problem { line: err.line, ..Problem::of_file(err.text) }])?;
        let mut notes = Notes::new(leniency);
        let mut tokens = Vec::new();
        match &root.kind {
            Kind::List(items) if (1..=TOKENS_MAX).contains(&items.len()) => {
                tokens.extend(items.iter().enumerate().filter_map(|(at, item)| token(item, at, &mut notes)));
            }
            _ => notes.problem(root.line, "", format!("expected a list of 1 to {TOKENS_MAX} tokens")),
        }
        Ok(Tokens { tokens, warnings: notes.into_result()? })
    }

    /// Returns the name of a token. Takes the same time for each token of a length, known or not.
    pub fn name_of(&self, token: &[u8]) -> Option<Arc<str>> {
        if !TOKEN_LENS.contains(&token.len()) {
            return None;
        }
        let hash = digest(&SHA256, token);
        let mut found = None;
        for (name, known) in &self.tokens {
            if verify_slices_are_equal(known, hash.as_ref()).is_ok() {
                found = Some(name);
            }
        }
        found.cloned()
    }
}

impl Reload for Tokens {
    const WHAT: &'static str = "tokens";

    fn load(path: &Path, leniency: Leniency) -> Result<Tokens, Vec<Problem>> {
        Tokens::parse(&crate::profile::load::read(path)?, leniency)
    }

    fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

fn token(node: &Node, at: usize, notes: &mut Notes) -> Option<(Arc<str>, [u8; 32])> {
    let section = Section::of(node, &format!("[{at}]"), &["Token", "Sha256"], notes)?;
    let mut required = |key: &str| {
        if section.get(key).is_none() {
            notes.problem(section.line, section.path_of(key), "required");
        }
        section.text(key, notes)
    };
    let (name, hash) = (required("Token"), required("Sha256"));
    let (name, hash) = (name?, hash?);
    if !is_key_id(name.value) {
        notes.problem(name.line, section.path_of("Token"), "expected 1 to 64 letters, digits, '.', '_' or '-'");
        return None;
    }
    let Some(bytes) = unhex(hash.value.as_bytes()) else {
        // The text is not shown: it may be a token that was put here by mistake.
        let text = "expected the SHA-256 of a token, as 64 hexadecimal digits in lower case";
        notes.problem(hash.line, section.path_of("Sha256"), text);
        return None;
    };
    Some((name.value.into(), bytes))
}

/// Draws a token, and returns it with its entry for the file of tokens.
///
/// # Errors
/// The name is not 1 to 64 letters, digits, `.`, `_` or `-`; the cryptographic module failed.
pub fn draw(name: &str) -> Result<(String, String), String> {
    if !is_key_id(name) {
        return Err("expected a name of 1 to 64 letters, digits, '.', '_' or '-'".into());
    }
    let mut bytes = [0; DRAWN_LEN];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "the cryptographic module failed")?;
    let token = format!("slw.{}", hex(&bytes));
    let entry = format!("- {{Token: {name}, Sha256: {}}}\n", hex(digest(&SHA256, token.as_bytes()).as_ref()));
    Ok((token, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_alone_and_a_name_may_have_several() {
        let (one, entry) = draw("billing").unwrap();
        let (two, second) = draw("billing").unwrap();
        let tokens = Tokens::parse(&format!("{entry}{second}"), Leniency::Strict).unwrap();
        for token in [&one, &two] {
            assert_eq!(tokens.name_of(token.as_bytes()).as_deref(), Some("billing"));
            assert!(!entry.contains(token.as_str()) && !format!("{tokens:?}").contains(token.as_str()));
        }
        let hash = entry.split("Sha256: ").nth(1).unwrap().trim_end_matches("}\n");
        for wrong in ["", "short", &one[1..], &format!("{one} "), hash, &"x".repeat(600)] {
            assert_eq!(tokens.name_of(wrong.as_bytes()), None, "{wrong}");
        }
        // Short tokens are not accepted, whatever the file says.
        let short = format!("- {{Token: a, Sha256: {}}}", hex(digest(&SHA256, b"short").as_ref()));
        assert_eq!(Tokens::parse(&short, Leniency::Strict).unwrap().name_of(b"short"), None);
    }

    #[test]
    fn defects_of_a_file_are_named_and_no_text_in_the_place_of_a_hash_is_shown() {
        let hash = "0".repeat(64);
        for (text, expected) in [
            (String::new(), "expected a list"),
            ("{}".into(), "expected a list"),
            (format!("- {{Token: a b, Sha256: {hash}}}"), "letters"),
            (format!("- {{Sha256: {hash}}}"), "required"),
            ("- {Token: a}".into(), "required"),
            ("- {Token: a, Sha256: slw.secretsecretsecretsecret}".into(), "expected the SHA-256"),
            (format!("- {{Token: a, Sha256: {hash}, Secret: 1}}"), "Secret"),
        ] {
            let problems = Tokens::parse(&text, Leniency::Strict).unwrap_err();
            let shown = crate::profile::lines(&problems);
            assert!(shown.contains(expected) && !shown.contains("secretsecret"), "{text}: {shown}");
        }
        assert!(draw("a b").is_err());
    }
}
