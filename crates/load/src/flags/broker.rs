//! The broker as a target: `broker://SOCKET`.

use std::path::{Path, PathBuf};

use http::{Method, Uri};
use sealway_runtime::config::{Problems, read_bounded};
use serde::{Deserialize, Serialize};

use super::Flags;
use super::values;
use crate::plan::{Broker, BrokerCertificate, BrokerOperation, BrokerWire};

const SCHEME: &str = "broker://";
/// The longest path of a Unix socket.
const SOCKET_LEN_MAX: usize = 107;
/// The largest file that a certificate is signed from.
const FILE_LEN_MAX: u64 = 64 * 1024;
/// The most bytes of one input.
const INPUT_LEN_MAX: u64 = 1024 * 1024;
/// The most inputs in a call.
const BATCH_MAX: u64 = 1024;
/// The most bytes of all inputs in a call.
const CALL_LEN_MAX: u64 = 1024 * 1024;
const PROFILE_LEN_MAX: usize = 64;
const KEY_LEN_MAX: usize = 1024;
const INPUT_LEN: u64 = 64;

/// The broker as a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Broker (broker://SOCKET)")]
#[serde(default)]
pub(crate) struct BrokerFlags {
    /// hash, sign (a certificate), encrypt, decrypt, rewrap, sign-data, verify, mac, verify-mac, derive, random, encapsulate,
    /// decapsulate, information or health [default: health]
    #[arg(long, value_name = "OPERATION", env = "SEALWAY_LOAD_BROKER_OPERATION", hide_env = true)]
    pub(crate) broker_operation: Option<String>,
    /// v1 (Sealway's own), or open (the Open Crypto Broker's: hash, sign, encrypt, decrypt, health) [default: v1]
    #[arg(long, value_name = "WIRE", env = "SEALWAY_LOAD_BROKER_WIRE", hide_env = true)]
    pub(crate) broker_wire: Option<String>,
    /// The profile [default: Default]
    #[arg(long, value_name = "PROFILE", env = "SEALWAY_LOAD_PROFILE", hide_env = true)]
    pub(crate) profile: Option<String>,
    /// The id of a key of the broker's store; with sign that of the authority's key
    #[arg(long, value_name = "ID", env = "SEALWAY_LOAD_BROKER_KEY", hide_env = true)]
    pub(crate) broker_key: Option<String>,
    /// Bytes of each input; with derive and random of each output [default: 64]
    #[arg(long, value_name = "BYTES", env = "SEALWAY_LOAD_INPUT_BYTES", hide_env = true, allow_hyphen_values = true)]
    pub(crate) input_bytes: Option<String>,
    /// Inputs in a call [default: 1]
    #[arg(long, value_name = "INPUTS", env = "SEALWAY_LOAD_BATCH", hide_env = true, allow_hyphen_values = true)]
    pub(crate) batch: Option<String>,
    /// With sign: the certificate request, in PEM
    #[arg(long, value_name = "FILE", env = "SEALWAY_LOAD_CSR", hide_env = true)]
    pub(crate) csr: Option<String>,
    /// With sign: the authority's certificate, in PEM
    #[arg(long, value_name = "FILE", env = "SEALWAY_LOAD_ISSUER", hide_env = true)]
    pub(crate) issuer: Option<String>,
    /// With sign on the wire open: the authority's private key in PEM, which each call carries
    #[arg(long, value_name = "FILE", env = "SEALWAY_LOAD_ISSUER_KEY", hide_env = true)]
    pub(crate) issuer_key: Option<String>,
}

/// Whether a URL means a broker.
pub(super) fn is_meant(url: &str) -> bool {
    url.starts_with(SCHEME)
}

/// The socket of `broker://SOCKET`, and what stands for it where a URL is wanted.
fn socket(problems: &mut Problems, name: &str, url: &str) -> Option<(PathBuf, Uri)> {
    let path = url.strip_prefix(SCHEME).unwrap_or_default();
    let is_path = path.starts_with('/') && path.len() <= SOCKET_LEN_MAX && !path.ends_with('/');
    let uri = format!("{SCHEME}localhost{path}").parse::<Uri>().ok().filter(|uri| is_path && uri.path() == path);
    if uri.is_none() {
        let expected = format!("broker:// and the absolute path of a socket, at most {SOCKET_LEN_MAX} bytes of it");
        values::wrong(problems, name, url, expected);
    }
    uri.map(|uri| (PathBuf::from(path), uri))
}

