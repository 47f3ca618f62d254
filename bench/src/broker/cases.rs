//! The cases: the server and the call of each, and the figures measured.

use hdrhistogram::Histogram;
use prost::Message;
use sealway_proto::broker::{health, open, v1};
use serde::{Deserialize, Serialize};

use super::driver::{Call, CaseFigures};
use crate::table::median;

/// The number of inputs in the longest batch of the table.
pub(super) const BATCH: usize = 64;
/// The number of calls in flight in the concurrent rows.
pub(super) const IN_FLIGHT: usize = 16;
/// The length of an input in bytes.
pub(super) const INPUT_LEN: usize = 64;

/// The server that a case measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Ours,
    Echo,
    Ping,
}

/// One case: a row of the table, and the figures of each round.
pub(super) struct Case {
    pub(super) server: Server,
    pub(super) call: Option<Call>,
    pub(super) row: Row,
    seen: Vec<(f64, f64, f64)>,
}

/// The medians of a row over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// The name of the row, such as `hash sha-256`.
    pub(super) name: String,
    /// The number of calls in flight.
    pub(super) in_flight: usize,
    /// The number of inputs in a call.
    pub(super) inputs: usize,
    /// The median time of a round trip, in µs.
    pub(super) p50_us: f64,
    /// The server's processor time for a call, kernel included, in µs.
    pub(super) cpu_us: f64,
    /// The number of calls per second.
    pub(super) rate: f64,
}

impl Case {
    fn new(server: Server, name: &str, call: Option<Call>, in_flight: usize, inputs: usize) -> Self {
        let row = Row { name: name.to_owned(), in_flight, inputs, p50_us: 0.0, cpu_us: 0.0, rate: 0.0 };
        Case { server, call, row, seen: Vec::new() }
    }

    /// Adds the figures of one round.
    pub(super) fn keep(&mut self, seen: &CaseFigures, cpu_ns: u64) {
        let calls = seen.calls.max(1) as f64;
        let rate = calls / seen.elapsed.as_secs_f64();
        self.seen.push((p50_us(&seen.times), cpu_ns as f64 / 1e3 / calls, rate));
    }

    /// Returns the row with the medians of all rounds.
    pub(super) fn row(&self) -> Row {
        let of = |pick: fn(&(f64, f64, f64)) -> f64| median(&mut self.seen.iter().map(pick).collect::<Vec<_>>());
        Row { p50_us: of(|seen| seen.0), cpu_us: of(|seen| seen.1), rate: of(|seen| seen.2), ..self.row.clone() }
    }
}

fn p50_us(times: &Histogram<u64>) -> f64 {
    times.value_at_quantile(0.5) as f64 / 1e3
}

/// A message with one field of bytes, which the echo server accepts.
#[derive(Clone, PartialEq, Message)]
struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    value: Vec<u8>,
}

/// One call at a time, and several in flight.
const FLIGHTS: [usize; 2] = [1, IN_FLIGHT];

/// Returns the rows that need no keys.
pub(super) fn plain() -> Vec<Case> {
    let input = vec![7; INPUT_LEN];
    let echo = Call::new("/bench.Echo/Echo", &Bytes { value: input.clone() });
    let check = Call::new("/grpc.health.v1.Health/Check", &health::HealthCheckRequest::default());
    let hash_data = |profile: &str| {
        let metadata = Some(open::Metadata { id: "0190f5ac-9b0e-7cc4-9c3c-0d8d0a3a7d55".into(), ..Default::default() });
        let request =
            open::HashDataRequest { profile: profile.into(), input: input.clone(), metadata, output_format: 0 };
        Call::new("/CryptoBroker.CryptoGrpc/HashData", &request)
    };
    let hash = |inputs: usize| {
        let request = v1::HashRequest { profile: "Sha256".into(), inputs: vec![input.clone(); inputs] };
        Call::new("/sealway.broker.v1.Broker/Hash", &request)
    };
    let mut cases = vec![Case::new(Server::Ping, PING, None, 1, 1)];
    for flights in FLIGHTS {
        cases.push(Case::new(Server::Echo, ECHO, Some(echo.clone()), flights, 1));
        cases.push(Case::new(Server::Ours, HEALTH, Some(check.clone()), flights, 1));
        cases.push(Case::new(Server::Ours, HASH_OPEN, Some(hash_data("Default")), flights, 1));
        cases.push(Case::new(Server::Ours, HASH_OPEN_256, Some(hash_data("Sha256")), flights, 1));
        cases.push(Case::new(Server::Ours, HASH, Some(hash(1)), flights, 1));
        cases.push(Case::new(Server::Ours, HASH, Some(hash(BATCH)), flights, BATCH));
    }
    cases
}

/// Returns the call with which memory is measured.
pub(super) fn hash_one() -> Call {
    let request = v1::HashRequest { profile: "Sha256".into(), inputs: vec![vec![7; INPUT_LEN]] };
    Call::new("/sealway.broker.v1.Broker/Hash", &request)
}

/// Returns the call of the echo server that corresponds to [`hash_one`].
pub(super) fn echo_one() -> Call {
    Call::new("/bench.Echo/Echo", &Bytes { value: vec![7; INPUT_LEN] })
}

/// Returns the rows that use this broker's keys: signatures of data, and certificates.
pub(super) fn signing(keys: &[super::ground::SigningKey]) -> Vec<Case> {
    let mut cases = Vec::new();
    for key in keys {
        let sign = |inputs: usize| {
            let inputs = vec![vec![7; INPUT_LEN]; inputs];
            let request =
                v1::SignRequest { profile: key.profile.into(), key_id: key.id.into(), inputs, prehashed: false };
            Call::new("/sealway.broker.v1.Broker/Sign", &request)
        };
        let certificate = Call::new(
            "/sealway.broker.v1.Broker/SignCertificate",
            &v1::SignCertificateRequest {
                profile: key.profile.into(),
                csr: key.csr.clone(),
                ca_key_ref: key.id.into(),
                ca_certificate: key.ca_certificate.clone(),
                ..v1::SignCertificateRequest::default()
            },
        );
        for flights in FLIGHTS {
            let name = |what: &str| format!("{what} {}", key.name);
            cases.push(Case::new(Server::Ours, &name("sign data"), Some(sign(1)), flights, 1));
            cases.push(Case::new(Server::Ours, &name("sign data"), Some(sign(BATCH)), flights, BATCH));
            cases.push(Case::new(Server::Ours, &name("sign certificate"), Some(certificate.clone()), flights, 1));
        }
    }
    cases
}

pub(super) const PING: &str = "bare Unix socket, 64 bytes each way";
pub(super) const ECHO: &str = "grpc-go echo";
pub(super) const HEALTH: &str = "health";
pub(super) const HASH_OPEN: &str = "HashData sha3-512 (wire open)";
pub(super) const HASH_OPEN_256: &str = "HashData sha-256 (wire open)";
pub(super) const HASH: &str = "hash sha-256";
