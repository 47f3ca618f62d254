//! The profiles of a file together: an immutable set that is checked as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use super::Profile;
use super::problem::{Leniency, Notes, Problem};
use super::resolve;
use super::tree::Node;
use crate::callers::Callers;

/// Whether the file wants a validated module; a later one is sterner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequireFips {
    /// No word of it.
    #[default]
    No,
    /// `true`: a build without one refuses to start; one with it switches off what needs a service that is not approved.
    Yes,
    /// `strict`: as `Yes`, and a profile that needs such a service refuses the start.
    Strict,
}

/// What a file says beside its profiles.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) require_fips: RequireFips,
    pub(super) callers: Option<Callers>,
}

/// Every profile of a file, checked.
#[derive(Debug)]
pub struct Profiles {
    ordered: Vec<Arc<Profile>>,
    by_name: HashMap<String, Arc<Profile>>,
    settings: Settings,
    warnings: Vec<Problem>,
}

impl Profiles {
    /// Reads the text of a file, in either shape.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, leniency: Leniency) -> Result<Profiles, Vec<Problem>> {
        let root = Node::parse(text).map_err(|err| vec![Problem { line: err.line, ..Problem::of_file(err.text) }])?;
        let mut notes = Notes::new(leniency);
        let (profiles, settings) = resolve::file(&root, &mut notes);
        let warnings = notes.into_result()?;
        let ordered: Vec<Arc<Profile>> = profiles.into_iter().map(Arc::new).collect();
        let by_name = ordered.iter().map(|profile| (profile.name.clone(), Arc::clone(profile))).collect();
        Ok(Profiles { ordered, by_name, settings, warnings })
    }

    /// The profile of a name, matched exactly.
    pub fn get(&self, name: &str) -> Option<&Arc<Profile>> {
        self.by_name.get(name)
    }

    /// The names, in the file's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ordered.iter().map(|profile| profile.name.as_str())
    }

    /// The profiles, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.ordered.iter()
    }

    /// `Settings.RequireFips`.
    pub fn require_fips(&self) -> RequireFips {
        self.settings.require_fips
    }

    /// Who may do what, where the file has a section `Callers`.
    pub fn callers(&self) -> Option<&Callers> {
        self.settings.callers.as_ref()
    }

    /// What is worth a word though it is allowed.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}
