//! Bridges between nodes: an endpoint on the wrong node is a stream of bytes to the right one, which does everything else. The
//! bytes of its WebSocket pass unchanged, so that close codes, pings and back-pressure pass too. SPEC relay.md#bridge

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sealway_proto::relay::{Profile, Role};
use sealway_runtime::http::Raw;
use sealway_runtime::http::share::{SharedBudget, Taker, network};
use sealway_runtime::shutdown::Shutdown;
use serde_json::{Value, from_value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::Nodes;
use super::directory::Place;
use crate::channel::{AttachRequest, ChannelKey, Tenant};
use crate::conn::{Reader, Writer};
use crate::endpoint;
use crate::relay::Relay;

/// Longest time for two nodes to authenticate each other.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Longest hello: a channel's name of an attach message, and little else.
const HELLO_LEN_MAX: usize = 32 * 1024;
/// Most connections that are in the handshake or the hello at once, in all and of one network: a stranger who connects and is
/// silent does not keep the nodes out.
const HELLOS_MAX: u64 = 1024;
const HELLOS_PER_NETWORK_MAX: u64 = 512;
/// The answer to a hello.
const WELCOME: u8 = 1;
/// Length of one read, in bytes.
const SCRATCH_LEN: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_LEN].into_boxed_slice());
}

impl Nodes {
    /// Connects to the node that has a channel, and announces the endpoint.
    pub(crate) async fn cross(
        &self,
        place: &Place,
        request: &AttachRequest,
        client: Option<IpAddr>,
    ) -> Option<Box<dyn Raw>> {
        let address = place.address.as_str();
        let crossed = tokio::time::timeout(HELLO_TIME, self.hello(place, request, client)).await;
        match crossed {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(err)) => {
                tracing::warn!(address, %err, "no connection to a channel's node");
                None
            }
            Err(_) => {
                tracing::warn!(address, "the node of a channel does not answer");
                None
            }
        }
    }

    async fn hello(
        &self,
        place: &Place,
        request: &AttachRequest,
        client: Option<IpAddr>,
    ) -> std::io::Result<Box<dyn Raw>> {
        let mut stream = self.dial(&place.address).await?;
        let hello = encode(&place.node, request, client);
        let len = u32::try_from(hello.len()).map_err(std::io::Error::other)?;
        stream.write_all(&[&len.to_be_bytes(), hello.as_slice()].concat()).await?;
        stream.flush().await?;
        // The handshake of TLS 1.3 is over on this side before the other one has verified the certificate.
        match stream.read_u8().await? {
            WELCOME => Ok(stream),
            _ => Err(std::io::Error::other("its answer is not that of a node")),
        }
    }

    /// Opens a connection to a node, and authenticates both sides.
    async fn dial(&self, address: &str) -> std::io::Result<Box<dyn Raw>> {
        let Some(dialer) = &self.dialer else {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            return self.identity.connect(stream).await;
        };
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let port = port.parse().map_err(std::io::Error::other)?;
        self.identity.connect(dialer.0.dial(host, port).await?).await
    }

    /// Authenticates a node, and returns the connection, its endpoint and the endpoint's address.
    async fn welcome<IO>(&self, stream: IO) -> std::io::Result<(Box<dyn Raw>, AttachRequest, Option<IpAddr>)>
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut stream = self.identity.accept(stream).await?;
        let len = usize::try_from(stream.read_u32().await?).map_err(std::io::Error::other)?;
        if len > HELLO_LEN_MAX {
            return Err(std::io::Error::other("its hello is too long"));
        }
        let mut hello = vec![0; len];
        stream.read_exact(&mut hello).await?;
        let (node, request, client) = decode(&hello).ok_or_else(|| std::io::Error::other("its hello is none"))?;
        // A node that has started again at its address has none of the channels of its earlier run, and the directory names that
        // run until its lease is over.
        if node.is_some_and(|node| node != self.directory.node()) {
            return Err(std::io::Error::other("its endpoint is for an earlier run of this node"));
        }
        stream.write_u8(WELCOME).await?;
        stream.flush().await?;
        Ok((stream, request, client))
    }
}

/// Accepts endpoints from other nodes.
pub(crate) struct Acceptor {
    relay: Arc<Relay>,
    hellos: Arc<SharedBudget>,
    shutdown: Shutdown,
}

impl Acceptor {
    pub(crate) fn new(relay: Arc<Relay>, shutdown: Shutdown) -> Self {
        Acceptor { relay, hellos: SharedBudget::new(HELLOS_MAX), shutdown }
    }

