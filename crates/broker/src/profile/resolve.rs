//! Resolves a file's tree to profiles: its two shapes, names, settings and operations.

use std::collections::HashSet;

use super::certificate;
use super::live::{RequireFips, Settings};
use super::operations;
use super::policy::{Deprecation, Profile};
use super::problem::Notes;
use super::section::{Section, named, scalar, shown};
use super::standards::{Adherence, Standard};
use super::tree::{Kind, Node};
use crate::callers::Callers;

/// Most profiles of a file.
pub(super) const PROFILES_MAX: usize = 1_000;
/// Longest name of a profile, in bytes.
const NAME_LEN_MAX: usize = 64;
/// Longest text of a deprecation, in bytes: every answer carries it.
const DEPRECATION_LEN_MAX: usize = 256;

/// Resolves a file: a list of profiles, or a map of settings and profiles.
pub(super) fn file(root: &Node, notes: &mut Notes) -> (Vec<Profile>, Settings) {
    let mut settings = Settings::default();
    let (list, library_is_set) = match &root.kind {
        Kind::List(list) => (list.as_slice(), false),
        Kind::Map(_) => {
            let known = ["Settings", "Profiles", "Callers"];
            let Some(section) = Section::of(root, "", &known, notes) else { return (Vec::new(), settings) };
            let library_is_set = file_settings(&section, &mut settings, notes);
            settings.callers = section.get("Callers").and_then(|node| Callers::of_node(node, "Callers", notes));
            match section.get("Profiles").map(|node| (node, &node.kind)) {
                Some((_, Kind::List(list))) => (list.as_slice(), library_is_set),
                Some((node, _)) => {
                    notes.problem(node.line, "Profiles", format!("expected a list, got {}", node.kind_name()));
                    return (Vec::new(), settings);
                }
                None => (&[][..], library_is_set),
            }
        }
        _ => (&[][..], false),
    };
    if list.is_empty() {
        notes.problem(root.line, "", "the file holds no profiles");
    }
    if list.len() > PROFILES_MAX {
        notes.problem(root.line, "", format!("more than {PROFILES_MAX} profiles"));
        return (Vec::new(), settings);
    }
    (profiles(list, library_is_set, notes), settings)
}

/// Resolves `Settings` of the whole file; true if it names the library.
fn file_settings(section: &Section<'_>, settings: &mut Settings, notes: &mut Notes) -> bool {
    let known = ["CryptoLibrary", "KMS", "RequireFips"];
    let Some(found) = section.section("Settings", &known, notes) else { return false };
    if let Some(kms) = found.get("KMS") {
        notes.warn(kms.line, "Settings.KMS", "not used: keys are in the broker's own store");
    }
    if let Some(line) = found.is_left_empty("RequireFips") {
        notes.problem(line, "Settings.RequireFips", "expected true, false or strict, got nothing");
    }
    if let Some(node) = found.get("RequireFips") {
        let words = [("true", RequireFips::Yes), ("false", RequireFips::No), ("strict", RequireFips::Strict)];
        match scalar(node).and_then(|word| named(word, &words)) {
            Some(required) => settings.require_fips = required,
            // A lenient reading must not weaken this demand.
            None => notes.problem(node.line, "Settings.RequireFips", "expected true, false or strict"),
        }
    }
    library(&found, notes)
}

/// Checks `CryptoLibrary`; true if it is present.
fn library(settings: &Section<'_>, notes: &mut Notes) -> bool {
    let Some(library) = settings.text("CryptoLibrary", notes) else { return false };
    if !library.value.eq_ignore_ascii_case("native") {
        let text = format!("unknown cryptographic library: {}, available values: [native]", shown(library.value));
        notes.problem(library.line, settings.path_of("CryptoLibrary"), text);
    }
    true
}

fn profiles(list: &[Node], library_is_set: bool, notes: &mut Notes) -> Vec<Profile> {
    let mut names = HashSet::new();
    let mut profiles = Vec::new();
    for (at, node) in list.iter().enumerate() {
        // Placeholder until the name is known.
        notes.profile = format!("#{}", at + 1);
        let resolved = profile(node, library_is_set, notes);
        if let Some(profile) = resolved {
            if !profile.name.is_empty() && !names.insert(profile.name.clone()) {
                notes.problem(node.line, "Name", format!("duplicate profile name: {}", shown(&profile.name)));
            }
            profiles.push(profile);
        }
    }
    notes.profile.clear();
    profiles
}

