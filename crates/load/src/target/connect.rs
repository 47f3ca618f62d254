//! Opening of connections: to the next address, over TLS if the plan says so, for the plan's protocol.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use http::Uri;
use http::uri::{Authority, Scheme};
use sealway_client::mle::{Messages, provider};

use super::broker::{BrokerLines, Work};
use super::channel::ChannelLines;
use super::dial::{Addresses, Dial};
use super::h1::{Http1, ReadBuffer};
use super::h2::Http2Lines;
#[cfg(feature = "http3")]
use super::h3::Http3Lines;
use super::mle::MleConnection;
use super::one_shot::{OneShotConnection, OneShotSeals};
use super::sealed::{SealedConnection, Seals};
use super::stream::{OpenStream, Stream};
use super::tls::{Handshakes, Material};
use super::ws::WebSocket;
use super::{Connection, Sample, warm};
use crate::engine::StartError;
use crate::plan::{Plan, Protocol};
use crate::record::{Class, Failure, Gauge};
use crate::request::{CurrentRequest, Program};

/// Preparation done once for a run and shared by all shards: the request is parsed, the target's name is resolved and files
/// are read.
pub(crate) struct TargetSetup {
    program: Arc<Program>,
    addresses: Addresses,
    material: Option<Material>,
    seals: Option<Seals>,
    messages: Option<Arc<Messages>>,
    one_shot: Option<Arc<OneShotSeals>>,
    work: Option<Arc<Work>>,
}

impl TargetSetup {
    /// Prepares a plan's run. Blocks while the target's host name is resolved.
    ///
    /// # Errors
    /// [`StartError::Target`] if the plan's target cannot be prepared.
    pub(crate) fn new(plan: &Plan) -> Result<Self, StartError> {
        warm::up(plan);
        let unfit = StartError::Target;
        Ok(TargetSetup {
            program: Program::new(plan).map_err(|err| unfit(err.to_string()))?,
            material: Material::of(plan).map_err(unfit)?,
            seals: plan
                .target
                .sealed
                .as_ref()
                .map(|sealed| Seals::new(sealed, &plan.target.url))
                .transpose()
                .map_err(unfit)?,
            messages: match plan.target.mle.as_ref().map(|mle| mle.load(provider())).transpose() {
                Ok(messages) => messages.map(Arc::new),
                Err(err) => return Err(unfit(err.to_string())),
            },
            one_shot: match plan
                .target
                .one_shot
                .as_ref()
                .map(|asked| OneShotSeals::new(asked, &plan.target.url))
                .transpose()
            {
                Ok(seals) => seals.map(Arc::new),
                Err(err) => return Err(unfit(err)),
            },
            work: plan.target.broker.as_ref().map(|asked| Work::new(asked, plan.seed)).transpose().map_err(unfit)?,
            addresses: Addresses::of(plan).map_err(unfit)?,
        })
    }

    /// Program that every worker sends.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

/// Opens connections to the target; each thread has one connector.
pub(crate) struct Connector {
    lines: Rc<Lines>,
    seals: Option<Seals>,
    messages: Option<Arc<Messages>>,
    one_shot: Option<Arc<OneShotSeals>>,
    program: Arc<Program>,
}

/// Connections without the sealed sessions above them.
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
    /// Request of a WebSocket upgrade.
    upgrade: RefCell<CurrentRequest>,
}

/// Opens TCP and TLS streams.
pub(crate) struct Opener {
    pub(super) dial: Dial,
    tls: Option<Handshakes>,
    authority: Option<Authority>,
    pub(super) open: Gauge,
}

impl Opener {
    /// Host and port of the request.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Connects over TCP and performs the TLS handshake if there is one, both within the connect timeout.
    ///
    /// # Errors
    /// A failure that says why there is no stream.
    pub(crate) async fn stream(&self, sample: &mut Sample) -> Result<OpenStream, Failure> {
        sample.connections_tried += 1;
        let opened = tokio::time::timeout(self.dial.timeout(), async {
            let before = Instant::now();
            let (tcp, to) = self.dial.tcp().await?;
            let connected = Instant::now();
            sample.connect = Some(connected - before);
            let Some(tls) = &self.tls else { return Ok((Stream::Left(tcp), to)) };
            let (stream, kind) = tls.shake(tcp, to).await?;
            sample.tls = Some((connected.elapsed(), kind));
            Ok((Stream::Right(Box::new(stream)), to))
        });
        let (stream, to) = opened.await.unwrap_or_else(|_| Err(self.dial.late()))?;
        sample.connections_opened += 1;
        Ok(OpenStream { stream, to, open: self.open.enter() })
    }
}

