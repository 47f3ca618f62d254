//! Native records: `SWNR`, with an encrypted kind and padding. `spec/channel.md#native-records`.
//!
//! The plaintext is `content || kind || zeros`; the kind's top bit says that the sender's key changes after this record. The
//! header, which is authenticated, shows a relay the direction, the number and the length, and nothing else.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::handshake::Role;
use crate::channel::ChannelError;
use crate::channel::frame::{Profile, parse_record, record_header};
use crate::channel::limits::{CLOSE_REASON_LEN_MAX, NATIVE_CONTENT_MAX, RECORD_HEADER_LEN, RECORDS_PER_KEY_MAX};
use crate::channel::record::{CloseReason, Content, RecordContent};
use crate::channel::sequence::Sequence;
use crate::channel::settings::ChannelSettings;
use crate::crypto::AeadKey;
use crate::crypto::agreement::{AgreementProvider, Cipher, expand};
use crate::limits::{IV_LEN, KEY_LEN, TAG_LEN};

const DATA: u8 = 1;
const PING: u8 = 2;
const PONG: u8 = 3;
const REKEY: u8 = 4;
const CLOSE: u8 = 5;
/// Bit of the kind: the key changes after this record.
const KEY_CHANGES: u8 = 0x80;

/// The longest record, header and tag included.
const RECORD_MAX: usize = RECORD_HEADER_LEN + NATIVE_CONTENT_MAX + 1 + TAG_LEN;

/// The header's direction byte, which names the sender.
fn direction(sender: Role) -> u8 {
    match sender {
        Role::Client => 0,
        Role::Server => 1,
    }
}

/// One direction's key, which only advances.
struct Ratchet {
    provider: &'static dyn AgreementProvider,
    cipher: Cipher,
    key: Zeroizing<[u8; KEY_LEN]>,
    aead: Box<dyn AeadKey>,
    sequence: Sequence,
    /// Number of records sealed or opened with this key.
    used: u64,
}

impl Ratchet {
    fn new(
        provider: &'static dyn AgreementProvider,
        cipher: Cipher,
        key: Zeroizing<[u8; KEY_LEN]>,
    ) -> Result<Self, ChannelError> {
        let aead = provider.aead(cipher, &key).map_err(|_| ChannelError::AgreementProvider)?;
        Ok(Ratchet { provider, cipher, key, aead, sequence: Sequence::new(), used: 0 })
    }

    /// Derives the next key and wipes the one before, which does not follow from the next.
    fn turn(&mut self) -> Result<(), ChannelError> {
        self.key = expand(self.provider, &self.key, b"sealway-channel-v1 next key");
        self.aead = self.provider.aead(self.cipher, &self.key).map_err(|_| ChannelError::AgreementProvider)?;
        self.used = 0;
        Ok(())
    }

    /// Returns the IV of a record. Keys belong to a direction and numbers continue over a change of key: no nonce is ever used
    /// twice under one key.
    fn iv(seq: u64) -> [u8; IV_LEN] {
        let [s0, s1, s2, s3, s4, s5, s6, s7] = seq.to_be_bytes();
        [0, 0, 0, 0, s0, s1, s2, s3, s4, s5, s6, s7]
    }
}

pub(crate) struct NativeSealer {
    ratchet: Ratchet,
    flags: u8,
    content_max: usize,
    rekey_after_records: u64,
    rekey_after_ms: u64,
    /// Time of the first use of the key, in milliseconds of the caller's clock.
    since_ms: Option<u64>,
    pad_to: usize,
}

impl NativeSealer {
    pub(crate) fn new(
        provider: &'static dyn AgreementProvider,
        cipher: Cipher,
        key: Zeroizing<[u8; KEY_LEN]>,
        role: Role,
        settings: &ChannelSettings,
    ) -> Result<Self, ChannelError> {
        Ok(NativeSealer {
            ratchet: Ratchet::new(provider, cipher, key)?,
            flags: direction(role),
            content_max: settings.content_max,
            rekey_after_records: settings.rekey_after_records,
            rekey_after_ms: settings.rekey_after_ms,
            since_ms: None,
            pad_to: settings.pad_to,
        })
    }

    pub(crate) fn content_max(&self) -> usize {
        self.content_max
    }

