//! Descriptions of the module, its slots and its tokens.

use cryptoki_sys::*;

use crate::config::SlotConfig;
use crate::failure::Result;
use crate::module::{Module, SESSIONS_MAX};

const MANUFACTURER: &str = "Sealway";

/// Fills a fixed field with a text and blanks, as the standard demands. A longer text is cut at a character.
fn padded<const LEN: usize>(text: &str) -> [u8; LEN] {
    let mut field = [b' '; LEN];
    let end = (0..=LEN.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    field[..end].copy_from_slice(&text.as_bytes()[..end]);
    field
}

fn version() -> CK_VERSION {
    let number = |text: &str| text.parse().unwrap_or(0);
    CK_VERSION { major: number(env!("CARGO_PKG_VERSION_MAJOR")), minor: number(env!("CARGO_PKG_VERSION_MINOR")) }
}

pub(crate) fn info() -> CK_INFO {
    CK_INFO {
        cryptokiVersion: CK_VERSION { major: 2, minor: 40 },
        manufacturerID: padded(MANUFACTURER),
        flags: 0,
        libraryDescription: padded("Keys of the Sealway broker"),
        libraryVersion: version(),
    }
}

pub(crate) fn slot_info(slot: &SlotConfig, is_present: bool) -> CK_SLOT_INFO {
    CK_SLOT_INFO {
        slotDescription: padded(&format!("Broker profile {}", slot.profile)),
        manufacturerID: padded(MANUFACTURER),
        // The broker may stop and start again.
        flags: CKF_REMOVABLE_DEVICE | if is_present { CKF_TOKEN_PRESENT } else { 0 },
        hardwareVersion: CK_VERSION::default(),
        firmwareVersion: version(),
    }
}

/// Describes the token of a slot.
///
/// # Errors
/// `CKR_TOKEN_NOT_PRESENT`: the broker cannot be reached, or has no such profile for this caller.
pub(crate) fn token_info(module: &Module, slot: &SlotConfig) -> Result<CK_TOKEN_INFO> {
    let has_random = module.broker.operations(&slot.profile)?.random;
    // FNV-1a: a name that stays the same, and nothing secret.
    let serial = slot
        .profile
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let sessions = module.session_count() as CK_ULONG;
    Ok(CK_TOKEN_INFO {
        label: padded(&slot.label),
        manufacturerID: padded(MANUFACTURER),
        model: padded("broker"),
        serialNumber: padded(&format!("{serial:016x}")),
        flags: CKF_TOKEN_INITIALIZED | CKF_WRITE_PROTECTED | if has_random { CKF_RNG } else { 0 },
        ulMaxSessionCount: SESSIONS_MAX as CK_ULONG,
        ulSessionCount: sessions,
        ulMaxRwSessionCount: SESSIONS_MAX as CK_ULONG,
        ulRwSessionCount: CK_UNAVAILABLE_INFORMATION,
        ulMaxPinLen: 255,
        ulMinPinLen: 0,
        ulTotalPublicMemory: CK_UNAVAILABLE_INFORMATION,
        ulFreePublicMemory: CK_UNAVAILABLE_INFORMATION,
        ulTotalPrivateMemory: CK_UNAVAILABLE_INFORMATION,
        ulFreePrivateMemory: CK_UNAVAILABLE_INFORMATION,
        hardwareVersion: CK_VERSION::default(),
        firmwareVersion: version(),
        utcTime: padded(""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_padded_and_cut_at_a_character() {
        assert_eq!(&padded::<4>("ab"), b"ab  ");
        assert_eq!(&padded::<4>("abcä"), b"abc ");
        assert_eq!(&padded::<2>("abc"), b"ab");
    }
}
