//! Flags for a broker as the target: `broker://SOCKET`.

use std::path::{Path, PathBuf};

use http::{Method, Uri};
use sealway_runtime::config::{Problems, read_bounded};
use serde::{Deserialize, Serialize};

use super::{ConnectionFlags, Flags, VerdictFlags, given, values};
use crate::plan::{Broker, BrokerCertificate, BrokerOperation, BrokerWire};
use crate::report::units::count;

const SCHEME: &str = "broker://";
/// Longest path of a Unix socket, in bytes.
const SOCKET_LEN_MAX: usize = 107;
/// Largest file in PEM that a certificate is signed from, in bytes.
const FILE_LEN_MAX: u64 = 64 * 1024;
/// Upper bound of the bytes of one input.
const INPUT_LEN_MAX: u64 = 1024 * 1024;
/// Upper bound of the inputs in a call.
const BATCH_MAX: u64 = 1024;
/// Upper bound of the bytes of all inputs in a call.
const CALL_LEN_MAX: u64 = 1024 * 1024;
const PROFILE_LEN_MAX: usize = 64;
const KEY_LEN_MAX: usize = 1024;
const INPUT_LEN: u64 = 64;
/// Lengths of content keys of JWE, in bytes.
const CONTENT_KEY_LENS: [u64; 5] = [16, 24, 32, 48, 64];

/// Flags for a broker as the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Broker (broker://SOCKET)")]
#[serde(default)]
pub(crate) struct BrokerFlags {
    /// hash, sign (a certificate), encrypt, decrypt, rewrap, sign-data, verify, mac, verify-mac, derive, random, encapsulate,
    /// decapsulate, unwrap, information or health [default: health]
    #[arg(long, value_name = "OPERATION")]
    pub(crate) broker_operation: Option<String>,
    /// v1 (Sealway's own), or open (the Open Crypto Broker's: hash, sign, encrypt, decrypt, health) [default: v1]
    #[arg(long, value_name = "WIRE")]
    pub(crate) broker_wire: Option<String>,
    /// Profile of the broker [default: Default]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    /// ID of a key in the broker's store; with sign the authority's key
    #[arg(long, value_name = "ID")]
    pub(crate) broker_key: Option<String>,
    /// Bytes of each input, of each output with derive and random, or of each content key with unwrap [default: 64]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub(crate) input_bytes: Option<String>,
    /// Inputs of a call [default: 1]
    #[arg(long, value_name = "INPUTS", allow_hyphen_values = true)]
    pub(crate) batch: Option<String>,
    /// With sign: the certificate request, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) csr: Option<String>,
    /// With sign: the authority's certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) issuer: Option<String>,
    /// With sign on the wire open: the authority's private key in PEM, which each call carries
    #[arg(long, value_name = "FILE")]
    pub(crate) issuer_key: Option<String>,
}

/// Returns whether a URL names a broker.
pub(super) fn is_meant(url: &str) -> bool {
    url.starts_with(SCHEME)
}

/// Returns the socket of `broker://SOCKET`, and a URL with the host `localhost` that stands for it in the plan.
fn socket(problems: &mut Problems, name: &str, url: &str) -> Option<(PathBuf, Uri)> {
    let path = url.strip_prefix(SCHEME).unwrap_or_default();
    let is_path = path.starts_with('/') && path.len() <= SOCKET_LEN_MAX && !path.ends_with('/');
    let uri = format!("{SCHEME}localhost{path}").parse::<Uri>().ok().filter(|uri| is_path && uri.path() == path);
    if uri.is_none() {
        let expected = format!("broker:// and the absolute path of a socket, at most {SOCKET_LEN_MAX} bytes");
        values::wrong(problems, name, url, expected);
    }
    uri.map(|uri| (PathBuf::from(path), uri))
}

impl BrokerFlags {
    /// Adds a problem for each of these flags that is given, for a target that is no broker.
    pub(super) fn refuse(&self, problems: &mut Problems) {
        for flag in given(self) {
            problems.add(flag, "applies to a broker only: give broker://SOCKET as the URL");
        }
    }

    /// Resolves the calls to the broker at this URL. The result is `None` if the URL or the operation is wrong.
    pub(super) fn resolve(&self, problems: &mut Problems, name: &str, url: &str) -> Option<(Broker, Uri)> {
        let socket = socket(problems, name, url);
        let operation = values::named(problems, "--broker-operation", &self.broker_operation);
        if self.broker_operation.is_some() && operation.is_none() {
            return None;
        }
        let operation = operation.unwrap_or(BrokerOperation::Health);
        let wire = values::named(problems, "--broker-wire", &self.broker_wire);
        let wire = wire.unwrap_or(BrokerWire::V1);
        let is_open = wire == BrokerWire::Open;
        if is_open && !operation.is_open() {
            let open: Vec<_> = BrokerOperation::ALL.iter().filter(|is| is.is_open()).map(|is| is.name()).collect();
            let reason = format!("the wire open has only {}", open.join(", "));
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
            let expected = format!("the id of a key in the broker's store, 1 to {KEY_LEN_MAX} bytes");
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
        let len = values::whole(problems, "--input-bytes", &self.input_bytes, least..=INPUT_LEN_MAX);
        let batch = values::whole(problems, "--batch", &self.batch, 1..=BATCH_MAX);
        let (len, batch) = (len.unwrap_or(INPUT_LEN), batch.unwrap_or(1));
        if is_open && batch > 1 {
            problems.add(
                format!("--batch {batch} with --broker-wire open"),
                "on the wire open a call has one input; remove --batch",
            );
        }
        if operation == BrokerOperation::Unwrap && !CONTENT_KEY_LENS.contains(&len) {
            let reason = "expected the length of a content key of JWE: 16, 24, 32, 48 or 64";
            problems.add(format!("--input-bytes {len} with --broker-operation unwrap"), reason);
        }
        if len * batch > CALL_LEN_MAX {
            let reason = format!("expected at most {} bytes in a call", count(CALL_LEN_MAX));
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
                None if is_wanted => problems.add(flag, "missing, --broker-operation sign needs a PEM file"),
                Some(file) if is_wanted => {
                    // The run reads the files again; reading them here reports an unreadable file with all other problems.
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
        problems.add(flag, format!("does not apply to --broker-operation {}", operation.name()));
    }
}

/// Adds a problem for each flag that does not apply to a broker: all flags of requests, TLS and sealing, and some of
/// connections and assertions.
pub(super) fn refuse_others(problems: &mut Problems, flags: &Flags) {
    let verdict = VerdictFlags { threshold: Vec::new(), fail_on_errors: None, ..flags.verdict.clone() };
    let connection = ConnectionFlags {
        no_reuse: false,
        streams: None,
        timeout: None,
        connect_timeout: None,
        ..flags.connection.clone()
    };
    let sealing = [given(&flags.sealed), given(&flags.mle), given(&flags.one_shot)].concat();
    let groups = [given(&flags.request), given(&flags.tls), sealing, given(&connection), given(&verdict)];
    for flag in groups.concat() {
        problems.add(flag, "applies to HTTP only, and the target is a broker; remove it");
    }
}

/// Returns the method of the plan's request: the name of the broker's operation.
pub(super) fn method(operation: BrokerOperation) -> Method {
    Method::from_bytes(operation.name().as_bytes()).unwrap_or_default()
}
