//! Inspection in development: a proxy on loopback between a client and a gateway. Bytes pass unchanged; a copy of
//! messages whose secret is in a key log is opened and shown. `spec/session-3.md#sealed-requests`.
//!
//! It may not know an authority, a store, or a configuration of a service. The serving code does not use it.

mod key_log;
mod one_shot;
mod output;
mod tee;

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use sealway_exchange::headers::{HttpHeaders, remove_hop_by_hop};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::native::{Inspector, RequestLine, SealedRequest};
use sealway_proto::wire::header::{X_KID, X_SEAL};
use sealway_proto::wire::{Headers, SessionId};
use sealway_runtime::http::{Body, HttpLimits, Listening, RequestBody, full, serve};
use sealway_runtime::listener::{Socket, bind};
use sealway_runtime::shutdown::Shutdown;

use crate::upstream::{ServerAddress, Target, Upstream, UpstreamLimits, UpstreamSettings};
use key_log::KeyLog;
use output::{MessageOutput, Out, plain};
use tee::{TeeBody, Watch};

/// Environment variable that must be `1`, as for a client that writes a key log.
const ALLOWED: &str = "SEALWAY_KEY_LOG_ALLOWED";
/// Maximum number of connections: it is for one developer.
const CONNECTIONS_MAX: usize = 64;
/// Maximum time for the head of a gateway's answer, and between two chunks, in milliseconds: the gateway has its own
/// deadlines.
const PATIENCE_MS: u64 = 600_000;
const DRAIN: Duration = Duration::from_secs(1);

/// Settings of an inspection.
#[derive(Clone, Debug)]
pub struct InspectSettings {
    /// Path of the key log that a client writes.
    pub key_log: PathBuf,
    /// URL of the gateway, `http://127.0.0.1:PORT`.
    pub to: String,
    /// Loopback address for clients; port 0 takes a free one.
    pub listen: SocketAddr,
}

/// A running proxy that shows the messages that pass through it.
#[derive(Debug)]
pub struct Inspection {
    address: SocketAddr,
    shutdown: Shutdown,
}

impl Inspection {
    /// Starts the proxy; messages are shown on `out`.
    ///
    /// # Errors
    /// A sentence that names the cause: the environment does not allow it, an address is not loopback, other users can
    /// read the key log, or the port is in use.
    pub fn start(settings: &InspectSettings, out: Box<dyn Write + Send>) -> Result<Self, String> {
        check_allowed(std::env::var_os(ALLOWED).as_deref())?;
        if !settings.listen.ip().is_loopback() {
            return Err(format!("--listen {}: only this machine may connect: a loopback address", settings.listen));
        }
        let to = loopback_server(&settings.to)?;
        let key_log = KeyLog::open(settings.key_log.clone())?;
        let sockets = bind(&[settings.listen], "--listen").map_err(|err| err.to_string())?;
        let socket = sockets.into_iter().next().ok_or("--listen: no address")?;
        let address = socket.local_addr().map_err(|err| err.to_string())?;
        let connections_max = CONNECTIONS_MAX;
        let limits = UpstreamLimits {
            response_ms: PATIENCE_MS,
            idle_ms: PATIENCE_MS,
            connections_max,
            ..UpstreamLimits::default()
        };
        let upstream = UpstreamSettings { name: "inspected".into(), limits, ..UpstreamSettings::default() };
        let proxy = Arc::new(Proxy {
            upstream: Upstream::new(Target::Servers(vec![to]), upstream),
            key_log: Arc::new(key_log),
            out: Out::new(out),
            last: AtomicU64::new(0),
        });
        let limits = HttpLimits { connections_max, ..HttpLimits::default() };
        let service = hyper::service::service_fn(move |request| {
            let proxy = proxy.clone();
            async move { Ok::<_, Infallible>(proxy.pass(request).await) }
        });
        let shutdown = Shutdown::new();
        let listening = Arc::new(Listening::plain("inspect", limits));
        shutdown.spawn(serve(Socket::Tcp(socket), listening, service, shutdown.clone()));
        Ok(Inspection { address, shutdown })
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the proxy; exchanges in progress have a second to end.
    pub async fn stop(self) {
        self.shutdown.begin();
        self.shutdown.drain(DRAIN).await;
    }
}

/// Checks the environment variable. The holder of a key log can read and forge every message, so a second confirmation
/// is required.
fn check_allowed(variable: Option<&OsStr>) -> Result<(), String> {
    if variable.is_none_or(|value| value != "1") {
        return Err(format!("to look into what is sealed is for development alone: it is done only if {ALLOWED} is 1"));
    }
    Ok(())
}

/// Parses the address of a server on this machine: opened messages must not come from another one.
fn loopback_server(text: &str) -> Result<ServerAddress, String> {
    let no =
        || format!("--to \"{text}\": expected a gateway on this machine without TLS, such as http://127.0.0.1:3000");
    let uri: http::Uri = text.parse().map_err(|_| no())?;
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if uri.scheme_str() != Some("http") || !is_loopback {
        return Err(no());
    }
    ServerAddress::parse(text)
}

struct Proxy {
    upstream: Upstream,
    key_log: Arc<KeyLog>,
    out: Out,
    /// Number of the last exchange.
    last: AtomicU64,
}

/// A request whose secret is known, with the data that identifies its answer.
struct RequestContext {
    inspector: Inspector,
    method: String,
    target: String,
    nonce: String,
}

impl Proxy {
    /// Forwards a request, and returns its answer.
    async fn pass(&self, request: Request<RequestBody>) -> Response<Body> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (mut parts, body) = request.into_parts();
        let (known, watch) = self.look(number, &parts).await;
        remove_hop_by_hop(&mut parts.headers);
        let body = TeeBody::new(body, watch).boxed_unsync();
        let answer = self.upstream.call(Request::from_parts(parts, body)).await;
        let shown = MessageOutput::new(self.out.clone(), format!("#{number} <"));
        match answer {
            Ok(mut answer) => {
                let watch = look_at_answer(shown, known.as_ref(), &answer);
                remove_hop_by_hop(answer.headers_mut());
                answer.map(|body| TeeBody::new(body, watch).boxed_unsync())
            }
            Err(err) => {
                shown.line(&format!("none: {err}"));
                let mut answer = Response::new(full(""));
                *answer.status_mut() = err.status();
                answer
            }
        }
    }

