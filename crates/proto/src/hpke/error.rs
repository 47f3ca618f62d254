//! Errors of HPKE. A protocol above maps them to its own: no peer learns how far its message came.

/// An error of HPKE. It carries no secret and no decrypted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HpkeError {
    /// A private key has a wrong length, or is none of the KEM's group.
    #[error("private key is not of this KEM: a wrong length, zero, or not below the group's order")]
    PrivateKey,
    /// A public key has a wrong length or form, is off the curve or out of range (RFC 9180 section 7.1, FIPS 203 section
    /// 7.2).
    #[error("public key is not of this KEM: a wrong length or form, off the curve, or out of range")]
    PublicKey,
    /// A key and a suite are of different KEMs.
    #[error("the key is of another KEM than the suite")]
    KemMismatch,
    /// A pre-shared key is shorter than 32 bytes, or has no name.
    #[error("pre-shared key is shorter than 32 bytes or has no name")]
    Psk,
    /// An encapsulated secret has a wrong length or form, or an all-zero result.
    #[error("encapsulated secret is not of this KEM")]
    Encapsulated,
    /// A message does not open.
    #[error("message does not open")]
    Unsealable,
    /// A context that exports only was asked to seal or open.
    #[error("the suite exports only")]
    ExportOnly,
    /// A context has sealed or opened as many messages as it may.
    #[error("the context has no sequence numbers left")]
    SequenceExhausted,
    /// An exported secret longer than 8160 bytes was asked for.
    #[error("exported secret is longer than 8160 bytes")]
    ExportLength,
    /// The crypto module reported a failure.
    #[error("crypto module failure")]
    Provider,
}
