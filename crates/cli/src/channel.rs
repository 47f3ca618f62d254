//! `sealway channel`: ports and byte streams carried end to end between two programs, over a relay or directly.

mod demo;
mod piped;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use sealway_client::channel::forward::{self, Target, join};
use sealway_client::channel::keep::{self, Connector, Event, Listener};
use sealway_client::channel::reconnect::Backoff;
use sealway_client::channel::{
    self, Channel, Control, Curve, Grants, Hello, Identity, Instance, Options, Role, attach,
};
use sealway_proto::channel::limits::NATIVE_CONTENT_MAX;
use sealway_runtime::clock::SystemClock;
use sealway_runtime::config::{read_secret, write_secret};
use sealway_runtime::listener;
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::tls;

use self::piped::piped;
use crate::flags::{self, Addresses};
use sealway_runtime::output::{Usage, out, tell};

/// Longest channel name that a control plane accepts, in bytes.
const CHANNEL_NAME_LEN_MAX: usize = 128;
/// Largest padding: that of a whole record, in bytes.
const PAD_TO_MAX: u64 = NATIVE_CONTENT_MAX as u64;
/// Purpose of the streams that `cat` opens.
const CAT: &str = "cat";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ChannelAction {
    /// Take what peers send to a server that this machine reaches
    Listen(Listen),
    /// Listen on a local port, and carry its connections to the peer
    Connect(Connect),
    /// Join standard input and output with those of a peer
    Cat(Cat),
    /// Make a static key for this end in a file of its own, and print its public half for grants to pin
    Key(Key),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Listen {
    /// Forward connections to tcp://HOST:PORT, or requests to http://HOST:PORT
    #[arg(long, value_name = "TARGET", value_parser = Target::parse)]
    forward: Target,
    /// For a first look: run a relay and a control plane too, and print the command for the other terminal
    #[arg(long, conflicts_with_all = ["control", "grant"])]
    demo: bool,
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Connect {
    /// The local address, such as 127.0.0.1:5432
    #[arg(long, value_name = "ADDRESS", value_parser = flags::addresses)]
    listen: Addresses,
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cat {
    /// Be the end that listens, where grants come from a control plane
    #[arg(long, requires = "control")]
    listen: bool,
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Key {
    /// The file of the private half; it must not exist
    file: PathBuf,
    /// The curve of the grants' suite
    #[arg(long, value_enum, default_value = "25519")]
    curve: CurveName,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CurveName {
    #[value(name = "25519")]
    X25519,
    #[value(name = "p256")]
    P256,
}

/// Source of the grants, and identity of this end.
#[derive(Debug, clap::Args)]
struct Source {
    /// The control plane that gives grants: http:// or https://, a host, a port
    #[arg(long, value_name = "URL", env = "SEALWAY_CONTROL")]
    control: Option<String>,
    /// The file with the token for the control plane
    #[arg(long, value_name = "FILE", env = "SEALWAY_CONTROL_TOKEN_FILE", requires = "control")]
    token_file: Option<PathBuf>,
    /// Name of the channels, the same at both ends
    #[arg(long, default_value = "default", value_parser = flags::text(CHANNEL_NAME_LEN_MAX))]
    name: String,
    /// A file with one grant, instead of a control plane; it works once
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    grant: Option<PathBuf>,
    /// Trust these authorities, in PEM, instead of those of this machine
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show this certificate, in PEM or PKCS#12, to the relay and the control plane
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its key in PEM, where it is in another file
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// This end's static key, where grants pin keys
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Pad records to a multiple of so many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = flags::whole::<usize>(0..=PAD_TO_MAX))]
    pad_to: usize,
    /// Send a sign of life this often, in seconds
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = flags::whole::<u64>(1..=3600))]
    ping_every: u64,
    /// As a client of v1: take a server that proves nothing before its first record
    #[arg(long)]
    accept_unconfirmed: bool,
}

impl Source {
    fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options::default();
        options.liveness.ping_every = Duration::from_secs(self.ping_every);
        options.liveness.silent_max = Duration::from_secs(self.ping_every) * 9 / 4;
        options.accept_unconfirmed = self.accept_unconfirmed;
        options.pad_to = self.pad_to;
        options.connecting.tls = self.tls()?;
        if let Some(path) = &self.identity {
            let text = zeroize::Zeroizing::new(read_secret(path).context("--identity")?);
            let identity = Identity::parse(&text);
            options.identity =
                Some(identity.with_context(|| format!("--identity: {}: it holds no static key", path.display()))?);
        }
        Ok(options)
    }

    /// Configured TLS settings; `None` leaves them to the SDK.
    fn tls(&self) -> anyhow::Result<Option<Arc<rustls::ClientConfig>>> {
        if self.ca.is_none() && self.cert.is_none() {
            return Ok(None);
        }
        let files = tls::ClientFiles {
            ca: self.ca.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            ..tls::ClientFiles::default()
        };
        let client = tls::Client::load(files, Arc::new(SystemClock));
        Ok(Some(client.map_err(|err| anyhow::anyhow!("--{err}"))?.config(false)))
    }

    fn grants(&self, role: Role) -> anyhow::Result<Grants> {
        if let Some(path) = &self.grant {
            return Ok(Grants::file(path));
        }
        let Some(url) = &self.control else {
            return Err(Usage::new("--control URL or --grant FILE: one of them is needed").into());
        };
        let token = self.token_file.as_deref().map(read_secret).transpose().context("--token-file")?;
        let token = token.map(zeroize::Zeroizing::new);
        let tls = self.tls()?.map(|config| rustls::ClientConfig::clone(&config));
        let control = Control::new(url, &self.name, role, token.as_ref().map(|token| token.as_str()), tls);
        let control = control.map_err(|err| match err.code.as_ref() {
            // The value is not shown: it may contain a password.
            "address_invalid" => {
                Usage::new("--control: expected http://HOST:PORT or https://HOST:PORT, without a path or a password")
                    .into()
            }
            _ => anyhow::Error::new(err),
        });
        Ok(Grants::Control(Box::new(control?)))
    }
}

