//! How a connection is opened: to the next address, over TLS where the plan says so, for the protocol of the plan.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use http::Uri;
use http::uri::{Authority, Scheme};

use super::broker::{BrokerLines, Work};
use super::channel::ChannelLines;
use super::dial::{Addresses, Dial};
use super::h1::{Http1, ReadBuffer};
use super::h2::Http2Lines;
#[cfg(feature = "http3")]
use super::h3::Http3Lines;
use super::sealed::{Sealed, Seals};
use super::stream::{Opened, Stream};
use super::tls::{Handshakes, Material};
use super::ws::WebSocket;
use super::{Connection, Sample, warm};
use crate::engine::StartError;
use crate::plan::{Plan, Protocol};
use crate::record::{Class, Fault, Gauge};
use crate::request::{Prepared, Program};

/// What is done once for a run and shared by all shards: the request is taken apart, the target's name is looked up,
/// files are read.
#[derive(Debug)]
pub(crate) struct Ground {
    program: Arc<Program>,
    addresses: Addresses,
    material: Option<Material>,
    seals: Option<Seals>,
    work: Option<Arc<Work>>,
}

impl Ground {
    /// Of a plan. Blocks for as long as the name of the target's host takes.
    ///
    /// # Errors
    /// Where the plan asks for what cannot be done.
    pub(crate) fn new(plan: &Plan) -> Result<Self, StartError> {
        warm::up(plan);
        let unfit = StartError::Target;
        Ok(Ground {
            program: Program::new(plan).map_err(|err| unfit(err.to_string()))?,
            material: Material::of(plan).map_err(unfit)?,
            seals: plan
                .target
                .sealed
                .as_ref()
                .map(|sealed| Seals::new(sealed, &plan.target.url))
                .transpose()
                .map_err(unfit)?,
            work: plan.target.broker.as_ref().map(|asked| Work::new(asked, plan.seed)).transpose().map_err(unfit)?,
            addresses: Addresses::of(plan).map_err(unfit)?,
        })
    }

