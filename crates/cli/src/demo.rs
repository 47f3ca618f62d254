//! `sealway demo`: authority, gateway, demo service and a client, explained step by step.

use anyhow::{Context, anyhow, bail};
use http::Request;
use sealway_client::native::INIT_PATH;
use sealway_client::{Body, Builder, Client, Pin, Trace, Trust};
use sealway_proto::session::native::KeyId;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::telemetry;

use crate::serve::{Running, never_reread};
use crate::{args, config, summary};
use sealway_runtime::output::out;

const PATH: &str = "/transaction/purchase";
const PURCHASE: &str = r#"{"schemeCode":"AEF","amount":5000}"#;

/// Runs the demonstration; then serves until a signal, unless `--once` is given.
pub(crate) async fn run(args: args::Demo) -> anyhow::Result<()> {
    let temporary = match &args.data {
        None => Some(tempfile::Builder::new().prefix("sealway-demo-").tempdir().context("no temporary folder")?),
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            None
        }
    };
    let folder = temporary.as_ref().map(|temporary| temporary.path()).or(args.data.as_deref());
    let config = config::demo(args.port, folder.context("no folder")?)?;
    let _telemetry = telemetry::init(&config.telemetry, "sealway-demo").map_err(|err| anyhow!(err))?;
    let mut signals = StopSignals::install()?;
    let running = Running::start(&config, never_reread()).await?;
    let shown = tell_of(&running, args.once, &mut signals).await;
    running.stop().await;
    shown
}

/// Prints the demonstration, and waits for a signal unless it runs once. It ends when standard output has no reader.
async fn tell_of(running: &Running, is_once: bool, signals: &mut StopSignals) -> anyhow::Result<()> {
    let port = running.server.addresses().first().context("no address")?.port();
    let base = format!("http://localhost:{port}");
    writeln!(out(), "Sealway demo: a purchase, sealed from the client to the service's own door\n")?;
    writeln!(out(), "1. One process serves the session authority, the gateway and a demo service on {base}")?;
    writeln!(out(), "   (embedded store, session keys wrapped at rest).")?;
    let identity = running.authority.identity().context("no identity key")?;
    let key_id = *identity.live_at(SystemClock.now_ms()).first().context("no live identity key")?;
    show(&base, key_id).await?;
    if is_once {
        return Ok(());
    }
    writeln!(out(), "Serving on {base} until Ctrl-C. From another terminal:\n")?;
    writeln!(out(), "  sealway call POST {base}{PATH} --pin {key_id} --data '{PURCHASE}' -v\n")?;
    writeln!(out(), "In a browser, which agrees a session of its own and seals there:\n\n  {base}/#pin={key_id}\n")?;
    signals.stopped().await;
    writeln!(out(), "Stopping.")?;
    Ok(())
}

fn settings(base: &str, pin: KeyId) -> Builder {
    Client::builder(base).client_id("sealway-demo").trust(Trust::Pins(vec![Pin::Id(pin)]))
}

async fn show(base: &str, key_id: KeyId) -> anyhow::Result<()> {
    let client = settings(base, key_id).connect().await?;
    let session = client.session().await?;
    let said = session.agreed.as_ref().context("no session of wire 3")?;
    writeln!(out(), "2. The client, which pins the identity key {key_id}, agreed a session with it on wire 3:")?;
    writeln!(out(), "   {}, for {} s, by {}.", session.id, session.expires_in_sec, said.suite.name())?;
    writeln!(out(), "   The service signed both halves of the agreement; the key itself did not cross the wire.")?;

    let purchase = || Request::post(PATH).body(Body::from(PURCHASE));
    let (head, body) = client.send(purchase()?).await?.into_parts();
    let trace = head.extensions.get::<Trace>().context("an exchange without a trace")?;
    let body = body.bytes().await?;
    writeln!(out(), "3. It sealed a purchase, and its headers with it: {PURCHASE}")?;
    writeln!(out(), "   On the wire: {} bytes of AES-256-GCM.", trace.sent())?;
    writeln!(
        out(),
        "4. The gateway opened it and asked the service, which knows nothing of sealing; its answer was sealed."
    )?;
    writeln!(out(), "5. The client opened the answer:\n   {}", String::from_utf8_lossy(&body))?;
    if !head.status.is_success() {
        bail!("the demo service answered {}", head.status);
    }

    let captured = client.seal(purchase()?).await?;
    let first = client.send_sealed(captured.clone()).await?.status();
    let second = client.send_sealed(captured).await?;
    writeln!(
        out(),
        "6. A sealed purchase was captured and sent again: the first was answered {}, the copy",
        first.as_u16()
    )?;
    writeln!(out(), "   {} {}", second.status().as_u16(), String::from_utf8_lossy(second.body()))?;
    if !first.is_success() || second.status().as_u16() != 409 {
        bail!("the replay was not refused as it must be");
    }
    show_another(base, key_id).await?;
    writeln!(out(), "\nSuccess: sealed, opened, served, sealed again, and not to be replayed.\n")?;
    let purchase = format!("POST {PATH}");
    writeln!(
        out(),
        "{}",
        summary::lay_out(&[(&format!("POST {INIT_PATH}"), &session.timings), (&purchase, &trace.timings())])
    )?;
    Ok(())
}

/// Shows a rejected service: a client that pins another key sees this service as an impostor.
async fn show_another(base: &str, key_id: KeyId) -> anyhow::Result<()> {
    let digits = key_id.as_str();
    let other = if digits.starts_with('0') { digits.replacen('0', "1", 1) } else { format!("0{}", &digits[1..]) };
    let other = KeyId::parse(&other).map_err(|err| anyhow!(err))?;
    match settings(base, other).connect().await {
        Err(err) if ["key_untrusted", "key_retired"].contains(&err.code()) => {
            writeln!(out(), "7. A client that pins another identity key refused to agree a session: it takes")?;
            writeln!(out(), "   this service for an impostor.")?;
            Ok(())
        }
        Err(err) => Err(err.into()),
        Ok(_) => bail!("a key that is not pinned was trusted"),
    }
}
