//! Nonces that this process grants by itself while Redis is away, if allowed ([`OnLoss::Local`]), to be written to
//! Redis later.

use sealway_proto::session::ClaimKey;

use super::config::OnLoss;

/// List of nonces granted without Redis.
#[derive(Debug)]
pub(super) struct Alone {
    may: bool,
    /// True while Redis is away; only then does this list grant.
    is_alone: bool,
    /// Granted nonces, each with the time at which it may be forgotten.
    granted: Vec<(ClaimKey, u64)>,
    max: usize,
}

impl Alone {
    pub(super) fn new(on_loss: OnLoss, max: usize) -> Self {
        let may = on_loss == OnLoss::Local;
        Alone { may, is_alone: may, granted: Vec::new(), max }
    }

    /// Starts granting here: Redis is away.
    pub(super) fn begin(&mut self) {
        self.is_alone = self.may;
    }

    /// Stops granting here, because Redis is about to be back; returns the nonces to write to Redis.
    pub(super) fn end(&mut self) -> Vec<(ClaimKey, u64)> {
        self.is_alone = false;
        std::mem::take(&mut self.granted)
    }

    /// Takes back nonces that could not be written to Redis.
    pub(super) fn keep(&mut self, mut untold: Vec<(ClaimKey, u64)>) {
        self.granted.append(&mut untold);
        self.begin();
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Records a grant; `None` if the list is full, or if nothing may be granted here.
    pub(super) fn grant(&mut self, key: ClaimKey, expires_ms: u64) -> Option<()> {
        if !self.is_alone || self.granted.len() >= self.max {
            return None;
        }
        self.granted.push((key, expires_ms));
        Some(())
    }

    pub(super) fn sweep(&mut self, now_ms: u64) {
        self.granted.retain(|(_, expires_ms)| *expires_ms > now_ms);
    }
}
