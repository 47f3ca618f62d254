//! The policy in force: the file of callers, else the section of the file of profiles, else the socket's owner alone.

use std::sync::Arc;

use super::{Ask, Callers, Peer};
use crate::Refusal;
use crate::profile::{Profiles, Watched};

/// Whom to ask whether a caller may do something.
#[derive(Debug)]
pub struct Guard {
    file: Option<Arc<Watched<Callers>>>,
    owner: Callers,
}

impl Guard {
    /// With a file of callers, or without; `owner` is the user that the socket belongs to.
    pub fn new(file: Option<Arc<Watched<Callers>>>, owner: u32) -> Guard {
        Guard { file, owner: Callers::only(owner) }
    }

    /// Whether a caller may do something, by the profiles that its call began with.
    ///
    /// # Errors
    /// A [`Refusal`] with code 7, as of [`Callers::allows`].
    pub fn allows(&self, profiles: &Profiles, peer: &Peer, ask: Ask<'_>) -> Result<(), Refusal> {
        self.with(profiles, |callers| callers.allows(peer, ask))
    }

    /// Whether any operation of a profile is open to a caller.
    pub fn may_use(&self, profiles: &Profiles, peer: &Peer, profile: &str) -> bool {
        self.with(profiles, |callers| callers.may_use(peer, profile))
    }

    /// Whether any operation on a key is open to a caller.
    pub fn may_see(&self, profiles: &Profiles, peer: &Peer, key: &str) -> bool {
        self.with(profiles, |callers| callers.may_see(peer, key))
    }

    /// The file, to be watched and read anew.
    pub fn file(&self) -> Option<&Arc<Watched<Callers>>> {
        self.file.as_ref()
    }

    fn with<T>(&self, profiles: &Profiles, ask: impl FnOnce(&Callers) -> T) -> T {
        match &self.file {
            Some(file) => ask(&file.current()),
            None => ask(profiles.callers().unwrap_or(&self.owner)),
        }
    }
}
