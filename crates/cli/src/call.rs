//! `sealway call`: a sealed request from the command line.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use sealway_client::sealed::{Pin, SUITES_DEFAULT, Trust, public_key};
use sealway_client::session::Seen;
use sealway_client::{Client, Options, Timings};
use sealway_proto::session::Step;
use sealway_proto::wire::Wire;
use sealway_runtime::config::read_secret;

use crate::args::{Call, Family};
use crate::output::{out, tell};
use crate::summary;

/// Largest body read from a file or standard input.
const DATA_LEN_MAX: u64 = 64 * 1024 * 1024;
/// Largest file of a root's public key.
const ROOT_LEN_MAX: u64 = 1024;

/// Prints the opened answer on standard output, and what was asked for beside it on standard error.
pub(crate) async fn run(args: Call) -> anyhow::Result<()> {
    let wire = args.wire.unwrap_or(if args.init.is_some() { Wire::Two } else { Wire::Three });
    let (method, url) = target(&args, wire)?;
    let mut headers = headers(&args.headers)?;
    if wire != Wire::Three {
        refuse_new(&args)?;
    }
    let trust = if wire == Wire::Three { trust(&args)? } else { Trust::Keys(Vec::new()) };
    let options = Options {
        wire,
        init_path: init_path(args.init, wire)?.into(),
        client_id: args.client_id.clone(),
        ttl_sec: args.ttl,
        token: args.token_file.as_deref().map(read_secret).transpose()?,
        timeout: Duration::from_millis(args.timeout_ms),
        trust: trust.clone(),
        suites: if args.suites.is_empty() { SUITES_DEFAULT.to_vec() } else { args.suites.clone() },
        key_log: args.key_log.clone(),
        ..Options::default()
    };
    let init = if wire == Wire::Three { sealway_client::sealed::INIT_PATH.into() } else { options.init_path.clone() };
    let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let data = args.data.as_deref().map_or(Ok(Vec::new()), data)?;
    if serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok() {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    }
    let client = Client::new(url.clone(), options)?;
    let is_first = wire == Wire::Three && !client.is_met();
    let (session, expires_in_sec, agreed) = client.connect().await?;
    let recognised = client.recognised().await?;
    if let (Some(said), Trust::FirstUse(file), true) = (&recognised, &trust, is_first) {
        let host = url.authority().map_or("", |authority| authority.as_str());
        tell(format_args!(
            "sealway: {host} was met for the first time; its identity key {} is kept in {} and",
            said.key_id,
            file.display()
        ));
        tell(format_args!("         trusted from now on. Compare it with what the service's operator says."));
    }
    if args.verbose {
        tell(format_args!("session {session}, expires in {expires_in_sec} s"));
        if let Some(said) = &recognised {
            let whom = [("as", &said.subject), ("of", &said.tenant)].map(|(word, name)| match name {
                Some(name) => format!(" {word} {name}"),
                None => String::new(),
            });
            tell(format_args!("suite {}, identity key {}", said.suite.name(), said.key_id));
            tell(format_args!("recognised by {}{}", said.auth.name(), whom.concat()));
        }
    }
    let exchange = Exchange { args: &args, client: &client, method, path: &path };
    let (status, timings) =
        if wire == Wire::Three { exchange.streamed(headers, data).await? } else { exchange.whole(&data).await? };
    if args.verbose {
        tell(format_args!("{}", summary::lay_out(&[(&init, &agreed), (&path, &timings)])));
    }
    // It would end by itself; whether or not it is told, the answer is here.
    let _ = client.end().await;
    if !status.is_success() {
        bail!("the service answered {status}");
    }
    Ok(())
}

/// One call, once the session stands.
struct Exchange<'a> {
    args: &'a Call,
    client: &'a Client,
    method: Method,
    path: &'a str,
}

