//! Resolves `KeyConstraints`: sizes of keys by algorithm.

use super::policy::{KeyConstraints, KeyKind, SizeRange};
use super::problem::Notes;
use super::section::{Section, joined, map, named, shown};

/// An empty range: no key has such a size.
pub(super) const NONE: SizeRange = SizeRange { min: 1, max: 0 };

/// Resolves a map of algorithms, ignoring case, to sizes.
pub(super) fn sizes(node: &super::tree::Node, path: &str, notes: &mut Notes) -> KeyConstraints {
    let mut found = KeyConstraints::default();
    for (key, node) in map(node, path, notes).unwrap_or_default() {
        let path = joined(path, &shown(&key.name));
        let Some(kind) = named(&key.name, &KeyKind::NAMES) else {
            notes.sloppy(key.line, path, "unsupported algorithm, available values: [rsa, ecdsa, ml-dsa]");
            continue;
        };
        let Some(section) = Section::of(node, &path, &["MinKeySize", "MaxKeySize"], notes) else { continue };
        let range = SizeRange { min: bits(&section, "MinKeySize", notes), max: bits(&section, "MaxKeySize", notes) };
        if range.min > range.max && range.max > 0 && section.get("MaxKeySize").is_some() {
            notes.sloppy(section.line, &path, format!("MinKeySize {} is above MaxKeySize {}", range.min, range.max));
        }
        if range.max == 0 && section.get("MaxKeySize").is_some() {
            notes.sloppy(
                section.line,
                &path,
                "MaxKeySize 0 refuses every key; take the algorithm out, or give its largest size",
            );
        }
        let slot = match kind {
            KeyKind::Rsa => &mut found.rsa,
            KeyKind::Ecdsa => &mut found.ecdsa,
            KeyKind::MlDsa => &mut found.ml_dsa,
        };
        if slot.replace(range).is_some() {
            notes.problem(key.line, path, "is there twice");
        }
    }
    found
}

fn bits(section: &Section<'_>, key: &str, notes: &mut Notes) -> u32 {
    if section.get(key).is_none() {
        notes.sloppy(section.line, section.path_of(key), "required");
        return 0;
    }
    let Some(bits) = section.number(key, notes) else { return 0 };
    u32::try_from(bits.value).unwrap_or_else(|_| {
        let text = if bits.value < 0 { "should not be negative" } else { "too large" };
        notes.problem(bits.line, section.path_of(key), text);
        0
    })
}
