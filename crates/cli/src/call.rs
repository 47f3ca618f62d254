//! `sealway call`: a sealed request from the command line.

mod mle;
mod once;

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use sealway_client::native::{INIT_PATH, PublicKey, public_key};
use sealway_client::{Body, Builder, Client, Error, Pin, Timings, Trace, Trust, TrustStore, Wire};
use sealway_runtime::config::read_secret;

use crate::args::{Call, Family};
use crate::summary;
use sealway_runtime::output::{out, tell};

/// Largest body read from a file or standard input, in bytes.
const DATA_LEN_MAX: u64 = 64 * 1024 * 1024;
/// Largest file of a root's public key, in bytes.
const ROOT_LEN_MAX: u64 = 8 * 1024;

/// Makes the call: prints the opened answer on standard output, and requested details on standard error.
pub(crate) async fn run(args: Call) -> anyhow::Result<()> {
    if let Some(profile) = &args.mle.profile {
        return mle::run(&args, profile).await;
    }
    if args.once.once {
        return once::run(&args).await;
    }
    let wire = args.wire.unwrap_or(if args.init.is_some() { Wire::V2 } else { Wire::Native });
    let (method, url) = target(&args, wire)?;
    let headers = headers(&args.headers)?;
    if wire != Wire::Native {
        refuse_new(&args)?;
    }
    let trust = (wire == Wire::Native).then(|| trust(&args)).transpose()?;
    let init = init_path(args.init, wire)?;
    let mut settings = builder(&args, url.clone(), wire)?.init_path(init).client_id(&args.client_id);
    if let Some(trust) = &trust {
        settings = settings.trust(trust.clone());
    }
    if let Some(sec) = args.ttl {
        settings = settings.ttl(Duration::from_secs(sec.into()));
    }
    if let Some(file) = &args.token_file {
        let value = format!("Bearer {}", read_secret(file)?);
        settings = settings.authorization(move || std::future::ready(Ok::<_, Error>(value.clone())));
    }
    if !args.suites.is_empty() {
        settings = settings.suites(args.suites.clone());
    }
    settings = settings.signature_algorithms(args.signature_algorithms.clone());
    if let Some(file) = &args.key_log {
        settings = settings.key_log(file.clone());
    }
    let data = args.data.as_deref().map_or(Ok(Vec::new()), data)?;
    let headers = if wire == Wire::Native { typed(headers, &data) } else { headers };
    let client = settings.connect().await?;
    let session = client.session().await?;
    if let (Some(met), Some(Trust::FirstUse(TrustStore::File(file)))) =
        (session.agreed.as_ref().filter(|_| client.first_use().is_some()), &trust)
    {
        let host = url.authority().map_or("", |authority| authority.as_str());
        tell(format_args!(
            "sealway: {host} was met for the first time; its identity key {} is kept in {} and",
            met.key_id,
            file.display()
        ));
        tell(format_args!("         trusted from now on. Compare it with what the service's operator says."));
    }
    if args.verbose {
        tell(format_args!("session {}, expires in {} s", session.id, session.expires_in_sec));
        if let Some(said) = &session.agreed {
            let whom = [("as", &said.subject), ("of", &said.tenant)].map(|(word, name)| match name {
                Some(name) => format!(" {word} {name}"),
                None => String::new(),
            });
            tell(format_args!("suite {}, identity key {}", said.suite.name(), said.key_id));
            tell(format_args!("recognised by {}{}", said.auth.name(), whom.concat()));
        }
    }
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Body::from(data));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, path.parse()?, headers);
    let (status, timings) = exchange(&args, wire, &client, request).await?;
    if args.verbose {
        let init = if wire == Wire::Native { INIT_PATH } else { init };
        tell(format_args!("{}", summary::lay_out(&[(init, &session.timings), (path, &timings)])));
    }
    // The session would expire by itself; an error here does not matter, as the answer is complete.
    let _ = client.end().await;
    if !status.is_success() {
        bail!("the service answered {status}");
    }
    Ok(())
}

/// Starts the settings of the client, with the bounds of time and of bodies.
fn builder(args: &Call, url: Uri, wire: Wire) -> anyhow::Result<Builder> {
    let (timeout, len_max) = (Duration::from_millis(args.timeout_ms), usize::try_from(DATA_LEN_MAX)?);
    let settings = Client::builder(url).wire(wire).connect_timeout(timeout).head_timeout(timeout);
    // Answers without an end are shown as they come.
    Ok(settings.total_timeout(None).answer_max_bytes(len_max).request_max_bytes(len_max))
}

/// Makes one call in a session.
async fn exchange(
    args: &Call,
    wire: Wire,
    client: &Client,
    request: Request<Body>,
) -> anyhow::Result<(StatusCode, Timings)> {
    let (method, path) = (request.method().clone(), request.uri().to_string());
    show(args, wire == Wire::Native, (&method, &path), client.send(request).await?).await
}

