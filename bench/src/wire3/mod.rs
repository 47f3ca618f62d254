//! Wire 3 in this process: an init at the server compared with the bare operations of its suite, a sealed call with wires 1 and
//! 2, a stream with bare AES-256-GCM, and each provider with its own bare operations. It also measures whether the time of a
//! rejection depends on the fault.

mod calls;
mod init;
#[cfg(feature = "providers")]
mod providers;
mod streams;
mod timing;

use std::sync::Arc;

use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};
use sealway_proto::crypto::identity::{IdentityPair, SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, FrameSealer, InitRequest, InnerHeaders, KeyId, ServerRandoms, ShareKey,
    Suite, Terms, agree,
};
use sealway_proto::session::{Auth, Session};

use crate::crypto::cpu_ns;
use crate::table::median;

const NOW: u64 = 1_800_000_000_000;
const ROUNDS: usize = 31;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Init,
    Calls,
    Streams,
    /// Built with the feature `providers` alone
    Providers,
    Timing,
    #[default]
    All,
}

/// Parts of wire 3 to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// One part of it
    #[arg(value_enum, default_value_t)]
    part: Part,
    /// Refusals of each kind that are timed
    #[arg(long, default_value_t = 100_000)]
    samples: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { part: Part::All, samples: 100_000 }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let is_asked = |part| options.part == Part::All || options.part == part;
    if is_asked(Part::Init) {
        init::run();
    }
    if is_asked(Part::Calls) {
        calls::run()?;
    }
    if is_asked(Part::Streams) {
        streams::run()?;
    }
    if is_asked(Part::Providers) {
        #[cfg(feature = "providers")]
        providers::run()?;
    }
    if is_asked(Part::Timing) {
        timing::run(options.samples);
    }
    Ok(())
}

fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

/// Returns the median CPU time of each operation in nanoseconds, measured in alternating rounds; and the smallest and the largest
/// ratio of the last operation to the first in one round, which shows how quiet the machine was.
fn compare<const N: usize>(count: usize, mut operations: [&mut dyn FnMut(); N]) -> ([f64; N], (f64, f64)) {
    let mut samples = [const { Vec::new() }; N];
    let mut ratios = (f64::MAX, 0.0_f64);
    for round in 0..=ROUNDS {
        let mut taken = [0.0; N];
        for (operation, taken) in operations.iter_mut().zip(&mut taken) {
            let start = cpu_ns();
            for _ in 0..count {
                operation();
            }
            *taken = (cpu_ns() - start) / count as f64;
        }
        if round > 0 {
            // The first one warms up.
            let ratio = taken[N - 1] / taken[0];
            ratios = (ratios.0.min(ratio), ratios.1.max(ratio));
            samples.iter_mut().zip(taken).for_each(|(samples, taken)| samples.push(taken));
        }
    }
    (samples.map(|mut samples| median(&mut samples)), ratios)
}

/// A service with an identity key.
struct Service {
    key: IdentityPair,
    key_id: KeyId,
}

impl Service {
    fn new(algorithm: SignatureAlgorithm) -> Self {
        let key = default_identity_library().generate(algorithm).unwrap().1;
        let key_id = KeyId::of(provider(), key.public());
        Service { key, key_id }
    }

    /// Runs the server's side of an init, from the body of the request to the body of the answer and the session.
    fn answer(&self, body: &[u8]) -> (String, Session) {
        let request = InitRequest::parse(body).unwrap();
        let terms = Terms {
            suites: Suite::ALL.to_vec(),
            expires_in_sec: 600,
            key_id: self.key_id,
            key_ids: vec![self.key_id],
            auth: Auth::None,
            subject: None,
            tenant: None,
            credential: None,
        };
        let randoms = ServerRandoms::Draw;
        let agreed = agree(provider(), &request, terms, None, &[9; 16], randoms, NOW, &mut |_| ()).unwrap();
        let signature = self.key.sign(&agreed.message()).unwrap();
        agreed.signed(provider(), signature).unwrap()
    }
}

fn client_init(suite: Suite) -> ClientInit {
    client_init_of(suite, None)
}

/// Begins an init of a client that pins the key of a service, or none.
fn client_init_of(suite: Suite, pinned: Option<&Service>) -> ClientInit {
    let offer = ClientOffer {
        suites: vec![suite],
        client_id: "bench".into(),
        ttl_sec: None,
        pinned_key_ids: pinned.iter().map(|service| service.key_id).collect(),
        signature_algorithms: Vec::new(),
        credential: None,
    };
    ClientInit::new(offer, ShareKey::generate(provider(), suite).unwrap(), None).unwrap()
}

fn agreed() -> (ClientSession, Arc<Session>) {
    let (service, init) = (Service::new(SignatureAlgorithm::Es256), client_init(Suite::X25519MlKem768));
    let (answer, session) = service.answer(init.body().as_bytes());
    let key = default_identity_library().public(service.key.public()).unwrap();
    (init.finish(provider(), Some(&key), answer.as_bytes()).unwrap(), Arc::new(session))
}

/// Returns the inner headers of a typical call to a service.
fn headers() -> InnerHeaders {
    let mut headers = InnerHeaders::new();
    headers.push("content-type", b"application/json").unwrap();
    headers
}

/// Returns a stream of full frames. The first frame begins with the inner headers.
fn stream(mut sealer: FrameSealer, headers: &InnerHeaders, mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FrameSealer::stream_len(body.len() as u64 + 256) as usize);
    let mut head = Vec::with_capacity(256);
    headers.encode(&mut head);
    loop {
        let begun = sealer.begin(&mut out);
        out.extend_from_slice(&head);
        let part;
        (part, body) = body.split_at(body.len().min(65_536 - head.len()));
        out.extend_from_slice(part);
        head.clear();
        sealer.seal(&mut out, begun, body.is_empty()).unwrap();
        if body.is_empty() {
            return out;
        }
    }
}
