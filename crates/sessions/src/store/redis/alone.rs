//! What this process grants by itself while Redis is away, where it may ([`OnLoss::Local`]), and tells Redis later.

use sealway_proto::session::ClaimKey;

use super::config::OnLoss;

/// The list.
#[derive(Debug)]
pub(super) struct Alone {
    may: bool,
    /// Whether Redis is away: only then is anything granted here.
    is_alone: bool,
    /// Each with the time at which it may be forgotten.
    granted: Vec<(ClaimKey, u64)>,
    max: usize,
}

impl Alone {
    pub(super) fn new(on_loss: OnLoss, max: usize) -> Self {
        let may = on_loss == OnLoss::Local;
        Alone { may, is_alone: may, granted: Vec::new(), max }
    }

    /// Redis is away.
    pub(super) fn begin(&mut self) {
        self.is_alone = self.may;
    }

    /// Redis is about to be back: grants nothing more here, and gives what Redis has to be told.
    pub(super) fn end(&mut self) -> Vec<(ClaimKey, u64)> {
        self.is_alone = false;
        std::mem::take(&mut self.granted)
    }

    /// Takes back what Redis could not be told.
    pub(super) fn keep(&mut self, mut untold: Vec<(ClaimKey, u64)>) {
        self.granted.append(&mut untold);
        self.begin();
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Notes a grant; none when there is no room, or nothing may be granted here.
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
