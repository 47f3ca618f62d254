//! Connecting: from a grant to a channel, over a relay in either role, or directly.

use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt;
use sealway_proto::channel::{ChannelSettings, Handshake, HandshakeRandoms, Suite};
use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};
use sealway_proto::relay::{Attach, Claims, DirectInfo, Grant, Profile, Role, b64u_encode};
use tokio_tungstenite::tungstenite::Message;

use super::error::{Error, Stage};
use super::handshake::{self, Waits, now_s};
use super::socket::{self, Io, Socket};
use super::{Channel, Identity, Liveness, Options, Step};

/// Extra wait for a peer after the grant's end: by then the relay should have ended the connection.
const AFTER_GRANT: Duration = Duration::from_secs(60);

/// Identifies a running endpoint to relays, so that only this endpoint can take its own place again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(Arc<str>);

impl Instance {
    /// Draws an instance id of 24 random bytes.
    ///
    /// # Errors
    /// `provider`, if the crypto module has no randomness.
    pub fn draw() -> Result<Self, Error> {
        let mut bytes = [0; 24];
        let drawn = sealway_proto::crypto::default_provider().fill_random(&mut bytes);
        drawn.map_err(|err| Error::new(Stage::Attach, "provider", err.to_string()))?;
        Ok(Instance(b64u_encode(&bytes).into()))
    }
}

/// Attaches to the grant's relay in the grant's role, waits for the peer and runs the handshake. `told` is called at
/// each step.
///
/// # Errors
/// By stage: [`Stage::Grant`] for a grant that cannot be used, [`Stage::Connect`], [`Stage::Attach`] with the relay's reason
/// as code, [`Stage::Handshake`].
pub async fn attach(grant: &Grant, me: &Instance, options: &Options, told: impl FnMut(Step)) -> Result<Channel, Error> {
    attach_over(socket::connect(&grant.tunnel_url, &options.connecting), grant, me, options, told).await
}

/// Attaches like [`attach`], over a connection that is already open.
///
/// # Errors
/// Those of [`attach`].
pub async fn attach_on(
    io: impl Io + 'static,
    grant: &Grant,
    me: &Instance,
    options: &Options,
    told: impl FnMut(Step),
) -> Result<Channel, Error> {
    attach_over(socket::upgrade(Box::new(io), &grant.tunnel_url, &options.connecting), grant, me, options, told).await
}

async fn attach_over(
    opening: impl Future<Output = Result<Socket, Error>>,
    grant: &Grant,
    me: &Instance,
    options: &Options,
    mut told: impl FnMut(Step),
) -> Result<Channel, Error> {
    let settings = settings_of(grant, options)?;
    let mut socket = opening.await?;
    told(Step::Open);
    let attach = Attach {
        channel_id: grant.channel_id.clone(),
        role: grant.role,
        token: grant.token.clone(),
        endpoint_instance_id: me.0.to_string(),
        profile: if settings.suite.is_native() { Profile::Native } else { Profile::V1 },
    };
    let unsent = |why: String| Error::new(Stage::Attach, "send_failed", format!("the attach was not sent: {why}"));
    let sending = socket.send(Message::Text(attach.encode().into()));
    let sent = tokio::time::timeout(options.connecting.timeout, sending).await;
    sent.map_err(|err| unsent(err.to_string()))?.map_err(|err| unsent(err.to_string()))?;
    told(Step::Attached);
    let left = Duration::from_secs(settings.init_expires_s.saturating_sub(now_s())) + AFTER_GRANT;
    let peer = options.peer_timeout.map_or(left, |wait| wait.min(left));
    let waits = Waits { peer, rest: options.handshake_timeout, hint: hint(&settings, grant.role) };
    shake(socket, settings, grant.role, waits, options.liveness, told).await
}

/// Connects to a peer that listens for direct connections.
///
/// # Errors
/// Those of [`attach`], except its stage [`Stage::Attach`].
pub async fn connect_direct(info: &DirectInfo, options: &Options, told: impl FnMut(Step)) -> Result<Channel, Error> {
    connect_over(socket::connect(&info.ws_url, &options.connecting), info, options, told).await
}

/// Connects like [`connect_direct`], over a connection that is already open.
///
/// # Errors
/// Those of [`connect_direct`].
pub async fn connect_direct_on(
    io: impl Io + 'static,
    info: &DirectInfo,
    options: &Options,
    told: impl FnMut(Step),
) -> Result<Channel, Error> {
    connect_over(socket::upgrade(Box::new(io), &info.ws_url, &options.connecting), info, options, told).await
}

