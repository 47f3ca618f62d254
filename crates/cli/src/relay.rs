//! `sealway relay`: runs a relay, and makes issuers' keys and grants.

mod control;
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use sealway_proto::channel::Suite;
use sealway_proto::crypto::default_provider;
use sealway_proto::relay::{Binding, Issuer, Minting, TokenForm, b64u_decode};
use sealway_relay::key_file;
use sealway_runtime::clock::{Clock, SystemClock};

use crate::flags;
use sealway_runtime::output::{Usage, out};

/// Longest name of a key or an audience, in bytes.
const NAME_LEN_MAX: usize = 256;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Relay {
    /// Pair the endpoints of channels and forward what cannot be read here
    Serve(Box<serve::Serve>),
    /// Make an issuer's key, and the keyset that a relay knows it by
    Keys(Keys),
    /// Print a grant for each end of a new channel, as JSON; they hold secrets
    Mint(Mint),
    /// Serve grants over HTTP to callers with a token or a certificate
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
    #[arg(long, default_value = "k1", value_parser = flags::text(NAME_LEN_MAX))]
    kid: String,
    /// Bind the key to this issuer: the relay takes no other `iss` by it
    #[arg(long, value_name = "NAME")]
    iss: Option<String>,
    /// Bind the key to this audience; may be given several times
    #[arg(long, value_name = "NAME")]
    aud: Vec<String>,
}

/// Wire of the endpoints of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProfileChoice {
    /// Ours
    Native,
    /// Flowersec v1
    FlowersecV1,
}

/// Form of tokens in grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FormChoice {
    /// Of v1 up to January 2026
    #[value(name = "FST1", alias = "fst1")]
    Fst1,
    /// Of v1 from 0.1.0 to 0.27.0: relays of these take no other
    #[value(name = "FST2", alias = "fst2")]
    Fst2,
}

/// Contents of the grants that are made.
#[derive(Debug, clap::Args)]
pub(crate) struct GrantArgs {
    /// The issuer's key file
    #[arg(long, value_name = "FILE")]
    issuer_key_file: PathBuf,
    /// The relay, such as wss://relay.example/ws
    #[arg(long, value_name = "URL", value_parser = flags::relay_url)]
    tunnel_url: String,
    /// The audience: the relay's --aud
    #[arg(long, value_parser = flags::text(NAME_LEN_MAX))]
    aud: String,
    /// The issuer: one of the relay's --iss
    #[arg(long, default_value = "")]
    iss: String,
    /// Wire protocol that both endpoints speak
    #[arg(long, value_enum, default_value_t = ProfileChoice::Native)]
    profile: ProfileChoice,
    /// The form of tokens; our relay takes both
    #[arg(long, value_enum, default_value_t = FormChoice::Fst1)]
    token_form: FormChoice,
    /// Suites that are allowed, the one to use first; by the profile without
    #[arg(long = "suite", value_name = "NUMBER", value_parser = flags::suite)]
    suites: Vec<u16>,
    /// The Noise pattern of native channels; that of the suite without
    #[arg(long, value_parser = ["NNpsk0", "KKpsk0", "IKpsk1", "XXpsk3"])]
    noise_pattern: Option<String>,
    /// The client endpoint's static public key in base64url, which the server is to hold it to
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    client_static: Option<Key>,
    /// The server endpoint's, which the client is to hold it to
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    server_static: Option<Key>,
    /// Time in which a channel must begin, in seconds
    #[arg(long, default_value_t = 120, value_parser = flags::whole::<u32>(1..=86_400))]
    init_window_s: u32,
    /// Validity of a token, in seconds
    #[arg(long, default_value_t = 60, value_parser = flags::whole::<u32>(1..=3600))]
    token_ttl_s: u32,
    /// Longest time of a channel without a message, in seconds
    #[arg(long, default_value_t = 60, value_parser = flags::whole::<u32>(1..=86_400))]
    idle_timeout_s: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Mint {
    #[command(flatten)]
    minted: GrantArgs,
    /// The channel's name; a random one without
    #[arg(long)]
    channel_id: Option<String>,
}

/// Static public key of an endpoint, 32 or 33 bytes.
#[derive(Clone, Debug)]
struct Key(Vec<u8>);

fn parse_key(text: &str) -> Result<Key, String> {
    let key = b64u_decode(text).filter(|key| matches!(key.len(), 32 | 33));
    key.map(Key).ok_or_else(|| "expected a public key as sealway channel key prints it".into())
}

impl GrantArgs {
    fn issuer(&self) -> anyhow::Result<Issuer> {
        let make = match self.profile {
            ProfileChoice::Native => Minting::native,
            ProfileChoice::FlowersecV1 => Minting::flowersec_v1,
        };
        let mut minting = make(&self.tunnel_url, &self.aud, &self.iss);
        if !self.suites.is_empty() {
            minting.suites.clone_from(&self.suites);
        }
        minting.token_form = match self.token_form {
            FormChoice::Fst1 => TokenForm::Fst1,
            FormChoice::Fst2 => TokenForm::Fst2,
        };
        if let Some(pattern) = self.pattern(&minting.suites)? {
            minting.noise_pattern = pattern.into();
        }
        minting.statics = [&self.client_static, &self.server_static].map(|key| key.clone().map(|key| key.0));
        minting.init_window_s = self.init_window_s;
        minting.token_ttl_s = self.token_ttl_s;
        minting.idle_timeout_s = self.idle_timeout_s;
        let key = key_file::read_issuer_key(&self.issuer_key_file).context("--issuer-key-file")?;
        Issuer::new(key, minting, default_provider()).map_err(|err| Usage::new(format_args!("--suite: {err}")).into())
    }

