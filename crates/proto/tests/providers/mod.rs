//! Every provider behind the seam, in turn: a test runs all of its cases with each.
#![allow(dead_code, reason = "each test program uses a part")]

use std::cell::Cell;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::crypto::identity::IdentityLibrary;
use sealway_proto::crypto::ring::Ring;
use sealway_proto::crypto::rust_crypto::RustCrypto;

/// A provider by its name, and its library for ES256.
#[derive(Clone, Copy)]
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    pub(crate) agreement: &'static dyn AgreementProvider,
    pub(crate) library: &'static dyn IdentityLibrary,
}

pub(crate) const ALL: [Backend; 3] = [
    Backend { name: "aws-lc", agreement: &AwsLc, library: &AwsLc },
    Backend { name: "ring", agreement: &Ring, library: &Ring },
    Backend { name: "rust-crypto", agreement: &RustCrypto, library: &RustCrypto },
];

thread_local! {
    static CURRENT: Cell<Backend> = const { Cell::new(ALL[0]) };
}

/// Runs `play` with each in turn; on this thread [`provider`] and [`library`] return it.
pub(crate) fn with_each(play: impl Fn(&'static str)) {
    for built in ALL {
        CURRENT.set(built);
        play(built.name);
    }
    CURRENT.set(ALL[0]);
}

pub(crate) fn provider() -> &'static dyn AgreementProvider {
    CURRENT.get().agreement
}

pub(crate) fn library() -> &'static dyn IdentityLibrary {
    CURRENT.get().library
}
