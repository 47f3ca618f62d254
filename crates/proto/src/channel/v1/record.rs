//! Records of v1: `FSEC`, AES-256-GCM, one run of numbers a direction. `spec/channel.md#v1-records`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::channel::frame::{Profile, parse_record, record_header};
use crate::channel::limits::RECORD_HEADER_LEN;
use crate::channel::record::{Content, RecordContent};
use crate::channel::v1::schedule::{Direction, RekeyBase};
use crate::channel::{ChannelError, sequence::Sequence};
use crate::crypto::AeadKey;
use crate::crypto::agreement::{AgreementProvider, Cipher};
use crate::limits::{IV_LEN, TAG_LEN};

const APP: u8 = 0;
const PING: u8 = 1;
const REKEY: u8 = 2;

/// The state that sealing and opening share: a direction's key and its next sequence number.
struct Half {
    provider: &'static dyn AgreementProvider,
    aead: Box<dyn AeadKey>,
    nonce_prefix: [u8; 4],
    rekey: RekeyBase,
    sequence: Sequence,
    record_max: usize,
}

impl Half {
    fn new(
        provider: &'static dyn AgreementProvider,
        direction: Direction,
        record_max: usize,
    ) -> Result<Self, ChannelError> {
        Ok(Half {
            provider,
            aead: provider.aead(Cipher::Aes256Gcm, &direction.key).map_err(|_| ChannelError::AgreementProvider)?,
            nonce_prefix: direction.nonce_prefix,
            rekey: direction.rekey,
            sequence: Sequence::new(),
            record_max,
        })
    }

    fn iv(&self, seq: u64) -> [u8; IV_LEN] {
        let [p0, p1, p2, p3] = self.nonce_prefix;
        let [s0, s1, s2, s3, s4, s5, s6, s7] = seq.to_be_bytes();
        [p0, p1, p2, p3, s0, s1, s2, s3, s4, s5, s6, s7]
    }

    fn change_key(&mut self, seq: u64) -> Result<(), ChannelError> {
        let key = self.rekey.key_after(self.provider, seq);
        self.aead = self.provider.aead(Cipher::Aes256Gcm, &key).map_err(|_| ChannelError::AgreementProvider)?;
        Ok(())
    }
}

pub(crate) struct V1Sealer(Half);
pub(crate) struct V1Opener(Half);

impl V1Sealer {
    pub(crate) fn new(
        provider: &'static dyn AgreementProvider,
        direction: Direction,
        record_max: usize,
    ) -> Result<Self, ChannelError> {
        Half::new(provider, direction, record_max).map(V1Sealer)
    }

    pub(crate) fn content_max(&self) -> usize {
        self.0.record_max.saturating_sub(RECORD_HEADER_LEN + TAG_LEN)
    }

    pub(crate) fn seal(&mut self, content: &Content, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), ChannelError> {
        let flags = match content {
            Content::Data => APP,
            // A v1 ping is empty: it has no room for a number, and the peer does not answer it.
            Content::Ping(0) => PING,
            Content::Rekey => REKEY,
            _ => return Err(ChannelError::ContentUnsupported),
        };
        if plaintext.len() > self.content_max() || (flags != APP && !plaintext.is_empty()) {
            return Err(ChannelError::ContentTooLarge);
        }
        let seq = self.0.sequence.take()?;
        let header = record_header(Profile::V1, flags, seq, plaintext.len() + TAG_LEN);
        out.reserve(RECORD_HEADER_LEN + plaintext.len() + TAG_LEN);
        out.extend_from_slice(&header);
        let start = out.len();
        out.extend_from_slice(plaintext);
        let data = out.get_mut(start..).ok_or(ChannelError::AgreementProvider)?;
        let tag = self.0.aead.seal_in_place(&self.0.iv(seq), &header, data);
        let tag = tag.map_err(|_| ChannelError::AgreementProvider)?;
        out.extend_from_slice(&tag);
        if flags == REKEY {
            self.0.change_key(seq)?;
        }
        Ok(())
    }
}

impl V1Opener {
    pub(crate) fn new(
        provider: &'static dyn AgreementProvider,
        direction: Direction,
        record_max: usize,
    ) -> Result<Self, ChannelError> {
        Half::new(provider, direction, record_max).map(V1Opener)
    }

    pub(crate) fn open<'m>(&mut self, message: &'m mut [u8]) -> Result<RecordContent<'m>, ChannelError> {
        let (header, sealed) = parse_record(Profile::V1, self.0.record_max, message)?;
        if header.flags > REKEY {
            return Err(ChannelError::RecordFlags);
        }
        self.0.sequence.expect(header.seq)?;
        let opened = self.0.aead.open_in_place(&self.0.iv(header.seq), &header.bytes, sealed);
        opened.map_err(|_| ChannelError::RecordUnsealable)?;
        self.0.sequence.take()?;
        let (plaintext, _tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(ChannelError::RecordTruncated)?;
        match header.flags {
            APP => Ok(RecordContent::Data(plaintext)),
            _ if !plaintext.is_empty() => Err(ChannelError::RecordContent),
            PING => Ok(RecordContent::Ping(0)),
            _ => {
                self.0.change_key(header.seq)?;
                Ok(RecordContent::Rekeyed)
            }
        }
    }
}
