//! `sealway relay`: a relay that serves, keys of issuers, grants.

mod control;
mod serve;

use std::path::PathBuf;

use anyhow::Context;
use sealway_proto::crypto::default_provider;
use sealway_proto::relay::{Issuer, Minting, b64u_decode};
use sealway_relay::key_file;
use sealway_runtime::clock::{Clock, SystemClock};

use crate::output::out;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Relay {
    /// Pair the endpoints of channels and forward what cannot be read here
    Serve(Box<serve::Serve>),
    /// Make an issuer's key, and the keyset that a relay knows it by
    Keys(Keys),
    /// Print a grant for each end of a new channel, as JSON; they hold secrets
    Mint(Mint),
    /// Give grants over HTTP to whoever has a token or a certificate
    Control(Box<control::ControlArgs>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Keys {
    /// The issuer's key file; it must not be there yet
    #[arg(long, value_name = "FILE", default_value = "issuer-key.json")]
    issuer_key_file: PathBuf,
    /// The keyset file for the relay's --issuer-keys-file
    #[arg(long, value_name = "FILE", default_value = "issuer-keys.json")]
    issuer_keys_file: PathBuf,
    /// The key's name
    #[arg(long, default_value = "k1")]
    kid: String,
}

/// Which wire the endpoints of a channel speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProfileChoice {
    /// Ours
    Native,
    /// Flowersec v1
    FlowersecV1,
}

/// What grants are made of.
#[derive(Debug, clap::Args)]
pub(crate) struct Minted {
    /// The issuer's key file
    #[arg(long, value_name = "FILE")]
    issuer_key_file: PathBuf,
    /// The relay, such as wss://relay.example/ws
    #[arg(long, value_name = "URL")]
    tunnel_url: String,
    /// The audience: the relay's --aud
    #[arg(long)]
    aud: String,
    /// The issuer: one of the relay's --iss
    #[arg(long, default_value = "")]
    iss: String,
    /// Which wire the endpoints speak
    #[arg(long, value_enum, default_value_t = ProfileChoice::Native)]
    profile: ProfileChoice,
    /// Suites that are allowed, the one to use first; by the profile without
    #[arg(long = "suite", value_name = "NUMBER", value_parser = parse_suite)]
    suites: Vec<u16>,
    /// The Noise pattern of native channels
    #[arg(long, default_value = "NNpsk0")]
    noise_pattern: String,
    /// The client endpoint's static public key in base64url, which the server is to hold it to
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    client_static: Option<Key>,
    /// The server endpoint's, which the client is to hold it to
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    server_static: Option<Key>,
    /// How long a channel has to begin, in seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    init_window_s: u32,
    /// How long a token may be used, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    token_ttl_s: u32,
    /// How long a channel may stay without a message, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    idle_timeout_s: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Mint {
    #[command(flatten)]
    minted: Minted,
    /// The channel's name; a random one without
    #[arg(long)]
    channel_id: Option<String>,
}

fn parse_suite(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| "expected a number such as 1 or 0x0101".into())
}

/// A public key.
#[derive(Clone, Debug)]
struct Key(Vec<u8>);

fn parse_key(text: &str) -> Result<Key, String> {
    let key = b64u_decode(text).filter(|key| matches!(key.len(), 32 | 33));
    key.map(Key).ok_or_else(|| "expected a public key as sealway channel key prints it".into())
}

impl Minted {
    fn issuer(&self) -> anyhow::Result<Issuer> {
        let make = match self.profile {
            ProfileChoice::Native => Minting::native,
            ProfileChoice::FlowersecV1 => Minting::flowersec_v1,
        };
        let mut minting = make(&self.tunnel_url, &self.aud, &self.iss);
        if !self.suites.is_empty() {
            minting.suites.clone_from(&self.suites);
        }
        minting.noise_pattern.clone_from(&self.noise_pattern);
        minting.statics = [&self.client_static, &self.server_static].map(|key| key.clone().map(|key| key.0));
        minting.init_window_s = self.init_window_s;
        minting.token_ttl_s = self.token_ttl_s;
        minting.idle_timeout_s = self.idle_timeout_s;
        Ok(Issuer::new(key_file::read_issuer_key(&self.issuer_key_file)?, minting, default_provider())?)
    }
}

pub(crate) async fn run(command: Relay) -> anyhow::Result<()> {
    match command {
        Relay::Serve(serve) => serve::run(*serve).await,
        Relay::Control(control) => control::run(*control).await,
        Relay::Keys(keys) => {
            key_file::make_keys(&keys.kid, &keys.issuer_key_file, &keys.issuer_keys_file)?;
            writeln!(out(), "{}: keep it secret", keys.issuer_key_file.display())?;
            writeln!(out(), "{}: for the relay's --issuer-keys-file", keys.issuer_keys_file.display())?;
            Ok(())
        }
        Relay::Mint(mint) => {
            let now_s = i64::try_from(SystemClock.now_ms() / 1000).context("the clock")?;
            let [client, server] = mint.minted.issuer()?.pair(mint.channel_id.as_deref(), now_s)?;
            writeln!(out(), "{{\"grant_client\":{},\"grant_server\":{}}}", *client.encode(), *server.encode())?;
            Ok(())
        }
    }
}