impl BrokerFlags {
    /// That none of them is given, where the target is no broker.
    pub(super) fn refuse(&self, problems: &mut Problems) {
        for (flag, _) in self.given().into_iter().filter(|(_, value)| value.is_some()) {
            problems.add(flag, "is of a broker alone: give broker://SOCKET as the URL");
        }
    }

    fn given(&self) -> [(&'static str, &Option<String>); 9] {
        [
            ("--broker-operation", &self.broker_operation),
            ("--broker-wire", &self.broker_wire),
            ("--profile", &self.profile),
            ("--broker-key", &self.broker_key),
            ("--input-bytes", &self.input_bytes),
            ("--batch", &self.batch),
            ("--csr", &self.csr),
            ("--issuer", &self.issuer),
            ("--issuer-key", &self.issuer_key),
        ]
    }

    /// What is asked of the broker at this URL.
    pub(super) fn resolve(&self, problems: &mut Problems, name: &str, url: &str) -> Option<(Broker, Uri)> {
        let socket = socket(problems, name, url);
        let operation =
            values::word(problems, "--broker-operation", self.broker_operation.as_ref(), &BrokerOperation::ALL);
        if self.broker_operation.is_some() && operation.is_none() {
            return None;
        }
        let operation = operation.unwrap_or(BrokerOperation::Health);
        let wire = values::word(problems, "--broker-wire", self.broker_wire.as_ref(), &BrokerWire::ALL);
        let wire = wire.unwrap_or(BrokerWire::V1);
        let is_open = wire == BrokerWire::Open;
        if is_open && !operation.is_open() {
            let open: Vec<_> =
                BrokerOperation::ALL.iter().filter(|(_, is)| is.is_open()).map(|(name, _)| *name).collect();
            let reason = format!("the wire open has {} alone", open.join(", "));
            problems.add(format!("--broker-operation {} with --broker-wire open", operation.name()), reason);
        }
        let certificate = self.certificate(problems, operation, is_open);
        let (input_len, batch) = self.lengths(problems, operation, is_open);
        let broker = Broker {
            socket: PathBuf::new(),
            wire,
            operation,
            profile: self.profile(problems, operation),
            key: self.key(problems, operation, is_open),
            input_len: u32::try_from(input_len).unwrap_or(u32::MAX),
            batch: u32::try_from(batch).unwrap_or(u32::MAX),
            certificate,
        };
        socket.map(|(socket, uri)| (Broker { socket, ..broker }, uri))
    }

    fn profile(&self, problems: &mut Problems, operation: BrokerOperation) -> String {
        if !operation.has_profile() {
            refuse(problems, "--profile", self.profile.as_ref(), operation);
            return String::new();
        }
        let profile = self.profile.clone().unwrap_or_else(|| "Default".into());
        if profile.is_empty() || profile.len() > PROFILE_LEN_MAX {
            values::wrong(problems, "--profile", &profile, format_args!("a name, 1 to {PROFILE_LEN_MAX} bytes"));
        }
        profile
    }

    fn key(&self, problems: &mut Problems, operation: BrokerOperation, is_open: bool) -> String {
        let is_sent = is_open && operation == BrokerOperation::Sign;
        if !operation.has_key() || is_sent {
            refuse(problems, "--broker-key", self.broker_key.as_ref(), operation);
            return String::new();
        }
        let key = self.broker_key.clone().unwrap_or_default();
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            let expected = format!("the id of a key of the broker's store, 1 to {KEY_LEN_MAX} bytes");
            values::wrong(problems, "--broker-key", &key, expected);
        }
        key
    }

