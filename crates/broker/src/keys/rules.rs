//! Rules of a key: the lowest versions that it uses, its deletion, and its use by a CA. They are part of its file, and hold on every wire.

use crate::{Refusal, Result};

/// Rules of a key. The default leaves all versions usable, and forbids deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Lowest version that decrypts and verifies; 0 for the first one.
    pub min_decryption: u32,
    /// Lowest version that encrypts and signs; 0 for any.
    pub min_encryption: u32,
    /// True if the key may be deleted.
    pub is_deletion_allowed: bool,
    /// True for the key of a CA: it has signed a certificate, and signs data only under profiles that say so.
    pub is_issuer: bool,
}

/// Change of a key's rules; absent members stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleChange {
    /// New value of [`Rules::min_decryption`], if it changes.
    pub min_decryption: Option<u32>,
    /// New value of [`Rules::min_encryption`], if it changes.
    pub min_encryption: Option<u32>,
    /// New value of [`Rules::is_deletion_allowed`], if it changes.
    pub is_deletion_allowed: Option<bool>,
    /// True to make it the key of a CA, for good: [`Rules::is_issuer`].
    pub becomes_issuer: bool,
}

impl Rules {
    /// Returns the changed rules of a key with this many versions.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument): a version that the key does not have, or one that encrypts
    /// and does not decrypt.
    pub(super) fn changed(self, change: RuleChange, versions: usize) -> Result<Rules> {
        let rules = Rules {
            min_decryption: change.min_decryption.unwrap_or(self.min_decryption),
            min_encryption: change.min_encryption.unwrap_or(self.min_encryption),
            is_deletion_allowed: change.is_deletion_allowed.unwrap_or(self.is_deletion_allowed),
            is_issuer: self.is_issuer || change.becomes_issuer,
        };
        let latest = u32::try_from(versions).unwrap_or(u32::MAX);
        for (name, version) in
            [("min_decryption_version", rules.min_decryption), ("min_encryption_version", rules.min_encryption)]
        {
            if version > latest {
                return Err(Refusal::invalid(format!("{name}: {version} is above the latest version, {latest}")));
            }
        }
        if rules.min_encryption != 0 && rules.min_encryption < rules.min_decryption {
            return Err(Refusal::invalid(format!(
                "min_encryption_version: {} is below min_decryption_version, {}",
                rules.min_encryption, rules.min_decryption
            )));
        }
        Ok(rules)
    }
}