    pub(crate) fn seal(
        &mut self,
        content: &Content,
        plaintext: &[u8],
        out: &mut Vec<u8>,
        now_ms: u64,
    ) -> Result<(), ChannelError> {
        let number;
        let code;
        let (kind, parts): (u8, [&[u8]; 2]) = match content {
            Content::Data => (DATA, [plaintext, &[]]),
            Content::Ping(value) => {
                number = value.to_be_bytes();
                (PING, [&number, plaintext])
            }
            Content::Pong(value) => {
                number = value.to_be_bytes();
                (PONG, [&number, plaintext])
            }
            Content::Rekey => (REKEY, [&[], plaintext]),
            Content::Close(why) => {
                if why.reason.len() > CLOSE_REASON_LEN_MAX {
                    return Err(ChannelError::ContentTooLarge);
                }
                code = why.code.to_be_bytes();
                (CLOSE, [&code, why.reason.as_bytes()])
            }
        };
        if plaintext.len() > self.content_max || (kind != DATA && !plaintext.is_empty()) {
            return Err(ChannelError::ContentTooLarge);
        }
        let content_len: usize = parts.iter().map(|part| part.len()).sum();
        let inner_len = self.padded(content_len + 1);
        let seq = self.ratchet.sequence.take()?;
        let key_changes = self.key_changes(kind, now_ms);

        let header = record_header(Profile::Native, self.flags, seq, inner_len + TAG_LEN);
        out.reserve(RECORD_HEADER_LEN + inner_len + TAG_LEN);
        out.extend_from_slice(&header);
        let start = out.len();
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.push(if key_changes { kind | KEY_CHANGES } else { kind });
        out.resize(start + inner_len, 0);
        let inner = out.get_mut(start..).ok_or(ChannelError::AgreementProvider)?;
        let tag = self.ratchet.aead.seal_in_place(&Ratchet::iv(seq), &header, inner);
        out.extend_from_slice(&tag.map_err(|_| ChannelError::AgreementProvider)?);
        if key_changes {
            self.ratchet.turn()?;
            self.since_ms = Some(now_ms);
        }
        Ok(())
    }

    /// Counts this record, and returns whether it is its key's last.
    fn key_changes(&mut self, kind: u8, now_ms: u64) -> bool {
        self.ratchet.used += 1;
        let since_ms = *self.since_ms.get_or_insert(now_ms);
        kind == REKEY
            || self.ratchet.used >= self.rekey_after_records
            || now_ms.saturating_sub(since_ms) >= self.rekey_after_ms
    }

    fn padded(&self, len: usize) -> usize {
        if self.pad_to < 2 {
            return len;
        }
        len.next_multiple_of(self.pad_to).min(self.content_max + 1)
    }
}

pub(crate) struct NativeOpener {
    ratchet: Ratchet,
    peer: u8,
    own: u8,
}

impl NativeOpener {
    /// Creates an opener; `role` is this side's.
    pub(crate) fn new(
        provider: &'static dyn AgreementProvider,
        cipher: Cipher,
        key: Zeroizing<[u8; KEY_LEN]>,
        role: Role,
    ) -> Result<Self, ChannelError> {
        let peer = match role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        Ok(NativeOpener { ratchet: Ratchet::new(provider, cipher, key)?, peer: direction(peer), own: direction(role) })
    }

    // SPEC channel.md#native-records: the checks, in this order.
    pub(crate) fn open<'m>(&mut self, message: &'m mut [u8]) -> Result<RecordContent<'m>, ChannelError> {
        let (header, sealed) = parse_record(Profile::Native, RECORD_MAX, message)?;
        if header.flags == self.own {
            return Err(ChannelError::RecordReflected);
        }
        if header.flags != self.peer {
            return Err(ChannelError::RecordFlags);
        }
        self.ratchet.sequence.expect(header.seq)?;
        if self.ratchet.used >= RECORDS_PER_KEY_MAX {
            return Err(ChannelError::RekeyOverdue);
        }
        let opened = self.ratchet.aead.open_in_place(&Ratchet::iv(header.seq), &header.bytes, sealed);
        opened.map_err(|_| ChannelError::RecordUnsealable)?;
        self.ratchet.sequence.take()?;
        self.ratchet.used += 1;

        let (inner, _tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(ChannelError::RecordTruncated)?;
        let end = inner.iter().rposition(|byte| *byte != 0).ok_or(ChannelError::RecordContent)?;
        let (content, rest) = inner.split_at_checked(end).ok_or(ChannelError::RecordContent)?;
        let kind = *rest.first().ok_or(ChannelError::RecordContent)?;
        if kind & KEY_CHANGES != 0 {
            self.ratchet.turn()?;
        }
        let number = || content.try_into().map(u64::from_be_bytes).map_err(|_| ChannelError::RecordContent);
        match kind & !KEY_CHANGES {
            DATA => Ok(RecordContent::Data(content)),
            PING => Ok(RecordContent::Ping(number()?)),
            PONG => Ok(RecordContent::Pong(number()?)),
            REKEY if kind & KEY_CHANGES != 0 && content.is_empty() => Ok(RecordContent::Rekeyed),
            CLOSE => close(content).map(RecordContent::Closed),
            _ => Err(ChannelError::RecordContent),
        }
    }
}

