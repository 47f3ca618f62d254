//! A client of wire 3 over raw HTTP that seals correctly and sends freely: a sealed request is returned as a raw one, for the
//! test to change before it is sent. `spec/session-3.md`.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, bail};
use sealway_proto::Error;
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::identity::default_identity_library;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, FrameOpener, InnerHeaders, KeyId, KeySet, PendingAnswer, Problem, Read,
    RequestLine, SealedCall, ShareKey, Suite,
};

use crate::raw_http::{Answer, Connection, Request};
use crate::wire_client::{CLIENT_ID, nonce};

/// The path at which sessions of wire 3 are agreed.
pub const INIT: &str = "/v3/sessions";
/// The media type of sealed bodies.
pub const OCTETS: &str = "application/octet-stream";

/// A gateway with the demo service behind it, whose identity keys are in `identity.keys` in its folder.
pub const WITH_KEY_FILE: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: [/v3/sessions, /.well-known/] }, sessions: {} }
  - { match: {}, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
sessions: { store: 'memory:', identity: { key_file: identity.keys } }
";

/// A connection that is kept, and opened anew when the other end has closed it.
#[derive(Debug)]
pub struct Link {
    to: SocketAddr,
    connection: Option<Connection>,
}

impl Link {
    /// Creates a link without a connection.
    pub fn new(to: SocketAddr) -> Self {
        Link { to, connection: None }
    }

    /// Sends a request and reads its answer. If a kept connection ends, it sends the request once more on a new one.
    ///
    /// # Errors
    /// If the server does not listen, or the input is not an answer.
    pub fn send(&mut self, request: &Request) -> anyhow::Result<Answer> {
        if let Some(connection) = self.connection.take()
            && let Ok(answer) = self.exchange(connection, request)
        {
            return Ok(answer);
        }
        let connection = Connection::open(self.to)?;
        self.exchange(connection, request)
    }

    fn exchange(&mut self, mut connection: Connection, request: &Request) -> anyhow::Result<Answer> {
        let keeps = if request.value("connection").is_none() { "keep-alive" } else { "close" };
        let sent = match keeps {
            "close" => connection.write(&request.bytes()),
            _ => connection.write(&request.clone().header("Connection", keeps).bytes()),
        };
        let answer = match (sent, connection.read_answer(request.method_name())) {
            // The server may have answered before all was sent.
            (_, Ok(answer)) => answer,
            (Err(err), Err(_)) | (Ok(()), Err(err)) => return Err(err),
        };
        let closes = answer.all("connection").iter().any(|value| value.eq_ignore_ascii_case("close"));
        self.connection = (!closes && keeps != "close").then_some(connection);
        Ok(answer)
    }
}

/// Returns a client's offer: this suite first, all others after it.
pub fn offer(suite: Suite, pinned: &[KeyId]) -> ClientOffer {
    let others = Suite::ALL.into_iter().filter(|other| *other != suite);
    ClientOffer {
        suites: std::iter::once(suite).chain(others).collect(),
        client_id: CLIENT_ID.into(),
        ttl_sec: Some(600),
        pinned_key_ids: pinned.to_vec(),
        signature_algorithms: Vec::new(),
        credential: None,
    }
}

/// Creates a valid init, and the state that completes it.
pub fn init(offer: ClientOffer) -> (ClientInit, Request) {
    let share = ShareKey::generate(default_agreement_provider(), offer.suites[0]).expect("a share");
    let init = ClientInit::new(offer, share, None).expect("an offer");
    let request = Request::post(INIT, init.body()).header("Content-Type", "application/json");
    (init, request)
}

/// Completes an init as a client that trusts the keys of this set and no other.
///
/// # Errors
/// [`Error::Unsealed`] for a status other than 201, those of [`ClientInit::finish`].
pub fn finish(init: ClientInit, trusted: &KeySet, answer: &Answer) -> Result<ClientSession, Error> {
    if answer.status != 201 {
        return Err(Error::Unsealed);
    }
    let claimed = init.claimed(&answer.body)?;
    let key = match trusted.get(&claimed.key_id) {
        Some(key) => Some(default_identity_library().public(&key.public_key)?),
        None => None,
    };
    init.finish(default_agreement_provider(), key.as_ref(), &answer.body)
}

/// Fetches the key set of the service.
///
/// # Errors
/// If there is none.
pub fn key_set(to: SocketAddr) -> anyhow::Result<KeySet> {
    let answer = Request::get("/.well-known/sealway-keys").send(to)?;
    KeySet::parse(default_agreement_provider(), &answer.body).with_context(|| answer.text())
}

/// Returns the code of a problem; the status if the answer is not a problem.
pub fn code(answer: &Answer) -> String {
    Problem::parse(answer.status, &answer.body).map_or_else(|| answer.status.to_string(), |problem| problem.code)
}

/// A session, agreed over real HTTP.
#[derive(Debug)]
pub struct NativeSession {
    /// The client's half of the session.
    pub session: ClientSession,
    at: Instant,
}

/// The content of an opened answer.
#[derive(Debug, PartialEq, Eq)]
pub struct AnswerContent {
    /// The headers within the seal.
    pub headers: InnerHeaders,
    /// The body of the answer.
    pub body: Vec<u8>,
    /// The number of its frames.
    pub frames: usize,
}

impl NativeSession {
    /// Agrees a session over a link with a client that trusts these keys.
    ///
    /// # Errors
    /// If the server rejects the init.
    pub fn open(link: &mut Link, trusted: &KeySet, suite: Suite) -> anyhow::Result<Self> {
        NativeSession::open_as(link, trusted, offer(suite, &[]))
    }

    /// Agrees a session of an offer.
    ///
    /// # Errors
    /// If the server rejects the init.
    pub fn open_as(link: &mut Link, trusted: &KeySet, offer: ClientOffer) -> anyhow::Result<Self> {
        let (init, request) = init(offer);
        let answer = link.send(&request)?;
        if answer.status != 201 {
            bail!("init was refused: {} {}", answer.status, answer.text());
        }
        Ok(NativeSession { session: finish(init, trusted, &answer)?, at: Instant::now() })
    }

    /// Returns the server's time now, by its own statement and a monotonic clock.
    pub fn stamp_ms(&self) -> u64 {
        self.session.agreed().server_time_ms + u64::try_from(self.at.elapsed().as_millis()).unwrap_or(0)
    }

    /// Seals a request whose body has these parts, a frame each. Without inner headers.
    pub fn seal(&self, method: &str, target: &str, parts: &[&[u8]]) -> (Request, PendingAnswer<'_>) {
        self.seal_as(method, target, &[], parts, self.stamp_ms())
    }

    /// Seals with inner headers and a stamp of the test's choice.
    pub fn seal_as(
        &self,
        method: &str,
        target: &str,
        inner: &[(&str, &str)],
        parts: &[&[u8]],
        stamp_ms: u64,
    ) -> (Request, PendingAnswer<'_>) {
        let (line, nonce) = (RequestLine { method, target }, nonce());
        let sealed = self.session.seal_as(default_agreement_provider(), line, OCTETS, &stamp_ms.to_string(), &nonce);
        let SealedCall { headers, mut sealer, pending } = sealed.expect("sealing");
        let mut within = InnerHeaders::new();
        for (name, value) in inner {
            within.push(name, value.as_bytes()).expect("an inner header");
        }
        let mut stream = Vec::new();
        let parts = if parts.is_empty() { &[&[][..]] } else { parts };
        for (index, part) in parts.iter().enumerate() {
            let begun = sealer.begin(&mut stream);
            if index == 0 {
                within.encode(&mut stream);
            }
            stream.extend_from_slice(part);
            sealer.seal(&mut stream, begun, index + 1 == parts.len()).expect("a frame");
        }
        let mut request = Request::new(method, target).body(stream).header("Content-Type", OCTETS);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        (request, pending)
    }

    /// Seals a request, sends it, and opens the answer.
    ///
    /// # Errors
    /// If it is refused, or the answer does not open.
    pub fn call(&self, link: &mut Link, target: &str, parts: &[&[u8]]) -> anyhow::Result<(Answer, AnswerContent)> {
        let (request, pending) = self.seal("POST", target, parts);
        let answer = link.send(&request)?;
        let opened = open(&pending, &answer).with_context(|| format!("{} {}", answer.status, answer.text()))?;
        Ok((answer, opened))
    }
}

/// Opens the answer to a request.
///
/// # Errors
/// If it does not open, or belongs to something else.
pub fn open(pending: &PendingAnswer<'_>, answer: &Answer) -> Result<AnswerContent, Error> {
    let (read, fault) = read_frames(pending, answer);
    match fault {
        Some(fault) => Err(fault),
        None => {
            let plain = read.concat();
            let (headers, at) = InnerHeaders::parse(&plain)?;
            Ok(AnswerContent { headers, body: plain[at..].to_vec(), frames: read.len() })
        }
    }
}

/// Returns the frames of an answer that opened, inner headers first, and the error that ended them.
pub fn read_frames(pending: &PendingAnswer<'_>, answer: &Answer) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut frames = Vec::new();
    let fault = match pending.open(default_agreement_provider(), &answer.headers, answer.status) {
        Ok((sealed, opener)) => read_stream(opener, &sealed.unwrap_or_else(|| answer.body.clone()), &mut frames).err(),
        Err(fault) => Some(fault),
    };
    (frames, fault)
}

fn read_stream(mut opener: FrameOpener, mut stream: &[u8], frames: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    while !stream.is_empty() {
        let mut frame = Vec::new();
        if opener.read(&mut stream, &mut frame)? != Read::More {
            frames.push(frame);
        }
    }
    opener.end()
}
