//! `sealway demo`: authority, gateway, demo service and a client through them, told step by step.

use anyhow::{Context, anyhow, bail};
use sealway_client::sealed::{INIT_PATH, Pin, Trust};
use sealway_client::{Client, Error, Options};
use sealway_proto::session::three::KeyId;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::telemetry;

use crate::output::out;
use crate::serve::{Running, never_reread};
use crate::{args, config, summary};

const PATH: &str = "/transaction/purchase";
const PURCHASE: &str = r#"{"schemeCode":"AEF","amount":5000}"#;

/// Shows it; then, unless told otherwise, serves until a signal.
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

/// Tells of what is served, and waits for a signal unless it is to be told once. Where nobody listens any more it is over.
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
    writeln!(out(), "Stopping.")
}

async fn show(base: &str, key_id: KeyId) -> anyhow::Result<()> {
    let options = |pin| Options {
        client_id: "sealway-demo".into(),
        trust: Trust::Keys(vec![Pin::Id(pin)]),
        ..Options::default()
    };
    let client = Client::new(base.parse()?, options(key_id))?;
    let (session, expires_in_sec, init) = client.connect().await?;
    let said = client.recognised().await?.context("no session of wire 3")?;
    writeln!(out(), "2. The client, which pins the identity key {key_id}, agreed a session with it on wire 3:")?;
    writeln!(out(), "   {session}, for {expires_in_sec} s, by {}.", said.suite.name())?;
    writeln!(out(), "   The service signed both halves of the agreement; the key itself did not cross the wire.")?;

    let answer = client.post(PATH, PURCHASE.as_bytes()).await?;
    writeln!(out(), "3. It sealed a purchase, and its headers with it: {PURCHASE}")?;
    writeln!(out(), "   On the wire: {} bytes of AES-256-GCM.", answer.seen.request_len)?;
    writeln!(
        out(),
        "4. The gateway opened it and asked the service, which knows nothing of sealing; its answer was sealed."
    )?;
    writeln!(out(), "5. The client opened the answer:\n   {}", String::from_utf8_lossy(&answer.body))?;
    if !answer.status.is_success() {
        bail!("the demo service answered {}", answer.status);
    }

    let captured = client.seal_only(PATH, PURCHASE.as_bytes()).await?;
    let (first, _) = client.send_captured(PATH, &captured).await?;
    let (second, refusal) = client.send_captured(PATH, &captured).await?;
    writeln!(
        out(),
        "6. Somebody captured a sealed purchase and sent it again: the first was answered {}, the copy",
        first.as_u16()
    )?;
    writeln!(out(), "   {} {}", second.as_u16(), String::from_utf8_lossy(&refusal))?;
    if !first.is_success() || second.as_u16() != 409 {
        bail!("the replay was not refused as it must be");
    }
    show_another(base, key_id, options).await?;
    writeln!(out(), "\nSuccess: sealed, opened, served, sealed again, and not to be replayed.\n")?;
    let purchase = format!("POST {PATH}");
    writeln!(out(), "{}", summary::lay_out(&[(&format!("POST {INIT_PATH}"), &init), (&purchase, &answer.timings)]))?;
    Ok(())
}

/// A client that pins another key stands to this service as one that pins this key stands to somebody in the middle.
async fn show_another(base: &str, key_id: KeyId, options: impl Fn(KeyId) -> Options) -> anyhow::Result<()> {
    let digits = key_id.as_str();
    let other = if digits.starts_with('0') { digits.replacen('0', "1", 1) } else { format!("0{}", &digits[1..]) };
    let other = KeyId::parse(&other).map_err(|err| anyhow!(err))?;
    match Client::new(base.parse()?, options(other))?.connect().await {
        Err(Error::KeyUntrusted { .. } | Error::KeyRetired { .. }) => {
            writeln!(
                out(),
                "7. A client that pins another identity key refused to agree a session: so does one whose service"
            )?;
            writeln!(out(), "   somebody else pretends to be.")?;
            Ok(())
        }
        Err(err) => Err(err.into()),
        Ok(_) => bail!("a key that is not pinned was trusted"),
    }
}