fn close(content: &[u8]) -> Result<CloseReason, ChannelError> {
    let (code, reason) = content.split_first_chunk::<2>().ok_or(ChannelError::RecordContent)?;
    let reason = core::str::from_utf8(reason).map_err(|_| ChannelError::RecordContent)?;
    if reason.len() > CLOSE_REASON_LEN_MAX {
        return Err(ChannelError::RecordContent);
    }
    Ok(CloseReason { code: u16::from_be_bytes(*code), reason: String::from(reason) })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::channel::Suite;
    use crate::crypto::agreement::default_agreement_provider;

    fn pair() -> (NativeSealer, NativeOpener) {
        let provider = default_agreement_provider();
        let settings = ChannelSettings::new("c", [0; 32], Suite::from_id(0x100).unwrap(), 0);
        let key = || Zeroizing::new([3; 32]);
        let sealer = NativeSealer::new(provider, Cipher::Aes256Gcm, key(), Role::Client, &settings).unwrap();
        (sealer, NativeOpener::new(provider, Cipher::Aes256Gcm, key(), Role::Server).unwrap())
    }

    fn send(sealer: &mut NativeSealer, opener: &mut NativeOpener, content: &Content) -> Result<(), ChannelError> {
        let mut out = Vec::new();
        sealer.seal(content, &[], &mut out, 0)?;
        opener.open(&mut out).map(|_| ())
    }

    #[test]
    fn a_sender_that_does_not_change_its_key_is_refused_after_the_bound() {
        for honest in [true, false] {
            let (mut sealer, mut opener) = pair();
            (sealer.ratchet.used, opener.ratchet.used) = (RECORDS_PER_KEY_MAX - 1, RECORDS_PER_KEY_MAX - 1);
            if !honest {
                sealer.rekey_after_records = u64::MAX;
            }
            let before = opener.ratchet.key.clone();
            assert_eq!(send(&mut sealer, &mut opener, &Content::Data), Ok(()));
            assert_eq!(opener.ratchet.key != before, honest);
            let outcome = if honest { Ok(()) } else { Err(ChannelError::RekeyOverdue) };
            assert_eq!(send(&mut sealer, &mut opener, &Content::Data), outcome);
        }
    }

    #[test]
    fn a_key_changes_with_the_record_that_says_so_and_its_numbers_go_on() {
        let (mut sealer, mut opener) = pair();
        sealer.rekey_after_records = 2;
        let mut keys = vec![sealer.ratchet.key.clone()];
        for seq in 1..7_u64 {
            assert_eq!(send(&mut sealer, &mut opener, &Content::Data), Ok(()));
            assert_eq!(sealer.ratchet.key, opener.ratchet.key);
            if seq % 2 == 0 {
                assert!(!keys.contains(&sealer.ratchet.key), "a key twice");
                keys.push(sealer.ratchet.key.clone());
            }
            assert_eq!(sealer.ratchet.sequence.expect(seq + 1), Ok(()));
        }
        assert_eq!(keys.len(), 4);
    }

    #[test]
    fn a_record_that_no_sender_writes_is_rejected_although_it_opens() {
        let long = [&[0, 0][..], &[b'x'; CLOSE_REASON_LEN_MAX + 1], &[CLOSE]].concat();
        let inners: [&[u8]; 10] = [
            &[],
            &[0, 0, 0],
            &[6],
            &[0x80],
            &[1, 2, 3, PING],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, PONG],
            &[REKEY],
            &[1, REKEY | KEY_CHANGES],
            &[0, CLOSE],
            &[0, 0, 0xff, CLOSE],
        ];
        for inner in inners.into_iter().chain([long.as_slice()]) {
            let (sealer, mut opener) = pair();
            let header = record_header(Profile::Native, 0, 1, inner.len() + TAG_LEN);
            let mut message = header.to_vec();
            message.extend_from_slice(inner);
            let tag = sealer.ratchet.aead.seal_in_place(&Ratchet::iv(1), &header, &mut message[RECORD_HEADER_LEN..]);
            message.extend_from_slice(&tag.unwrap());
            assert_eq!(opener.open(&mut message), Err(ChannelError::RecordContent), "{inner:?}");
        }
    }
}