impl Lines {
    /// Opens a connection, or takes a seat on a shared one.
    ///
    /// # Errors
    /// A failure that says why there is no connection.
    pub(crate) async fn open(&self, sample: &mut Sample) -> Result<Connection, Failure> {
        match self.protocol {
            Protocol::Http2 => Ok(Connection::Http2(Box::new(self.http2.open(sample).await?))),
            Protocol::Broker => match &self.broker {
                Some(broker) => Ok(Connection::Broker(Box::new(broker.open(sample).await?))),
                None => Err(Failure::new(Class::Internal, "the plan names no broker")),
            },
            Protocol::Channel => match &self.channels {
                Some(channels) => Ok(Connection::Channel(Box::new(channels.place(&self.opener)))),
                None => Err(Failure::new(Class::Internal, "the plan has no channels")),
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
                None => Err(Failure::new(Class::Internal, "HTTP/3 needs https")),
            },
            #[cfg(not(feature = "http3"))]
            Protocol::Http3 => Err(Failure::new(Class::Internal, "this binary was built without HTTP/3")),
            Protocol::Http1 => {
                let opened = self.opener.stream(sample).await?;
                Ok(Connection::Http1(Http1::new(opened, self.buffer.clone())))
            }
        }
    }
}

/// Returns the URL's host and port without its user information, which is sent by other means than the authority.
fn authority(url: &Uri) -> Option<Authority> {
    let authority = url.authority()?;
    let bare = authority.as_str().rsplit('@').next()?;
    bare.parse().ok()
}

impl Connector {
    /// Creates the connector of the shard with this number, counted from 0.
    ///
    /// # Errors
    /// [`StartError::Target`] if the plan asks for HTTP/3 without https or in a build without it, or its channels cannot be
    /// set up.
    pub(crate) fn new(plan: &Plan, setup: &TargetSetup, shard: usize) -> Result<Self, StartError> {
        let protocol = plan.target.protocol;
        let opener = Rc::new(Opener {
            dial: Dial::new(plan, setup.addresses.clone(), shard),
            tls: setup.material.as_ref().map(|material| Handshakes::new(material, protocol)),
            authority: authority(&plan.target.url),
            open: Gauge::default(),
        });
        let scheme = if setup.material.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        // Without reuse a connection serves one request: other workers would only take a spent seat.
        let streams = if plan.connections.reuse { plan.connections.streams } else { 1 };
        #[cfg(feature = "http3")]
        let http3 = match (&setup.material, protocol) {
            (Some(material), Protocol::Http3) => Some(Http3Lines::new(opener.clone(), material.clone(), streams)),
            _ => None,
        };
        if protocol == Protocol::Http3 && (!cfg!(feature = "http3") || setup.material.is_none()) {
            let why = if cfg!(feature = "http3") { "needs https" } else { "is not in this binary" };
            return Err(StartError::Target(format!("HTTP/3 {why}")));
        }
        let timeouts = plan.timeouts;
        let broker = setup.work.as_ref().map(|work| {
            BrokerLines::new(work.clone(), streams, opener.open.clone(), timeouts.connect, timeouts.request)
        });
        let buffer = ReadBuffer::default();
        let keeps_headers = setup.seals.is_some() || setup.one_shot.is_some();
        let lines = Lines {
            broker,
            channels: ChannelLines::new(plan)?,
            #[cfg(feature = "http3")]
            http3,
            http2: Http2Lines::new(opener.clone(), scheme, streams, buffer.clone(), keeps_headers),
            opener,
            protocol,
            url: plan.target.url.clone(),
            buffer,
            upgrade: RefCell::new(CurrentRequest::new(&setup.program, plan.seed)),
        };
        Ok(Connector {
            lines: Rc::new(lines),
            seals: setup.seals.clone(),
            messages: setup.messages.clone(),
            one_shot: setup.one_shot.clone(),
            program: setup.program.clone(),
        })
    }

    /// Returns the gauge of open connections.
    pub(crate) fn gauge(&self) -> Gauge {
        self.lines.opener.open.clone()
    }

    /// Channels that stay open after the last one is made.
    pub(crate) fn channels(&self) -> Option<&Rc<ChannelLines>> {
        self.lines.channels.as_ref()
    }

    /// Opens a connection and records the durations in the sample.
    ///
    /// # Errors
    /// A failure that says why there is no connection.
    pub(crate) async fn open(&self, sample: &mut Sample) -> Result<Connection, Failure> {
        let connection = self.lines.open(sample).await?;
        if let Some(messages) = &self.messages {
            let (lines, messages) = (self.lines.clone(), messages.clone());
            return Ok(Connection::Mle(Box::new(MleConnection::new(connection, lines, messages, &self.program))));
        }
        if let Some(seals) = &self.one_shot {
            let (lines, seals) = (self.lines.clone(), seals.clone());
            return Ok(Connection::OneShot(Box::new(OneShotConnection::new(connection, lines, seals, &self.program))));
        }
        let Some(seals) = &self.seals else { return Ok(connection) };
        Ok(Connection::Sealed(Box::new(SealedConnection::new(
            connection,
            self.lines.clone(),
            seals.clone(),
            &self.program,
        ))))
    }
}