    fn lengths(&self, problems: &mut Problems, operation: BrokerOperation, is_open: bool) -> (u64, u64) {
        if !operation.has_length() {
            refuse(problems, "--input-bytes", self.input_bytes.as_ref(), operation);
        }
        if !operation.has_batch() {
            refuse(problems, "--batch", self.batch.as_ref(), operation);
        }
        let least = u64::from(matches!(operation, BrokerOperation::Derive | BrokerOperation::Random));
        let len = values::whole(problems, "--input-bytes", self.input_bytes.as_ref(), least..=INPUT_LEN_MAX);
        let batch = values::whole(problems, "--batch", self.batch.as_ref(), 1..=BATCH_MAX);
        let (len, batch) = (len.unwrap_or(INPUT_LEN), batch.unwrap_or(1));
        if is_open && batch > 1 {
            problems.add(format!("--batch {batch} with --broker-wire open"), "a call has one input there");
        }
        if len * batch > CALL_LEN_MAX {
            let reason = format!("expected at most {} bytes in a call", values::grouped(CALL_LEN_MAX));
            problems.add(format!("--batch {batch} of --input-bytes {len}"), reason);
        }
        (len, batch)
    }

    fn certificate(
        &self,
        problems: &mut Problems,
        operation: BrokerOperation,
        is_open: bool,
    ) -> Option<BrokerCertificate> {
        let files = [("--csr", &self.csr), ("--issuer", &self.issuer), ("--issuer-key", &self.issuer_key)];
        if operation != BrokerOperation::Sign {
            files.into_iter().for_each(|(flag, value)| refuse(problems, flag, value.as_ref(), operation));
            return None;
        }
        for (flag, value) in files {
            let is_wanted = flag != "--issuer-key" || is_open;
            match value {
                None if is_wanted => problems.add(flag, "expected a file in PEM, which --broker-operation sign needs"),
                Some(file) if is_wanted => {
                    // Read once more when the run begins; a file that cannot be is told with all else that is wrong.
                    problems.take(flag, read_bounded(Path::new(file), FILE_LEN_MAX));
                }
                Some(_) => {
                    problems.add(flag, "the wire v1 sends no private key: give --broker-key, or --broker-wire open")
                }
                None => {}
            }
        }
        let path = |value: &Option<String>| PathBuf::from(value.clone().unwrap_or_default());
        let issuer_key = is_open.then(|| path(&self.issuer_key));
        Some(BrokerCertificate { csr: path(&self.csr), issuer: path(&self.issuer), issuer_key })
    }
}

fn refuse(problems: &mut Problems, flag: &str, value: Option<&String>, operation: BrokerOperation) {
    if value.is_some() {
        problems.add(flag, format!("has no meaning with --broker-operation {}", operation.name()));
    }
}

/// Flags that have no meaning with a broker: all of requests, TLS and sealing, and some of connections and answers.
pub(super) fn refuse_others(problems: &mut Problems, flags: &Flags) {
    let groups = [
        Flags { request: flags.request.clone(), ..Flags::default() },
        Flags { tls: flags.tls.clone(), ..Flags::default() },
        Flags { sealed: flags.sealed.clone(), ..Flags::default() },
    ];
    let mut given: Vec<_> = groups.iter().flat_map(Flags::given).collect();
    let (connection, verdict) = (&flags.connection, &flags.verdict);
    let others = [
        ("--http-version", connection.http_version.is_some()),
        ("--connection-close", connection.connection_close),
        ("--source", !connection.source.is_empty()),
        ("--resolve", !connection.resolve.is_empty()),
        ("--assert-status", !verdict.assert_status.is_empty()),
        ("--assert-json", !verdict.assert_json.is_empty()),
        ("--assert-body-holds", !verdict.assert_body_holds.is_empty()),
        ("--assert-body-is", verdict.assert_body_is.is_some()),
    ];
    given.extend(others.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned()));
    for flag in given {
        problems.add(flag, "is of HTTP alone, and the target is a broker");
    }
}

/// What a broker's operation is called where a method is wanted.
pub(super) fn method(operation: BrokerOperation) -> Method {
    Method::from_bytes(operation.name().as_bytes()).unwrap_or_default()
}
