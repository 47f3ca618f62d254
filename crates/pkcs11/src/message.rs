//! Messages between a process and the host of a token's module: a length in four bytes, and then protobuf. Both ends are
//! of one binary, so that the messages have no versions.

use std::io::{self, Read, Write};

use prost::Message;
use zeroize::Zeroizing;

use crate::{Error, Fault};

/// Longest message, in bytes: the largest input of the broker with its additional data, and room for the rest.
const LEN_MAX: usize = 4 * 1024 * 1024;

/// Name of a key on its token: both parts must fit if both are given.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct KeyName {
    /// Id of the key, CKA_ID.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub id: Option<Vec<u8>>,
    /// Label of the key, CKA_LABEL.
    #[prost(string, optional, tag = "2")]
    pub label: Option<String>,
}

/// Mechanism of a signature or a MAC, and its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Scheme {
    /// ECDSA of a digest (FIPS 186-5).
    Ecdsa = 1,
    /// RSA PKCS#1 v1.5 of a DigestInfo.
    RsaPkcs1 = 2,
    /// RSA-PSS of a SHA-256 digest.
    RsaPss256 = 3,
    /// RSA-PSS of a SHA-384 digest.
    RsaPss384 = 4,
    /// RSA-PSS of a SHA-512 digest.
    RsaPss512 = 5,
    /// Ed25519 of a message (RFC 8032).
    Ed25519 = 6,
    /// HMAC with SHA-256 of a message.
    Hmac256 = 7,
    /// HMAC with SHA-384 of a message.
    Hmac384 = 8,
    /// HMAC with SHA-512 of a message.
    Hmac512 = 9,
    /// ML-DSA of a message in its pure mode with an empty context (FIPS 204 section 5.2); the key has the parameter set.
    MlDsa = 10,
}

/// Type of a secret key on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum SecretKind {
    /// AES, of 16, 24 or 32 bytes.
    Aes = 1,
    /// A generic secret, or a key of one HMAC.
    Generic = 2,
}

/// Kind of a key to generate on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Generate {
    /// An ECDSA pair on P-256.
    P256 = 1,
    /// An ECDSA pair on P-384.
    P384 = 2,
    /// An ECDSA pair on P-521.
    P521 = 3,
    /// An Ed25519 pair (RFC 8032).
    Ed25519 = 4,
    /// An RSA pair that signs; the size is in bits.
    RsaSign = 5,
    /// An RSA pair that decrypts; the size is in bits.
    RsaDecrypt = 6,
    /// An AES key; the size is in bytes.
    Aes = 7,
    /// A key of HMAC; the size is in bytes.
    Hmac = 8,
    /// An ML-DSA-44 pair (FIPS 204).
    MlDsa44 = 9,
    /// An ML-DSA-65 pair (FIPS 204).
    MlDsa65 = 10,
    /// An ML-DSA-87 pair (FIPS 204).
    MlDsa87 = 11,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct Request {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(oneof = "Operation", tags = "2, 3, 4, 5, 6, 7, 8, 9")]
    pub(crate) operation: Option<Operation>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
pub(crate) enum Operation {
    /// Loads the module and logs in: the first request of a host.
    #[prost(message, tag = "2")]
    Open(Open),
    /// Checks that the token is present.
    #[prost(message, tag = "3")]
    Ping(Ping),
    /// Reads the public half of a private key, as SubjectPublicKeyInfo.
    #[prost(message, tag = "4")]
    Public(KeyName),
    /// Reads the type and the length of a secret key.
    #[prost(message, tag = "5")]
    Secret(KeyName),
    #[prost(message, tag = "6")]
    Sign(Sign),
    #[prost(message, tag = "7")]
    Decrypt(Decrypt),
    #[prost(message, tag = "8")]
    Gcm(GcmText),
    #[prost(message, tag = "9")]
    Generate(GenerateKey),
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct Open {
    #[prost(string, tag = "1")]
    pub(crate) module: String,
    #[prost(string, optional, tag = "2")]
    pub(crate) token: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) serial: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) manufacturer: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub(crate) model: Option<String>,
    #[prost(string, tag = "6")]
    pub(crate) pin: String,
    #[prost(uint32, tag = "7")]
    pub(crate) sessions: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ping {}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct Sign {
    #[prost(message, required, tag = "1")]
    pub(crate) key: KeyName,
    #[prost(enumeration = "Scheme", tag = "2")]
    pub(crate) scheme: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) input: Vec<u8>,
}