    /// What every worker sends.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

/// Opens connections to the target; each thread has one.
#[derive(Debug)]
pub(crate) struct Connector {
    lines: Rc<Lines>,
    seals: Option<Seals>,
    program: Arc<Program>,
}

/// Connections without what is sealed over them.
pub(crate) struct Lines {
    opener: Rc<Opener>,
    protocol: Protocol,
    url: Uri,
    http2: Rc<Http2Lines>,
    broker: Option<Rc<BrokerLines>>,
    channels: Option<Rc<ChannelLines>>,
    #[cfg(feature = "http3")]
    http3: Option<Rc<Http3Lines>>,
    buffer: ReadBuffer,
    /// What a WebSocket's upgrade asks for.
    upgrade: RefCell<Prepared>,
}

/// Opens streams.
pub(crate) struct Opener {
    pub(super) dial: Dial,
    tls: Option<Handshakes>,
    authority: Option<Authority>,
    pub(super) open: Gauge,
}

impl Opener {
    /// The host and port that are asked for.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Connects, and shakes hands where there is TLS; both within the connect timeout.
    ///
    /// # Errors
    /// Why there is no stream.
    pub(crate) async fn stream(&self, sample: &mut Sample) -> Result<Opened, Fault> {
        sample.connections_tried += 1;
        let opened = tokio::time::timeout(self.dial.timeout(), async {
            let before = Instant::now();
            let (tcp, to) = self.dial.tcp().await?;
            let connected = Instant::now();
            sample.connect = Some(connected - before);
            let Some(tls) = &self.tls else { return Ok((Stream::Plain(tcp), to)) };
            let (stream, kind) = tls.shake(tcp, to).await?;
            sample.tls = Some((connected.elapsed(), kind));
            Ok((Stream::Tls(Box::new(stream)), to))
        });
        let (stream, to) = opened.await.unwrap_or_else(|_| Err(self.dial.late()))?;
        sample.connections_opened += 1;
        Ok(Opened { stream, to, open: self.open.enter() })
    }
}

impl Lines {
    /// Opens a connection, or takes a place on one.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn open(&self, sample: &mut Sample) -> Result<Connection, Fault> {
        match self.protocol {
            Protocol::Http2 => Ok(Connection::Http2(Box::new(self.http2.open(sample).await?))),
            Protocol::Broker => match &self.broker {
                Some(broker) => Ok(Connection::Broker(Box::new(broker.open(sample).await?))),
                None => Err(Fault::new(Class::Internal, "no broker is named")),
            },
            Protocol::Channel => match &self.channels {
                Some(channels) => Ok(Connection::Channel(Box::new(channels.place(&self.opener)))),
                None => Err(Fault::new(Class::Internal, "no channels are asked for")),
            },
            Protocol::WebSocket => {
                let request = {
                    let mut upgrade = self.upgrade.borrow_mut();
                    upgrade.renew();
                    super::ws::request(&self.url, &upgrade)?
                };
                Ok(Connection::WebSocket(Box::new(WebSocket::open(&self.opener, request, sample).await?)))
            }
            #[cfg(feature = "http3")]
            Protocol::Http3 => match &self.http3 {
                Some(http3) => Ok(Connection::Http3(Box::new(http3.open(sample).await?))),
                None => Err(Fault::new(Class::Internal, "HTTP/3 needs https")),
            },
            #[cfg(not(feature = "http3"))]
            Protocol::Http3 => Err(Fault::new(Class::Internal, "HTTP/3 is not built in")),
            Protocol::Http1 => {
                let opened = self.opener.stream(sample).await?;
                Ok(Connection::Http1(Http1::new(opened, self.buffer.clone())))
            }
        }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("url", &self.url).field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

/// Host and port as they are asked for. Who asks is told by other means than the address.
fn authority(url: &Uri) -> Option<Authority> {
    let authority = url.authority()?;
    let bare = authority.as_str().rsplit('@').next()?;
    bare.parse().ok()
}

impl Connector {
    /// For the shard of this number, from 0.
    ///
    /// # Errors
    /// Where the plan asks for what cannot be done here.
    pub(crate) fn new(plan: &Plan, ground: &Ground, shard: usize) -> Result<Self, StartError> {
        let protocol = plan.target.protocol;
        let opener = Rc::new(Opener {
            dial: Dial::new(plan, ground.addresses.clone(), shard),
            tls: ground.material.as_ref().map(|material| Handshakes::new(material, protocol)),
            authority: authority(&plan.target.url),
            open: Gauge::default(),
        });
        let scheme = if ground.material.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        // A place that is left after one request is of no use to others: each would take it in turn.
        let streams = if plan.connections.reuse { plan.connections.streams } else { 1 };
        #[cfg(feature = "http3")]
        let http3 = match (&ground.material, protocol) {
            (Some(material), Protocol::Http3) => Some(Http3Lines::new(opener.clone(), material.clone(), streams)),
            _ => None,
        };
        if protocol == Protocol::Http3 && (!cfg!(feature = "http3") || ground.material.is_none()) {
            let why = if cfg!(feature = "http3") { "needs https" } else { "is not built in" };
            return Err(StartError::Target(format!("HTTP/3 {why}")));
        }
        let timeouts = plan.timeouts;
        let broker = ground.work.as_ref().map(|work| {
            BrokerLines::new(work.clone(), streams, opener.open.clone(), timeouts.connect, timeouts.request)
        });
        let lines = Lines {
            broker,
            channels: ChannelLines::new(plan)?,
            #[cfg(feature = "http3")]
            http3,
            http2: Http2Lines::new(opener.clone(), scheme, streams),
            opener,
            protocol,
            url: plan.target.url.clone(),
            buffer: ReadBuffer::default(),
            upgrade: RefCell::new(Prepared::new(&ground.program, plan.seed)),
        };
        Ok(Connector { lines: Rc::new(lines), seals: ground.seals.clone(), program: ground.program.clone() })
    }

    /// Counts the connections that are open.
    pub(crate) fn gauge(&self) -> Gauge {
        self.lines.opener.open.clone()
    }

    /// Channels that stay open when no more are made.
    pub(crate) fn channels(&self) -> Option<&Rc<ChannelLines>> {
        self.lines.channels.as_ref()
    }

    /// Opens a connection, and says in the sample how long it took.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn open(&self, sample: &mut Sample) -> Result<Connection, Fault> {
        let connection = self.lines.open(sample).await?;
        let Some(seals) = &self.seals else { return Ok(connection) };
        Ok(Connection::Sealed(Box::new(Sealed::new(connection, self.lines.clone(), seals.clone(), &self.program))))
    }
}