fn profile(node: &Node, library_is_set: bool, notes: &mut Notes) -> Option<Profile> {
    if node.kind == Kind::Null {
        notes.problem(node.line, "", "expected a map, got nothing");
        return None;
    }
    // The name comes first, so that other problems can refer to it.
    let name = match &node.kind {
        Kind::Map(entries) => entries.iter().find(|(key, _)| key.name == "Name").and_then(|(_, node)| scalar(node)),
        _ => None,
    };
    if let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= NAME_LEN_MAX) {
        notes.profile = name.to_owned();
    }
    let section = Section::of(node, "", &["Name", "Settings", "Standard", "Deprecation", "API"], notes)?;
    let mut profile = Profile { name: profile_name(&section, notes), ..Profile::default() };
    let settings = section.section("Settings", &["CryptoLibrary"], notes);
    let is_set = settings.is_some_and(|settings| library(&settings, notes));
    if !is_set && !library_is_set {
        notes.problem(section.line, "Settings.CryptoLibrary", "required; one of native");
    }
    profile.deprecation = deprecation(&section, notes);
    api(&section, &mut profile, notes);
    profile.standard = standard(&section, &profile, notes);
    Some(profile)
}

/// Resolves `Standard`: every algorithm of the profile that the standard forbids is a problem.
fn standard(section: &Section<'_>, profile: &Profile, notes: &mut Notes) -> Option<Adherence> {
    if let Some(line) = section.is_left_empty("Standard") {
        notes.problem(line, "Standard", "is empty: name a standard, or take the key out");
    }
    let named = section.name("Standard", &Standard::NAMES, "unknown standard", notes)?;
    let adherence = Adherence::new(named.value, profile);
    for breach in &adherence.breaches {
        notes.problem(section.line_of(breach.key), breach.key, breach.text.as_str());
    }
    Some(adherence)
}

fn profile_name(section: &Section<'_>, notes: &mut Notes) -> String {
    let Some(name) = section.text("Name", notes) else {
        if section.get("Name").is_none_or(|node| scalar(node).is_some()) {
            notes.problem(section.line, "Name", "required");
        }
        return String::new();
    };
    if name.value.len() > NAME_LEN_MAX {
        notes.problem(name.line, "Name", format!("too large (max {NAME_LEN_MAX})"));
    } else if name.value.chars().any(char::is_control) {
        notes.problem(name.line, "Name", "holds a control character");
    }
    name.value.to_owned()
}

fn deprecation(section: &Section<'_>, notes: &mut Notes) -> Option<Deprecation> {
    let known = ["ReplacedBy", "DeprecatedSince", "RemoveAfter", "Reason"];
    let found = section.section("Deprecation", &known, notes)?;
    let mut text = |key: &str| {
        let text = found.text(key, notes)?;
        if text.value.len() > DEPRECATION_LEN_MAX {
            notes.problem(text.line, found.path_of(key), format!("too large (max {DEPRECATION_LEN_MAX})"));
        }
        Some(text.value.to_owned())
    };
    Some(Deprecation {
        replaced_by: text("ReplacedBy"),
        deprecated_since: text("DeprecatedSince"),
        remove_after: text("RemoveAfter"),
        reason: text("Reason"),
    })
}

/// Operations that a section `API` can have.
const OPERATIONS: [&str; 9] =
    ["HashData", "EncryptData", "SignData", "SignCertificate", "Mac", "Derive", "Random", "Encapsulate", "Unwrap"];

fn api(section: &Section<'_>, profile: &mut Profile, notes: &mut Notes) {
    let none = "profile should contain at least one API";
    let Some(api) = section.section("API", &OPERATIONS, notes) else {
        if section.get("API").is_none() {
            notes.problem(section.line, "API", none);
        }
        return;
    };
    if OPERATIONS.iter().all(|operation| api.get(operation).is_none_or(is_empty)) {
        notes.problem(api.line, "API", none);
        return;
    }
    profile.hash = operations::hash(&api, notes);
    profile.encrypt = operations::encrypt(&api, notes);
    // Files of the other broker have arbitrary texts here, which that broker ignores.
    if let Some(sign) = notes.leaving_out(|notes| operations::sign(&api, notes)) {
        profile.sign = Some(sign.algorithm);
        profile.sign_key_size = sign.key_size;
        profile.sign_digests = sign.has_digests;
        profile.signs_with_ca_keys = sign.has_ca_keys;
    }
    profile.certificate = certificate::resolve(&api, notes);
    profile.mac = operations::mac(&api, notes);
    profile.derive = operations::derive(&api, notes);
    profile.random = operations::random(&api, notes);
    profile.kem = operations::kem(&api, notes);
    profile.unwrap = operations::unwrap(&api, notes);
}

/// True if an operation's section has no content.
fn is_empty(node: &Node) -> bool {
    match &node.kind {
        Kind::Null | Kind::Bool(false, _) => true,
        Kind::Map(entries) => entries.iter().all(|(_, node)| is_empty(node)),
        Kind::List(items) => items.is_empty(),
        Kind::Text(text) => text.is_empty(),
        Kind::Bool(true, _) | Kind::Number(..) => false,
    }
}