/// RSA-OAEP with an empty label; the digest is also that of MGF1.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct Decrypt {
    #[prost(message, required, tag = "1")]
    pub(crate) key: KeyName,
    /// True for SHA-1, else SHA-256.
    #[prost(bool, tag = "2")]
    pub(crate) is_sha1: bool,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) input: Vec<u8>,
}

/// AES-GCM; the tag stands at the end of the ciphertext.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct GcmText {
    #[prost(message, required, tag = "1")]
    pub(crate) key: KeyName,
    #[prost(bool, tag = "2")]
    pub(crate) opens: bool,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) nonce: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) aad: Vec<u8>,
    #[prost(uint32, tag = "5")]
    pub(crate) tag_len: u32,
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) input: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GenerateKey {
    #[prost(message, required, tag = "1")]
    pub(crate) key: KeyName,
    #[prost(enumeration = "Generate", tag = "2")]
    pub(crate) kind: i32,
    #[prost(uint32, tag = "3")]
    pub(crate) size: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct Response {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    /// Number of a [`Fault`]; 0 for success.
    #[prost(int32, tag = "2")]
    pub(crate) fault: i32,
    #[prost(string, tag = "3")]
    pub(crate) detail: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) output: Vec<u8>,
}

impl Response {
    pub(crate) fn new(number: u64, result: Result<Vec<u8>, Error>) -> Response {
        match result {
            Ok(output) => Response { number, output, ..Response::default() },
            Err(err) => Response { number, fault: err.fault.into(), detail: err.detail, output: Vec::new() },
        }
    }

    pub(crate) fn result(self) -> Result<Vec<u8>, Error> {
        match (self.fault, Fault::try_from(self.fault)) {
            (0, _) => Ok(self.output),
            (_, Ok(fault)) => Err(Error::new(fault, self.detail)),
            (_, Err(_)) => Err(Fault::HostDied.into()),
        }
    }
}

/// Writes a message. Its encoded copy is wiped.
pub(crate) fn write(mut to: impl Write, message: &impl Message) -> io::Result<()> {
    let len = message.encoded_len();
    if len > LEN_MAX {
        return Err(io::Error::other("the message is too long"));
    }
    let mut frame = Zeroizing::new(Vec::with_capacity(len + 4));
    frame.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    message.encode(&mut *frame).map_err(io::Error::other)?;
    to.write_all(&frame)
}

/// Reads a message; `None` at the end of the stream. Its encoded copy is wiped.
pub(crate) fn read<T: Message + Default>(mut from: impl Read) -> io::Result<Option<T>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
    if len > LEN_MAX {
        return Err(io::Error::other("the message is too long"));
    }
    let mut frame = Zeroizing::new(vec![0; len]);
    from.read_exact(&mut frame)?;
    T::decode(frame.as_slice()).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_round_trips_and_a_truncated_or_too_long_one_is_rejected() {
        let key = KeyName { id: Some(vec![1]), label: Some("k".into()) };
        let sign = Sign { key, scheme: Scheme::Ecdsa.into(), input: vec![7; 100] };
        let request = Request { number: 5, operation: Some(Operation::Sign(sign)) };
        let mut frame = Vec::new();
        write(&mut frame, &request).unwrap();
        assert!(read::<Request>(frame.as_slice()).unwrap() == Some(request));
        for len in 4..frame.len() {
            assert!(read::<Request>(&frame[..len]).is_err(), "{len}");
        }
        assert!(read::<Request>([0xff; 8].as_slice()).is_err());
        assert!(read::<Request>([].as_slice()).unwrap().is_none());
        let long = Response { output: vec![0; LEN_MAX], ..Response::default() };
        assert!(write(Vec::new(), &long).is_err());
    }
}