/// Writes each part of an answer as it arrives. `is_framed` is true on wires that seal headers.
async fn show(
    args: &Call,
    is_framed: bool,
    (method, path): (&Method, &str),
    answer: Response<Body>,
) -> anyhow::Result<(StatusCode, Timings)> {
    let (head, mut body) = answer.into_parts();
    let trace = head.extensions.get::<Trace>().context("an exchange without a trace")?;
    if args.verbose {
        tell(format_args!("{}", shown(method, path, head.status, trace)));
        for (name, value) in head.headers.iter().filter(|_| is_framed) {
            tell(format_args!("< sealed: {name}: {}", String::from_utf8_lossy(value.as_bytes())));
        }
    }
    let mut out = Out::open(args.output.as_deref())?;
    while let Some(frame) = body.frame().await {
        if let Ok(part) = frame?.into_data() {
            out.write(&part)?;
        }
    }
    out.finish()?;
    if args.verbose {
        tell(format_args!("> {} sealed bytes\n< {} sealed bytes", trace.sent(), trace.received()));
    }
    Ok((head.status, trace.timings()))
}

/// Destination of the answer: standard output, or a file that gets its name when it is complete.
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
        Ok(out().write_all(part)?)
    }

    fn finish(self) -> anyhow::Result<()> {
        match self.file {
            Some((path, partial, _)) => std::fs::rename(&partial, path)
                .with_context(|| format!("--output: cannot make {} of {}", path.display(), partial.display())),
            None if std::io::stdout().is_terminal() && !self.ends_line => Ok(writeln!(out())?),
            None => Ok(()),
        }
    }
}

fn target(args: &Call, wire: Wire) -> anyhow::Result<(Method, Uri)> {
    let (method, url) = match args.target.as_slice() {
        [method, url] => (method.to_ascii_uppercase(), url),
        [url] if args.data.is_none() && wire == Wire::Native => ("GET".into(), url),
        [url] => ("POST".into(), url),
        _ => bail!("expected METHOD and URL"),
    };
    let method: Method =
        method.parse().with_context(|| format!("METHOD: \"{method}\" is no HTTP method, such as POST"))?;
    if wire != Wire::Native && method != Method::POST {
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
        (_, Wire::Native) if init.is_some() => bail!("--init is of wires 1 and 2: wire 3 has one way"),
        (Family::Session, _) => "/session/init",
        (Family::V1, Wire::V2) => "/v1/session/init",
        (Family::Anon, Wire::V1) => "/session/init/anon",
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
        ("--signature-algorithm", !args.signature_algorithms.is_empty()),
        ("--key-log", args.key_log.is_some()),
    ] {
        if is_given {
            bail!("{flag} is of wire 3");
        }
    }
    Ok(())
}

/// Selects the verification of the service's identity.
fn trust(args: &Call) -> anyhow::Result<Trust> {
    if !args.pins.is_empty() {
        let pins = args.pins.iter().map(|pin| Pin::parse(pin)).collect::<Result<_, _>>();
        return Ok(Trust::Pins(pins.context("--pin")?));
    }
    if let Some(root) = &args.root {
        let key = root_key(root)?;
        let store = state_file("roots").map_or(TrustStore::Memory, TrustStore::File);
        return Ok(Trust::Root { key, store });
    }
    Ok(Trust::FirstUse(TrustStore::File(trust_file(args.trust_file.clone())?)))
}

/// Reads the public key of a root, given in base64 or as a file.
fn root_key(root: &str) -> anyhow::Result<PublicKey> {
    let text = match File::open(root) {
        Ok(file) => {
            let mut text = String::new();
            file.take(ROOT_LEN_MAX).read_to_string(&mut text).with_context(|| format!("--root: cannot read {root}"))?;
            text
        }
        Err(_) => root.to_owned(),
    };
    public_key(text.trim()).context("--root: neither a file that can be read nor a key")
}

/// Returns the trust file: the given one, or the one in the user's state folder.
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

/// Adds the media type of a body that is JSON, if the caller gives none.
fn typed(mut headers: HeaderMap, data: &[u8]) -> HeaderMap {
    if serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok() {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    }
    headers
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

/// Formats the heads of request and answer as they were on the wire.
fn shown(method: &Method, path: &str, status: StatusCode, trace: &Trace) -> String {
    let lines = |mark: &str, headers: &[(String, String)]| {
        headers.iter().map(|(name, value)| format!("{mark} {name}: {value}\n")).collect::<String>()
    };
    let aad = if trace.request_aad.is_empty() { String::new() } else { format!("> AAD {}\n", trace.request_aad) };
    let text = format!(
        "> {method} {path}\n{}{aad}< {status}\n{}",
        lines(">", &trace.request_headers),
        lines("<", &trace.response_headers),
    );
    text.trim_end().to_owned()
}