    /// Inspects a request's head; returns what is needed to inspect its answer and its body.
    async fn look(&self, number: u64, parts: &Parts) -> (Option<RequestContext>, Option<Watch>) {
        let shown = MessageOutput::new(self.out.clone(), format!("#{number} >"));
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let line = RequestLine { method: parts.method.as_str(), target };
        let said = format!("{} {}", line.method, plain(target));
        if let Some(sealed) = one_shot::request(&parts.headers) {
            shown.line(&format!("{said}, {sealed}"));
            return (None, None);
        }
        if !parts.headers.contains_key(X_SEAL) {
            shown.line(&format!("{said}, not sealed with wire 3"));
            return (None, None);
        }
        let headers = HttpHeaders(&parts.headers);
        let parsed = SealedRequest::parse(&headers, line).and_then(|parsed| Ok((*parsed.session_id()?, parsed)));
        let (id, mut sealed) = match parsed {
            Ok(parsed) => parsed,
            Err(err) => {
                shown.line(&format!("{said}, sealed, and its headers are faulty: {err}"));
                return (None, None);
            }
        };
        let inspector = match self.find(id).await {
            Ok(Some(inspector)) => inspector,
            Ok(None) => {
                shown.line(&format!("{said}, session {id}: sealed, key not known"));
                return (None, None);
            }
            Err(err) => {
                shown.line(&format!("{said}, session {id}: sealed, {err}"));
                return (None, None);
            }
        };
        shown.line(&format!("{said}, session {id}"));
        let whole = sealed.take_sealed();
        let watch = match inspector.request(default_provider(), &sealed) {
            Ok(opener) => Watch::new(opener, shown).fed(whole),
            Err(err) => {
                shown.line(&format!("cannot be opened: {err}"));
                None
            }
        };
        let nonce = sealed.stamp_and_nonce().1.to_owned();
        let known = RequestContext { inspector, method: line.method.to_owned(), target: target.to_owned(), nonce };
        (Some(known), watch)
    }

    async fn find(&self, id: SessionId) -> Result<Option<Inspector>, String> {
        let log = self.key_log.clone();
        let found = tokio::task::spawn_blocking(move || log.find(&id)).await;
        let secret = found.map_err(|_| "the key log was not read".to_owned())??;
        Ok(secret.map(|secret| Inspector::new(default_provider(), &id, &secret)))
    }
}

/// Inspects an answer's head; returns what is needed to inspect its body.
fn look_at_answer(shown: MessageOutput, known: Option<&RequestContext>, answer: &Response<Body>) -> Option<Watch> {
    let (status, headers) = (answer.status().as_u16(), HttpHeaders(answer.headers()));
    if let Some(sealed) = one_shot::answer(answer.headers()) {
        shown.line(&format!("{status}, {sealed}"));
        return None;
    }
    if !answer.headers().contains_key(X_SEAL) {
        shown.line(&format!("{status}, not sealed with wire 3"));
        return None;
    }
    let Some(known) = known else {
        let kid = headers.field(X_KID).required(X_KID).unwrap_or_default();
        shown.line(&format!("{status}, {}: sealed, key not known", plain(kid)));
        return None;
    };
    shown.line(&format!("{status}, session {}", known.inspector.id()));
    let request = (RequestLine { method: &known.method, target: &known.target }, known.nonce.as_str());
    match known.inspector.answer(default_provider(), request, &headers, status) {
        Ok((whole, opener)) => Watch::new(opener, shown).fed(whole),
        Err(err) => {
            shown.line(&format!("cannot be opened: {err}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_a_one_in_the_environment() {
        assert!(check_allowed(Some(OsStr::new("1"))).is_ok());
        for value in [None, Some(""), Some("0"), Some("true"), Some("11")] {
            assert!(check_allowed(value.map(OsStr::new)).is_err(), "{value:?}");
        }
    }

    #[test]
    fn only_a_server_on_this_machine_is_taken() {
        for to in ["http://127.0.0.1:3000", "http://[::1]:3000", "http://localhost:3000", "http://127.8.0.1"] {
            assert!(loopback_server(to).is_ok(), "{to}");
        }
        for to in [
            "http://192.0.2.1:3000",
            "http://shop.example",
            "https://127.0.0.1:3000",
            "http://127.0.0.1.example",
            "http://0.0.0.0:1",
            "http://127.0.0.1:3000/path",
            "http://127.0.0.1@shop.example",
            "http://localhost@192.0.2.1",
            "unix:/run/x.sock",
            "127.0.0.1:3000",
            "",
        ] {
            assert!(loopback_server(to).is_err(), "{to}");
        }
    }
}