    /// Noise pattern of the suites; `None` if the first is not native. Different patterns are an error.
    fn pattern(&self, suites: &[u16]) -> Result<Option<&'static str>, Usage> {
        let mut pattern = None;
        for number in suites {
            let Ok(Suite::Native(suite)) = Suite::from_id(*number) else { continue };
            let name = suite.pattern.name();
            if pattern.is_some_and(|other| other != name) {
                return Err(Usage::new(format_args!(
                    "--suite {number:#x}: has another Noise pattern than the suites before it"
                )));
            }
            if self.noise_pattern.as_deref().is_some_and(|asked| asked != name) {
                let text = format!(
                    "--noise-pattern: suite {number:#x} has the pattern {name}; give another --suite, or leave the flag out"
                );
                return Err(Usage::new(text));
            }
            pattern = Some(name);
        }
        Ok(pattern)
    }
}

/// Converts arguments of `sealway relay` in the original relay's spelling: `-listen` becomes `--listen`.
pub(crate) fn with_original_flags(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.get(1).is_some_and(|command| command == "relay") {
        for argument in arguments.iter_mut().skip(2) {
            let bytes = argument.as_encoded_bytes();
            // `-h` is a short flag; anything longer after one dash is a word.
            if bytes.len() > 2 && bytes[0] == b'-' && bytes[1].is_ascii_lowercase() {
                let mut long = OsString::from("-");
                long.push(&*argument);
                *argument = long;
            }
        }
    }
    arguments
}

pub(crate) async fn run(command: Relay) -> anyhow::Result<()> {
    match command {
        Relay::Serve(serve) => serve::run(*serve).await,
        Relay::Control(control) => control::run(*control).await,
        Relay::Keys(keys) => {
            let binding = Binding { iss: keys.iss, aud: (!keys.aud.is_empty()).then_some(keys.aud) };
            key_file::make_keys(&keys.kid, &binding, &keys.issuer_key_file, &keys.issuer_keys_file)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_relay_may_have_one_dash_as_the_original_has_them() {
        let of = |text: &str| {
            let read = with_original_flags(text.split(' ').map(OsString::from));
            read.iter().map(|argument| argument.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            of("sealway relay serve -listen 127.0.0.1:0 -aud=a --iss b -h"),
            "sealway relay serve --listen 127.0.0.1:0 --aud=a --iss b -h"
        );
        assert_eq!(of("sealway call -v -kx"), "sealway call -v -kx", "of the relay alone");
        assert_eq!(of("sealway relay serve - -- -7"), "sealway relay serve - -- -7");
    }
}