/// Runs a command until a signal or a permanent failure.
pub(crate) async fn run(action: ChannelAction) -> anyhow::Result<ExitCode> {
    let mut signals = StopSignals::install()?;
    let is_cat = matches!(action, ChannelAction::Cat(_));
    let work = async {
        match action {
            ChannelAction::Listen(args) => listen(args).await,
            ChannelAction::Connect(args) => connect(args).await,
            ChannelAction::Cat(args) => cat(args).await,
            ChannelAction::Key(args) => key(&args),
        }
    };
    tokio::select! {
        done = work => done.map(|()| ExitCode::SUCCESS),
        why = signals.stopped() => Ok(if is_cat { interrupted(why) } else { ExitCode::SUCCESS }),
    }
}

/// Exit after a signal: it is a listener's normal end, but leaves the streams of `cat` incomplete. As in shells, the
/// code is 128 plus the signal's number.
fn interrupted(signal: &str) -> ExitCode {
    tell(format_args!("sealway: {signal}: interrupted before the end; what was sent or received is not complete"));
    ExitCode::from(if signal == "SIGINT" { 128 + 2 } else { 128 + 15 })
}

async fn listen(args: Listen) -> anyhow::Result<()> {
    let options = args.source.options()?;
    if args.source.grant.is_some() {
        let channel = once(&args.source, options).await?;
        tell(format_args!("sealway: a peer is there"));
        let ended = forward::serve(&channel, &args.forward, |err| tell_of(Event::Broken(err.clone()))).await;
        return finished(ended);
    }
    let demo = if args.demo { Some(demo::Demo::start().await?) } else { None };
    let grants = match &demo {
        Some(demo) => demo.grants(&args.source.name)?,
        None => args.source.grants(Role::Server)?,
    };
    let listener = Listener::new(grants, options, Backoff::default())?;
    if let Some(demo) = &demo {
        writeln!(out(), "On another terminal:\n\n    {}\n", demo.command(&args.source.name))?;
    }
    tell(format_args!("sealway: waiting for peers as \"{}\"", args.source.name));
    finished(keep::serve(listener, args.forward, tell_of).await)
}