    /// Accepts connections until shutdown begins.
    pub(crate) async fn listen(self: Arc<Self>, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shutdown.begun() => return,
            };
            match accepted {
                Ok((stream, from)) if stream.set_nodelay(true).is_ok() => self.accept(stream, from),
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Authenticates a node that has connected, and serves its endpoint. Drops the connection if too many are that far.
    pub(crate) fn accept<IO>(&self, stream: IO, from: SocketAddr)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut hello = self.hellos.share([Some((Taker::Network(network(from.ip())), HELLOS_PER_NETWORK_MAX)), None]);
        if !hello.grow(1) {
            return;
        }
        let (relay, shutdown) = (self.relay.clone(), self.shutdown.clone());
        tokio::spawn(async move {
            let Some(nodes) = &relay.nodes else { return };
            match tokio::time::timeout(HELLO_TIME, nodes.welcome(stream)).await {
                Ok(Ok((stream, request, client))) => {
                    endpoint::spawn_bridged(&relay, stream, &request, client, &shutdown);
                }
                Ok(Err(err)) => tracing::warn!(%from, %err, "a connection is from no known node"),
                Err(_) => tracing::warn!(%from, "a node's registration is incomplete"),
            }
            drop(hello);
        });
    }
}

fn encode(node: &str, request: &AttachRequest, client: Option<IpAddr>) -> Vec<u8> {
    let hello = json!({
        "node": node,
        "tenant": request.key.tenant.0,
        "channel_id": request.key.id,
        "role": request.role.number(),
        "init_exp": request.init_exp_s,
        "idle_s": request.idle_s,
        "eid": request.eid,
        "is_native": request.profile == Profile::Native,
        "client": client.map(|client| client.to_string()),
    });
    hello.to_string().into_bytes()
}

fn decode(hello: &[u8]) -> Option<(Option<String>, AttachRequest, Option<IpAddr>)> {
    let hello: Value = serde_json::from_slice(hello).ok()?;
    let text = |name: &str| hello.get(name).and_then(Value::as_str);
    let request = AttachRequest {
        key: ChannelKey {
            tenant: Tenant(from_value(hello.get("tenant")?.clone()).ok()?),
            id: text("channel_id")?.into(),
        },
        role: Role::from_number(hello.get("role")?.as_u64()?)?,
        init_exp_s: hello.get("init_exp")?.as_i64()?,
        idle_s: from_value(hello.get("idle_s")?.clone()).ok()?,
        eid: text("eid")?.into(),
        profile: if hello.get("is_native")?.as_bool()? { Profile::Native } else { Profile::V1 },
    };
    let node = match hello.get("node") {
        Some(node) => Some(node.as_str()?.to_owned()),
        None => None,
    };
    Some((node, request, text("client").and_then(|client| client.parse().ok())))
}

/// The boundaries of a server's frames, in bytes that pass by.
#[derive(Debug, Default)]
struct Boundary {
    head: Vec<u8>,
    left: u64,
    said_close: bool,
}

impl Boundary {
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let len = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.left -= len as u64;
                bytes = &bytes[len..];
                continue;
            }
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            let len = match self.head.as_slice() {
                [_, 126, high, low] => u64::from(u16::from_be_bytes([*high, *low])),
                [_, 127, wide @ ..] if wide.len() == 8 => wide.iter().fold(0, |len, byte| len << 8 | u64::from(*byte)),
                [_, short] if *short < 126 => u64::from(*short),
                _ => continue,
            };
            self.said_close |= self.head.first().is_some_and(|first| first & 0x0f == crate::ws::CLOSE);
            self.left = len;
            self.head.clear();
        }
    }

    fn is_between(&self) -> bool {
        self.left == 0 && self.head.is_empty() && !self.said_close
    }
}

/// Bytes in transit from one side to the other.
#[derive(Debug, Default)]
struct Pump {
    waiting: Vec<u8>,
    sent: usize,
    is_over: bool,
    has_moved: bool,
}

