//! `sealway call`: a sealed request from the command line.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use http::Uri;
use sealway_client::session::Seen;
use sealway_client::{Client, Options};
use sealway_proto::wire::Wire;
use sealway_runtime::config::read_secret;

use crate::args::{Call, Family};
use crate::summary;

/// Largest body read from a file or standard input.
const DATA_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Prints the opened answer on standard output, and what was asked for beside it on standard error.
pub(crate) async fn run(args: Call) -> anyhow::Result<()> {
    if !args.method.eq_ignore_ascii_case("post") {
        bail!("METHOD: wires 1 and 2 seal POST alone, not {}", args.method);
    }
    let url: Uri = args.url.parse().with_context(|| format!("URL: \"{}\" is none", args.url))?;
    let init_path = match (args.init, args.wire) {
        (Family::Session, _) => "/session/init",
        (Family::V1, Wire::Two) => "/v1/session/init",
        (Family::Anon, Wire::One) => "/session/init/anon",
        (Family::V1, Wire::One) => bail!("--init v1: wire 2 alone has it"),
        (Family::Anon, Wire::Two) => bail!("--init anon: wire 1 alone has it"),
    };
    let options = Options {
        wire: args.wire,
        init_path: init_path.into(),
        client_id: args.client_id,
        ttl_sec: args.ttl,
        token: args.token_file.as_deref().map(read_secret).transpose()?,
        timeout: Duration::from_millis(args.timeout_ms),
    };
    let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let data = data(&args.data)?;
    let client = Client::new(url, options)?;
    let (session, expires_in_sec, init) = client.connect().await?;
    if args.verbose {
        eprintln!("session {session}, expires in {expires_in_sec} s");
    }
    let answer = client.post(&path, &data).await?;
    if args.verbose {
        eprintln!("{}", exchange(&path, answer.status, &answer.seen));
        eprintln!("{}", summary::lay_out(&[(init_path, &init), (&path, &answer.timings)]));
    }
    let mut out = std::io::stdout().lock();
    out.write_all(&answer.body)?;
    if std::io::IsTerminal::is_terminal(&out) && !answer.body.ends_with(b"\n") {
        writeln!(out)?;
    }
    if !answer.status.is_success() {
        bail!("the service answered {}", answer.status);
    }
    Ok(())
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
            let mut file = std::fs::File::open(path).with_context(|| format!("--data: cannot open {path}"))?;
            read(&mut file, path)
        }
    }
}

/// Request and answer as they went over the wire.
fn exchange(path: &str, status: http::StatusCode, seen: &Seen) -> String {
    let lines = |mark: &str, headers: &[(String, String)]| {
        headers.iter().map(|(name, value)| format!("{mark} {name}: {value}\n")).collect::<String>()
    };
    format!(
        "> POST {path}\n{}> AAD {}\n> {} sealed bytes\n< {status}\n{}< {} sealed bytes",
        lines(">", &seen.request_headers),
        seen.request_aad,
        seen.request_len,
        lines("<", &seen.answer_headers),
        seen.answer_len,
    )
}
