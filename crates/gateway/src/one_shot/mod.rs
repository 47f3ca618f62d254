//! One-shot modes: requests that are sealed to a public key of the service, without a session. This module has their keys: the key
//! file, what an operator changes in it, the keys in force, and the documents that publish them.

mod claims;
mod documents;
mod edit;
pub(crate) mod ehbp;
pub(crate) mod exchange;
mod file;
mod key;
mod keys;
mod openings;
mod psk;
#[cfg(test)]
mod tests;

pub use self::documents::Document;
pub use self::edit::{Form, Lifetime};
pub use self::ehbp::{ClearRequests, EhbpPolicy};
pub use self::exchange::OneShotPolicy;
pub use self::file::KeyFile;
pub use self::key::{Condition, Key, Purpose, Times, kem_name, parse_kem};
pub(crate) use self::keys::Replacement;
pub use self::keys::{LiveKeys, OneShotFiles, ShownKey};
pub(crate) use self::openings::Openings;
pub use self::psk::{Psk, PskFiles, Psks, issue_psk};