async fn connect(args: Connect) -> anyhow::Result<()> {
    let local = listener::bind(&args.listen.0, "--listen")?.into_iter().next().context("--listen: no address")?;
    let connector = Connector::new(args.source.grants(Role::Client)?, args.source.options()?, Backoff::default())?;
    tell(format_args!("sealway: listening on {}", local.local_addr()?));
    finished(keep::forward(connector, local, tell_of).await)
}

async fn cat(args: Cat) -> anyhow::Result<()> {
    let role = if args.listen { Role::Server } else { Role::Client };
    let options = args.source.options()?;
    let channel = if args.source.grant.is_some() {
        Arc::new(once(&args.source, options).await?)
    } else if role == Role::Server {
        let mut listener = Listener::new(args.source.grants(role)?, options, Backoff::default())?;
        Arc::new(listener.accept(|err, wait| tell_of(Event::Retrying(err.clone(), wait))).await?)
    } else {
        let connector = Connector::new(args.source.grants(role)?, options, Backoff::default())?;
        connector.channel(|err, wait| tell_of(Event::Retrying(err.clone(), wait))).await?
    };
    let stream = match channel.role() {
        Role::Client => channel.open(&Hello::new(CAT)?).await?,
        Role::Server => {
            let Some(incoming) = channel.accept().await else {
                return Err(anyhow::Error::new(channel.over().await).context("the peer opened no stream"));
            };
            if incoming.hello.kind != CAT {
                bail!("the peer opened a stream for \"{}\", not for \"{CAT}\"", incoming.hello.kind.escape_debug());
            }
            incoming.stream
        }
    };
    // A terminal has no end of input.
    let is_awaited = !std::io::IsTerminal::is_terminal(&std::io::stdin());
    let (output, reader) = piped();
    let joined = join(stream, tokio::io::stdin(), output, is_awaited).await;
    joined.map_err(|err| reader.or(anyhow::Error::new(err).context("broken off before the end")))?;
    channel.close(0, "").await;
    Ok(())
}

/// Opens the one channel of a grant in a file.
async fn once(source: &Source, options: Options) -> anyhow::Result<Channel> {
    let grant = source.grants(Role::Server)?.next().await?;
    Ok(attach(&grant, &Instance::draw()?, &options, |_| ()).await?)
}

fn key(args: &Key) -> anyhow::Result<()> {
    let curve = match args.curve {
        CurveName::X25519 => Curve::X25519,
        CurveName::P256 => Curve::P256,
    };
    let identity = Identity::draw(curve)?;
    let told = || format!("{}: the file must not exist yet: a key is not overwritten", args.file.display());
    anyhow::ensure!(!args.file.exists(), told());
    write_secret(&args.file, &identity.encode())?;
    writeln!(out(), "{}", identity.public(curve)?)?;
    Ok(())
}

fn tell_of(happened: Event) {
    match happened {
        Event::Paired => tell(format_args!("sealway: a peer is there")),
        Event::Ended(err) => tell(format_args!("sealway: a channel is over: {err}")),
        Event::Retrying(err, wait) => tell(format_args!("sealway: {err}; trying again within {wait:?}")),
        Event::Broken(err) => tell(format_args!("sealway: {err}")),
    }
}

/// Treats a channel that was ended in order as success.
fn finished(err: channel::Error) -> anyhow::Result<()> {
    if err.code == "ended" { Ok(()) } else { Err(err.into()) }
}
