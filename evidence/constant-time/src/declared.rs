//! Places of Sealway's code that depend on a secret by design. Each is a decision that the peer learns anyway.

/// A place: the file from the root, the function, and the reason.
pub(crate) struct Exemption {
    pub(crate) file: &'static str,
    pub(crate) function: &'static str,
    pub(crate) reason: &'static str,
}

const fn declared(file: &'static str, function: &'static str, reason: &'static str) -> Exemption {
    Exemption { file, function, reason }
}

const ALL_ZERO: &str =
    "a shared secret of zeros is rejected (RFC 7748 section 6.1): it is one that the peer's point alone decides";

const WIPE: &str = "the wipe of a plaintext at the end of the case: its length is that of a text whose padding was cut";

const POINT: &str = "the form of the public key of a scalar: whether it is a point, which the range of scalars ensures";

pub(crate) const DECLARED: &[Exemption] = &[
    declared("crates/proto/src/crypto/agreement_aws_lc.rs", "agree", ALL_ZERO),
    declared("crates/proto/src/crypto/rust_crypto/agreement.rs", "agree", ALL_ZERO),
    declared("crates/proto/src/crypto/rust_crypto/agreement.rs", "on_p256", POINT),
    declared("crates/proto/src/crypto/rust_crypto/mod.rs", "boxed", POINT),
    declared(
        "crates/proto/src/channel/noise/handshake.rs",
        "check_pinned",
        "accept or reject: the peer's static public key is the pinned one, compared in constant time",
    ),
    declared(
        "crates/proto/src/channel/noise/record.rs",
        "open",
        "behind a verified tag: the kind of a record, and the cut of its padding, whose time tells the length of the padding",
    ),
    declared(
        "crates/proto/src/channel/v1/server.rs",
        "read_ack",
        "accept or reject: the client's tag, compared in constant time",
    ),
    declared(
        "crates/proto/src/mle/fle.rs",
        "decrypt",
        "the form has no tag, so its sender learns whether a padding is right, and its length; not where it goes wrong",
    ),
    declared(
        "crates/proto/src/mle/aws_lc.rs",
        "open_content",
        "accept or reject, and the length of a plaintext behind a verified tag: its padding is cut",
    ),
    declared("evidence/constant-time/src/cases/mle.rs", "field_level", WIPE),
    declared("evidence/constant-time/src/cases/mle.rs", "round_trip", WIPE),
    declared("crates/proto/src/session/native/client.rs", "finish", "accept or reject: the server's confirmation"),
    declared("crates/proto/src/session/native/frame.rs", "open", "accept or reject: tag and commitment together"),
];

pub(crate) fn find(file: &str, function: &str) -> Option<&'static Exemption> {
    DECLARED.iter().find(|place| place.file == file && place.function == function)
}
