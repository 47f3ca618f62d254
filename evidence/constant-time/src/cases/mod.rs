//! The cases: one path of the product each, with each crypto provider where the path has one.

mod channel;
mod hpke;
mod keys;
mod mle;
pub(crate) mod native;
mod planted;
pub(crate) mod session;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::crypto::identity::IdentityLibrary;
use sealway_proto::crypto::ring::Ring;
use sealway_proto::crypto::rust_crypto::RustCrypto;

use crate::seam::Seam;

/// Time of all cases, in milliseconds.
pub(crate) const NOW_MS: u64 = 1_790_000_000_000;

/// A crypto library behind the seam.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    pub(crate) provider: &'static dyn AgreementProvider,
    identity: &'static dyn IdentityLibrary,
}

pub(crate) static LIBRARIES: [Library; 3] = [
    Library { name: "aws-lc", provider: &Seam(&AwsLc), identity: &AwsLc },
    Library { name: "ring", provider: &Seam(&Ring), identity: &Ring },
    Library { name: "rust-crypto", provider: &Seam(&RustCrypto), identity: &RustCrypto },
];

/// A path of the product. Its function fails if the path does not work, and asserts nothing of secrets.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    name: &'static str,
    run: fn(&Library) -> anyhow::Result<()>,
    /// True if the path is played with each provider; else with AWS-LC alone, which its crate is written for.
    is_of_each: bool,
    /// True if it is a part of the short form, with this provider.
    short: Option<&'static str>,
    /// True for a planted leak, which must be reported.
    is_planted: bool,
}

impl Path {
    const fn of_each(name: &'static str, run: fn(&Library) -> anyhow::Result<()>) -> Path {
        Path { name, run, is_of_each: true, short: None, is_planted: false }
    }

    const fn of_one(name: &'static str, run: fn(&Library) -> anyhow::Result<()>) -> Path {
        Path { is_of_each: false, ..Path::of_each(name, run) }
    }

    const fn in_short(self, provider: &'static str) -> Path {
        Path { short: Some(provider), ..self }
    }

    const fn planted(name: &'static str, run: fn(&Library) -> anyhow::Result<()>) -> Path {
        Path { is_planted: true, ..Path::of_one(name, run) }.in_short("aws-lc")
    }
}

/// A path with a provider.
pub(crate) struct Case {
    /// The name of the module. Cases of one family run in one process.
    family: &'static str,
    path: Path,
    library: &'static Library,
}

impl Case {
    /// Returns the name of the case, `PATH/PROVIDER`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.path.name, self.library.name)
    }

    pub(crate) fn family(&self) -> &'static str {
        self.family
    }

    pub(crate) fn is_planted(&self) -> bool {
        self.path.is_planted
    }

    pub(crate) fn is_short(&self) -> bool {
        self.path.short == Some(self.library.name)
    }

    pub(crate) fn run(&self) -> anyhow::Result<()> {
        (self.path.run)(self.library)
    }
}

/// Returns all cases, in the order of their families.
pub(crate) fn all() -> Vec<Case> {
    let families = [
        ("planted", planted::PATHS),
        ("session", session::PATHS),
        ("native", native::PATHS),
        ("hpke", hpke::PATHS),
        ("channel", channel::PATHS),
        ("keys", keys::PATHS),
        ("mle", mle::PATHS),
    ];
    let mut cases = Vec::new();
    for (family, paths) in families {
        for path in paths {
            let libraries = LIBRARIES.iter().take(if path.is_of_each { LIBRARIES.len() } else { 1 });
            cases.extend(libraries.map(|library| Case { family, path: *path, library }));
        }
    }
    cases
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    /// Without valgrind the marks have no effect, and a case shows only that its path works.
    #[test]
    fn every_case_plays() {
        let cases = all();
        assert!(cases.len() > 80, "{}", cases.len());
        cases.iter().for_each(|case| case.run().unwrap_or_else(|err| panic!("{}: {err:#}", case.name())));
    }
}
