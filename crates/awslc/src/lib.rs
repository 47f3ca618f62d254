//! Signatures and digests of AWS-LC that the safe API of aws-lc-rs does not offer: the one crate with unsafe code.
#![warn(missing_docs)]
