//! What every operation passes, whatever wire asks for it: the caller's policy, the profile, the key, the work itself, and the
//! audit log, without which nothing leaves.
//!
//! It may not know: messages of a wire.

use std::sync::Arc;

use sealway_runtime::clock::Clock;

use crate::audit::{Audit, Entry};
use crate::callers::{Ask, Callers, Peer};
use crate::keys::{Key, Store};
use crate::profile::approval;
use crate::profile::policy::Profile;
use crate::profile::{Live, Profiles, Watched};
use crate::{Code, Refusal};

/// What a service stands on.
pub struct Service {
    /// The profiles in use.
    pub profiles: Arc<Live>,
    /// What callers may do, from a file of its own; else a section of the profiles' file, else the owner alone may do all.
    pub callers: Option<Arc<Watched<Callers>>>,
    /// Everything that is done is written there first.
    pub audit: Option<Audit>,
    /// The keys.
    pub keys: Option<Store>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Whoever owns the socket.
    pub owner: Callers,
    /// The module below is the validated one: what it does not approve is off.
    pub is_fips: bool,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("is_fips", &self.is_fips).finish_non_exhaustive()
    }
}

/// What is asked for, short of the inputs.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// One of [`crate::callers::OPERATIONS`].
    pub operation: &'static str,
    /// Such as `w3`.
    pub wire: &'static str,
    /// By name, where the operation takes one.
    pub profile: Option<&'a str>,
    /// The id of a key of the store, where the operation takes one.
    pub key: Option<&'a str>,
    /// Inputs of the batch.
    pub count: usize,
    /// All inputs together.
    pub bytes_in: usize,
}

impl Asked<'_> {
    /// Whether it changes the key store: what is done then stays done, whoever hears of it.
    pub fn changes_keys(&self) -> bool {
        matches!(self.operation, "GenerateKey" | "ImportKey" | "RotateKey" | "DisableKey" | "EnableKey")
    }
}

/// What an operation came to.
#[derive(Debug)]
pub struct Done<T> {
    /// What is answered.
    pub value: T,
    /// The version of the key that took part.
    pub key_version: Option<u32>,
    /// All outputs together.
    pub bytes_out: usize,
}

/// What an operation that is allowed may use. A reload meanwhile changes nothing of it.
#[derive(Debug)]
pub struct Allowed {
    profile: Option<Arc<Profile>>,
    key: Option<Arc<Key>>,
}

impl Allowed {
    /// The profile that was asked for.
    ///
    /// # Errors
    /// None was asked for: a fault of ours.
    pub fn profile(&self) -> Result<&Profile, Refusal> {
        self.profile.as_deref().ok_or_else(|| Refusal::new(Code::Internal, "an operation without its profile"))
    }

    /// The key that was asked for.
    ///
    /// # Errors
    /// None was asked for: a fault of ours.
    pub fn key(&self) -> Result<&Arc<Key>, Refusal> {
        self.key.as_ref().ok_or_else(|| Refusal::new(Code::Internal, "an operation without its key"))
    }
}

impl Service {
    /// Whether the caller may do it, and what it may use for that. `shape` is what is wrong with the request itself; it is
    /// told first, for it tells nothing of what there is.
    ///
    /// # Errors
    /// 3: the request or the profile; 5: the key; 7: the caller; 9: the module has not approved it; 14: the audit log.
    pub fn allow(&self, peer: &Peer, asked: &Asked<'_>, shape: Result<(), Refusal>) -> Result<Allowed, Refusal> {
        shape?;
        let profiles = self.profiles.current();
        self.check_caller(peer, asked, &profiles)?;
        let profile = asked.profile.map(|name| find(&profiles, name)).transpose()?;
        if let Some(profile) = profile.as_deref().filter(|_| self.is_fips) {
            check_approved(profile, asked)?;
        }
        // Without a profile it is about the key itself, which may not be there yet.
        let used = asked.key.filter(|_| profile.is_some());
        let key = used.map(|id| self.store()?.get(id)).transpose()?;
        if let Some(audit) = &self.audit {
            audit.ready()?;
        }
        Ok(Allowed { profile, key })
    }

    fn check_caller(&self, peer: &Peer, asked: &Asked<'_>, profiles: &Profiles) -> Result<(), Refusal> {
        let ask = Ask { operation: asked.operation, profile: asked.profile, key: asked.key };
        self.with_callers(profiles, |callers| callers.allows(peer, ask))
    }

    /// The rules in force.
    pub fn with_callers<T>(&self, profiles: &Profiles, look: impl FnOnce(&Callers) -> T) -> T {
        match &self.callers {
            Some(callers) => look(&callers.current()),
            None => look(profiles.callers().unwrap_or(&self.owner)),
        }
    }

    /// The key store.
    ///
    /// # Errors
    /// 9: there is none.
    pub fn store(&self) -> Result<&Store, Refusal> {
        self.keys
            .as_ref()
            .ok_or_else(|| Refusal::new(Code::FailedPrecondition, "this broker has no key store (--keys)"))
    }

    /// Writes down what came of it.
    ///
    /// # Errors
    /// It cannot be written: what came of it must not leave.
    pub async fn audit<T>(
        &self,
        peer: &Peer,
        asked: &Asked<'_>,
        done: &Result<Done<T>, Refusal>,
    ) -> Result<(), Refusal> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let entry = Entry {
            key_version: done.as_ref().ok().and_then(|done| done.key_version),
            bytes_out: done.as_ref().map_or(0, |done| done.bytes_out as u64),
            code: done.as_ref().err().map_or(0, |refusal| refusal.code.number()),
            ..entry(peer, asked)
        };
        audit.recorded(&entry).await
    }

    /// Writes down what is about to be done, for what stays done even if this process ends before it can say what came of it.
    ///
    /// # Errors
    /// It cannot be written: nothing may be done.
    pub async fn intend(&self, peer: &Peer, asked: &Asked<'_>) -> Result<(), Refusal> {
        let Some(audit) = &self.audit else { return Ok(()) };
        audit.recorded(&Entry { is_intent: true, ..entry(peer, asked) }).await
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}

fn entry<'a>(peer: &Peer, asked: &Asked<'a>) -> Entry<'a> {
    Entry {
        uid: peer.uid,
        gid: peer.gid,
        pid: peer.pid,
        operation: asked.operation,
        wire: asked.wire,
        profile: asked.profile,
        key: asked.key,
        count: u32::try_from(asked.count).unwrap_or(u32::MAX),
        bytes_in: asked.bytes_in as u64,
        ..Entry::default()
    }
}

fn find(profiles: &Profiles, name: &str) -> Result<Arc<Profile>, Refusal> {
    let found = profiles.get(name).cloned();
    found.ok_or_else(|| Refusal::invalid(format!("could not retrieve profile, err: there is no profile: {name}")))
}

fn check_approved(profile: &Profile, asked: &Asked<'_>) -> Result<(), Refusal> {
    match approval::refused(profile, asked.operation, asked.wire) {
        None => Ok(()),
        Some(found) => Err(Refusal::new(
            Code::FailedPrecondition,
            format!("profile: {}: off in this FIPS build: {}: {}", profile.name, found.key, found.why),
        )),
    }
}

#[cfg(test)]
mod tests;