impl Pump {
    /// Moves the available bytes; ready once the source has ended and everything is moved.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        mut passes: impl FnMut(&[u8]),
    ) -> Poll<std::io::Result<()>> {
        for _ in 0..16 {
            while self.sent < self.waiting.len() {
                match std::task::ready!(Pin::new(&mut *to).poll_write(cx, &self.waiting[self.sent..]))? {
                    0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                    len => self.sent += len,
                }
                self.has_moved = true;
            }
            (self.waiting, self.sent) = (Vec::new(), 0);
            std::task::ready!(Pin::new(&mut *to).poll_flush(cx))?;
            if self.is_over {
                return Poll::Ready(Ok(()));
            }
            let read = SCRATCH.with_borrow_mut(|scratch| {
                let mut buf = ReadBuf::new(scratch);
                std::task::ready!(Pin::new(&mut *from).poll_read(cx, &mut buf))?;
                let bytes = buf.filled();
                passes(bytes);
                let sent = match Pin::new(&mut *to).poll_write(cx, bytes) {
                    Poll::Ready(sent) => sent?,
                    Poll::Pending => 0,
                };
                self.has_moved |= sent > 0;
                self.waiting = bytes[sent..].to_vec();
                Poll::Ready(std::io::Result::Ok(bytes.len()))
            });
            self.is_over = std::task::ready!(read)? == 0;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An endpoint of this node, and the node that has its channel.
pub(crate) struct Splice {
    reader: Reader,
    writer: Writer,
    node: Box<dyn Raw>,
    inward: Pump,
    outward: Pump,
    boundary: Boundary,
    last: Option<Vec<u8>>,
}

impl Splice {
    /// Creates the bridge: `read` is input of the endpoint already read; `waiting` is its pending output.
    pub(crate) fn new(reader: Reader, writer: Writer, node: Box<dyn Raw>, read: &[u8], waiting: Vec<u8>) -> Self {
        let inward = Pump { waiting: read.to_vec(), ..Pump::default() };
        let outward = Pump { waiting, ..Pump::default() };
        Splice { reader, writer, node, inward, outward, boundary: Boundary::default(), last: None }
    }

    /// Moves bytes both ways; ready once one side has ended. `end` returns the close frame for the endpoint then, or when it
    /// must end now, if no frame is in transit and the node has not sent one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, is_ending: bool, end: impl FnOnce() -> Vec<u8>) -> Poll<()> {
        if self.last.is_none() && !is_ending {
            let inward = self.inward.poll(cx, &mut self.reader, &mut self.node, |_| {});
            if inward.is_ready() {
                return Poll::Ready(());
            }
            let boundary = &mut self.boundary;
            let outward = self.outward.poll(cx, &mut self.node, &mut self.writer, |bytes| boundary.pass(bytes));
            if outward.is_pending() {
                return Poll::Pending;
            }
        }
        if self.last.is_none() {
            let is_clean = self.boundary.is_between() && self.outward.waiting.is_empty();
            self.last = Some(if is_clean { end() } else { Vec::new() });
        }
        let last = self.last.get_or_insert_default();
        while !last.is_empty() {
            match std::task::ready!(Pin::new(&mut self.writer).poll_write(cx, last)) {
                Ok(len) if len > 0 => drop(last.drain(..len)),
                _ => return Poll::Ready(()),
            }
        }
        let _ = std::task::ready!(Pin::new(&mut self.writer).poll_flush(cx));
        Pin::new(&mut self.writer).poll_shutdown(cx).map(|_| ())
    }

    /// Returns whether either side has accepted bytes since the last call.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.inward.has_moved) | std::mem::take(&mut self.outward.has_moved)
    }

    /// Returns the reader of the endpoint's further input, to be read until it closes.
    pub(crate) fn into_reader(self) -> Reader {
        self.reader
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_names_the_node_that_it_is_for_by_a_text_or_not_at_all() {
        let request = AttachRequest {
            key: ChannelKey { tenant: Tenant([7; 8]), id: "channel".into() },
            role: Role::Client,
            init_exp_s: 1,
            idle_s: None,
            eid: "endpoint".into(),
            profile: Profile::V1,
        };
        let hello: Value = serde_json::from_slice(&encode("node", &request, None)).unwrap();
        let node_of = |change: fn(&mut Value)| {
            let mut hello = hello.clone();
            change(&mut hello);
            decode(hello.to_string().as_bytes()).map(|(node, _, _)| node)
        };
        assert_eq!(node_of(|_| ()), Some(Some("node".to_owned())));
        assert_eq!(node_of(|hello| drop(hello.as_object_mut().unwrap().remove("node"))), Some(None));
        for wrong in [json!(1), json!(null), json!(["node"])] {
            let mut hello = hello.clone();
            hello["node"] = wrong;
            assert!(decode(hello.to_string().as_bytes()).is_none(), "{hello}");
        }
        assert!(decode(b"").is_none() && decode(b"{\"node\":\"node\"").is_none());
    }
}