impl Exchange<'_> {
    async fn whole(&self, data: &[u8]) -> anyhow::Result<(StatusCode, Timings)> {
        let answer = self.client.post(self.path, data).await?;
        if self.args.verbose {
            tell(format_args!("{}", shown(&self.method, self.path, answer.status, &answer.seen)));
            tell_lengths(answer.seen.request_len as u64, answer.seen.answer_len as u64);
        }
        let mut out = Out::open(self.args.output.as_deref())?;
        out.write(&answer.body)?;
        out.finish()?;
        Ok((answer.status, answer.timings))
    }

    /// Writes each part of the answer when it comes.
    async fn streamed(&self, headers: HeaderMap, data: Vec<u8>) -> anyhow::Result<(StatusCode, Timings)> {
        let mut request = Request::new(Full::new(Bytes::from(data)));
        (*request.method_mut(), *request.headers_mut()) = (self.method.clone(), headers);
        *request.uri_mut() = self.path.parse()?;
        let mut response = self.client.stream(request).await?;
        let mut timings = response.extensions_mut().remove::<Timings>().unwrap_or_default();
        if self.args.verbose {
            let seen = response.extensions_mut().remove::<Seen>().unwrap_or_default();
            tell(format_args!("{}", shown(&self.method, self.path, response.status(), &seen)));
            for (name, value) in response.headers() {
                tell(format_args!("< sealed: {name}: {}", String::from_utf8_lossy(value.as_bytes())));
            }
        }
        let status = response.status();
        let mut out = Out::open(self.args.output.as_deref())?;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            if let Ok(part) = frame?.into_data() {
                out.write(&part)?;
            }
        }
        out.finish()?;
        if self.args.verbose {
            tell_lengths(body.sent(), body.received());
        }
        let (round_trip, sealing, opening) = body.times();
        timings.round_trip = round_trip;
        timings.http = round_trip.saturating_sub(sealing + opening);
        timings.crypto = vec![(Step::Encrypt.name(), sealing), (Step::Decrypt.name(), opening)];
        Ok((status, timings))
    }
}

/// Where the answer goes: standard output, or a file that takes its name when it is whole.
struct Out<'a> {
    file: Option<(&'a Path, PathBuf, File)>,
    ends_line: bool,
}

impl<'a> Out<'a> {
    fn open(file: Option<&'a Path>) -> anyhow::Result<Self> {
        let opened = file.map(|path| {
            let mut partial = path.as_os_str().to_owned();
            partial.push(".partial");
            let partial = PathBuf::from(partial);
            let opened =
                File::create(&partial).with_context(|| format!("--output: cannot write {}", partial.display()));
            opened.map(|opened| (path, partial, opened))
        });
        Ok(Out { file: opened.transpose()?, ends_line: false })
    }

    fn write(&mut self, part: &[u8]) -> anyhow::Result<()> {
        if let Some((_, partial, file)) = &mut self.file {
            return file.write_all(part).with_context(|| format!("--output: cannot write {}", partial.display()));
        }
        self.ends_line = part.ends_with(b"\n");
        out().write_all(part)
    }

    fn finish(self) -> anyhow::Result<()> {
        match self.file {
            Some((path, partial, _)) => std::fs::rename(&partial, path)
                .with_context(|| format!("--output: cannot make {} of {}", path.display(), partial.display())),
            None if std::io::stdout().is_terminal() && !self.ends_line => writeln!(out()),
            None => Ok(()),
        }
    }
}

fn target(args: &Call, wire: Wire) -> anyhow::Result<(Method, Uri)> {
    let (method, url) = match args.target.as_slice() {
        [method, url] => (method.to_ascii_uppercase(), url),
        [url] if args.data.is_none() && wire == Wire::Three => ("GET".into(), url),
        [url] => ("POST".into(), url),
        _ => bail!("expected METHOD and URL"),
    };
    let method: Method =
        method.parse().with_context(|| format!("METHOD: \"{method}\" is no HTTP method, such as POST"))?;
    if wire != Wire::Three && method != Method::POST {
        bail!("METHOD: wires 1 and 2 seal POST alone, not {method}");
    }
    let parsed: Option<Uri> = url.parse().ok();
    let Some(url) = parsed else {
        bail!("URL: \"{url}\" is no URL; expected one such as https://service.example/orders")
    };
    Ok((method, url))
}

