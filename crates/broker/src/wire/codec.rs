//! Messages to and from bytes, with a bound on how many parts a message may have: two bytes of an empty entry become a hundred
//! in memory, so that a message within its bound in bytes could fill many times as many.

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder};

/// The most fields of a message, each entry of a list counting: more than every list may have together.
const FIELDS_MAX: usize = 4 * 1024;
/// Messages of this many bytes cannot have more.
const LEN_SAFE: usize = 2 * FIELDS_MAX;

/// As tonic's, but for that bound.
#[derive(Debug)]
pub(super) struct Bounded<E, D>(ProstCodec<E, D>);

impl<E, D> Default for Bounded<E, D> {
    fn default() -> Self {
        Bounded(ProstCodec::default())
    }
}

impl<E, D> Codec for Bounded<E, D>
where
    E: Message + Send + 'static,
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = <ProstCodec<E, D> as Codec>::Encoder;
    type Decoder = BoundedDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(self.0.decoder())
    }
}

/// Looks at a message's parts before it is read.
#[derive(Debug)]
pub(super) struct BoundedDecoder<D>(ProstDecoder<D>);

impl<D: Message + Default> Decoder for BoundedDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        use bytes::Buf;
        // A buffer in parts is one that tonic does not have.
        if bytes.remaining() > LEN_SAFE && (bytes.chunk().len() < bytes.remaining() || has_too_many(bytes.chunk())) {
            return Err(Status::invalid_argument(format!("a message of more than {FIELDS_MAX} fields")));
        }
        self.0.decode(bytes)
    }
}

/// Whether a message has more than [`FIELDS_MAX`]. What is malformed is left to who reads it, who stops at the same place.
fn has_too_many(mut message: &[u8]) -> bool {
    for _ in 0..FIELDS_MAX {
        if message.is_empty() || skip(&mut message).is_none() {
            return false;
        }
    }
    !message.is_empty()
}

/// Passes over a field.
fn skip(message: &mut &[u8]) -> Option<()> {
    let (_, kind) = decode_key(message).ok()?;
    let len = match kind {
        WireType::Varint => {
            decode_varint(message).ok()?;
            0
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => usize::try_from(decode_varint(message).ok()?).ok()?,
        // Marks alone: what lies between them counts as fields of the message.
        WireType::StartGroup | WireType::EndGroup => 0,
    };
    *message = message.split_at_checked(len)?.1;
    Some(())
}

#[cfg(test)]
mod tests {
    use sealway_proto::broker::v1::{Cipher, DecryptRequest, HashRequest};

    use super::*;

    #[test]
    fn a_message_has_so_many_parts_and_no_more() {
        let empty = |count: usize| {
            DecryptRequest { ciphers: vec![Cipher::default(); count], ..DecryptRequest::default() }.encode_to_vec()
        };
        assert!(!has_too_many(&empty(FIELDS_MAX)));
        assert!(has_too_many(&empty(FIELDS_MAX + 1)));
        assert!(has_too_many(&empty(1_000_000)));
        let large = HashRequest { profile: "p".into(), inputs: vec![vec![0x0a; 2000]; 1024] };
        assert!(!has_too_many(&large.encode_to_vec()), "what is in an entry counts for nothing");
    }

    #[test]
    fn what_is_malformed_is_not_counted_and_does_not_panic() {
        let mut cut = HashRequest { profile: "p".into(), inputs: vec![vec![1; 9000]; 2] }.encode_to_vec();
        cut.truncate(9000);
        assert!(!has_too_many(&cut));
        for byte in 0..=u8::MAX {
            has_too_many(&[byte; 9000]);
        }
    }
}