async fn connect_over(
    opening: impl Future<Output = Result<Socket, Error>>,
    info: &DirectInfo,
    options: &Options,
    mut told: impl FnMut(Step),
) -> Result<Channel, Error> {
    let settings = direct_settings(info, options)?;
    let socket = opening.await?;
    told(Step::Open);
    let waits = direct_waits(options, hint(&settings, Role::Client));
    shake(socket, settings, Role::Client, waits, options.liveness, told).await
}

/// Accepts a connection that a peer opened with the same direct info. Each info serves one channel. A TCP connection
/// should have `TCP_NODELAY` set, or small records wait for acknowledgements.
///
/// # Errors
/// Those of [`connect_direct`].
pub async fn accept_direct(io: impl Io + 'static, info: &DirectInfo, options: &Options) -> Result<Channel, Error> {
    let settings = direct_settings(info, options)?;
    let socket = socket::accept(Box::new(io), options.connecting.timeout).await?;
    shake(socket, settings, Role::Server, direct_waits(options, ""), options.liveness, |_| ()).await
}

/// Waits of a direct connection, whose peer is already at the other end.
fn direct_waits(options: &Options, hint: &'static str) -> Waits {
    Waits { peer: options.peer_timeout.unwrap_or(options.handshake_timeout), rest: options.handshake_timeout, hint }
}

/// Advice to a client whose handshake does not complete.
fn hint(settings: &ChannelSettings, role: Role) -> &'static str {
    if role == Role::Server || settings.suite.is_native() || settings.accept_unconfirmed {
        return "";
    }
    "; a server of v1 from before 17 January 2026 proves nothing: accept_unconfirmed (--accept-unconfirmed) takes it all the same"
}

fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

fn settings_of(grant: &Grant, options: &Options) -> Result<ChannelSettings, Error> {
    let suite = suite(grant.default_suite)?;
    let mut settings = settings(&grant.channel_id, *grant.psk, suite, grant.init_exp_s, options)?;
    settings.allowed_suites = grant.allowed_suites.clone();
    settings.peer_static = grant.peer_static.clone();
    if let (Suite::Native(native), Some(pattern)) = (suite, &grant.noise_pattern)
        && native.pattern.name() != pattern
    {
        return Err(Error::new(Stage::Grant, "grant_invalid", "the grant's noise_pattern is not that of its suite"));
    }
    // v1 binds these fields in its handshake.
    if suite.is_native() {
        let claims = Claims::read_unverified(&grant.token);
        let claims = claims.ok_or_else(|| Error::new(Stage::Grant, "grant_invalid", "the grant's token is none"))?;
        settings.bind(provider(), &claims.aud, &claims.iss);
    }
    Ok(settings)
}

fn direct_settings(info: &DirectInfo, options: &Options) -> Result<ChannelSettings, Error> {
    let mut settings = settings(&info.channel_id, *info.psk, suite(info.default_suite)?, info.init_exp_s, options)?;
    settings.bind(provider(), "", "");
    Ok(settings)
}

fn suite(id: u16) -> Result<Suite, Error> {
    let unsupported =
        |_| Error::new(Stage::Grant, "suite_unsupported", format!("the grant's suite {id} is unknown here"));
    Suite::from_id(id).map_err(unsupported)
}

fn settings(
    id: &str,
    psk: [u8; 32],
    suite: Suite,
    init_exp_s: i64,
    options: &Options,
) -> Result<ChannelSettings, Error> {
    let over = |_| Error::new(Stage::Grant, "grant_invalid", "the grant's time to begin is before 1970");
    let mut settings = ChannelSettings::new(id, psk, suite, u64::try_from(init_exp_s).map_err(over)?);
    settings.accept_unconfirmed = options.accept_unconfirmed;
    settings.local_static = options.identity.as_ref().map(Identity::private);
    settings.pad_to = options.pad_to;
    Ok(settings)
}

async fn shake(
    mut socket: Socket,
    settings: ChannelSettings,
    role: Role,
    waits: Waits,
    liveness: Liveness,
    mut told: impl FnMut(Step),
) -> Result<Channel, Error> {
    let is_native = settings.suite.is_native();
    let randoms = HandshakeRandoms::draw(provider()).map_err(|err| Error::of_core(&err))?;
    let is_client = role == Role::Client;
    let (shaking, first) = if is_client {
        let begun = Handshake::client(settings, provider(), randoms, now_s()).map_err(|err| Error::of_core(&err))?;
        (begun.0, Some(begun.1))
    } else {
        (Handshake::server(settings, provider(), randoms).map_err(|err| Error::of_core(&err))?, None)
    };
    let records = handshake::run(&mut socket, shaking, first, waits, || told(Step::Heard)).await?;
    told(Step::Secured);
    Ok(Channel::start(socket, records, role, is_native, liveness))
}