fn init_path(init: Option<Family>, wire: Wire) -> anyhow::Result<&'static str> {
    Ok(match (init.unwrap_or(Family::Session), wire) {
        (_, Wire::Three) if init.is_some() => bail!("--init is of wires 1 and 2: wire 3 has one way"),
        (Family::Session, _) => "/session/init",
        (Family::V1, Wire::Two) => "/v1/session/init",
        (Family::Anon, Wire::One) => "/session/init/anon",
        (Family::V1, _) => bail!("--init v1: wire 2 alone has it"),
        (Family::Anon, _) => bail!("--init anon: wire 1 alone has it"),
    })
}

fn refuse_new(args: &Call) -> anyhow::Result<()> {
    for (flag, is_given) in [
        ("--header", !args.headers.is_empty()),
        ("--pin", !args.pins.is_empty()),
        ("--root", args.root.is_some()),
        ("--suite", !args.suites.is_empty()),
        ("--key-log", args.key_log.is_some()),
    ] {
        if is_given {
            bail!("{flag} is of wire 3");
        }
    }
    Ok(())
}

/// Whose word is taken for who the service is.
fn trust(args: &Call) -> anyhow::Result<Trust> {
    if !args.pins.is_empty() {
        let pins = args.pins.iter().map(|pin| Pin::parse(pin)).collect::<Result<_, _>>();
        return Ok(Trust::Keys(pins.context("--pin")?));
    }
    if let Some(root) = &args.root {
        let text = match File::open(root) {
            Ok(file) => {
                let mut text = String::new();
                file.take(ROOT_LEN_MAX)
                    .read_to_string(&mut text)
                    .with_context(|| format!("--root: cannot read {root}"))?;
                text
            }
            Err(_) => root.clone(),
        };
        let key = public_key(text.trim()).context("--root: neither a file that can be read nor a key")?;
        return Ok(Trust::Root { key: Box::new(key), state: state_file("roots") });
    }
    trust_file(args.trust_file.clone()).map(Trust::FirstUse)
}

/// The file of the services that were met at first use: the one given, or the one in the user's state folder.
pub(crate) fn trust_file(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let file = given.or_else(|| state_file("known_services"));
    file.context("no folder for --trust-file: neither XDG_STATE_HOME nor HOME is set")
}

fn state_file(name: &str) -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("sealway").join(name))
}

fn headers(given: &[String]) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for text in given {
        let (name, value) = text.split_once(':').with_context(|| "--header: expected NAME: VALUE".to_owned())?;
        let name: HeaderName = name.trim().parse().with_context(|| format!("--header: \"{name}\" is no name"))?;
        let value = HeaderValue::from_str(value.trim()).with_context(|| format!("--header {name}: no value"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn data(argument: &str) -> anyhow::Result<Vec<u8>> {
    let read = |from: &mut dyn Read, name: &str| {
        let mut data = Vec::new();
        from.take(DATA_LEN_MAX + 1).read_to_end(&mut data).with_context(|| format!("--data: cannot read {name}"))?;
        if data.len() as u64 > DATA_LEN_MAX {
            bail!("--data: {name} is longer than {DATA_LEN_MAX} bytes");
        }
        Ok(data)
    };
    match argument.strip_prefix('@') {
        None => Ok(argument.as_bytes().to_vec()),
        Some("-") => read(&mut std::io::stdin().lock(), "standard input"),
        Some(path) => {
            let mut file = File::open(path).with_context(|| format!("--data: cannot open {path}"))?;
            read(&mut file, path)
        }
    }
}

/// Sealed bytes of a request's and an answer's body.
fn tell_lengths(sent: u64, received: u64) {
    tell(format_args!("> {sent} sealed bytes\n< {received} sealed bytes"));
}

/// Heads of request and answer as they went over the wire.
fn shown(method: &Method, path: &str, status: StatusCode, seen: &Seen) -> String {
    let lines = |mark: &str, headers: &[(String, String)]| {
        headers.iter().map(|(name, value)| format!("{mark} {name}: {value}\n")).collect::<String>()
    };
    let aad = if seen.request_aad.is_empty() { String::new() } else { format!("> AAD {}\n", seen.request_aad) };
    let text = format!(
        "> {method} {path}\n{}{aad}< {status}\n{}",
        lines(">", &seen.request_headers),
        lines("<", &seen.answer_headers),
    );
    text.trim_end().to_owned()
}
