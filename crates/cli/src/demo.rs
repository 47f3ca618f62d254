//! `sealway demo`: authority, gateway, demo service and a client through them, told step by step.

use anyhow::{Context, anyhow, bail};
use sealway_client::{Client, Options};
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::telemetry;

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
    let port = running.server.addresses().first().context("no address")?.port();
    let base = format!("http://localhost:{port}");

    println!("Sealway demo: a purchase, sealed from the client to the service's own door\n");
    println!("1. One process serves the session authority, the gateway and a demo service on {base}");
    println!("   (embedded store, session keys wrapped at rest).");
    show(&base).await?;
    if args.once {
        running.stop().await;
        return Ok(());
    }
    println!("Serving on {base} until Ctrl-C. From another terminal:\n");
    println!("  sealway call POST {base}{PATH} --data '{PURCHASE}' -v\n");
    signals.stopped().await;
    println!("Stopping.");
    running.stop().await;
    Ok(())
}

async fn show(base: &str) -> anyhow::Result<()> {
    let client = Client::new(base.parse()?, Options { client_id: "sealway-demo".into(), ..Options::default() })?;
    let (session, expires_in_sec, init) = client.connect().await?;
    println!("2. The client agreed a key with it: session {session}, for {expires_in_sec} s.");
    println!("   Two public keys crossed the wire; the key itself did not.");

    let answer = client.post(PATH, PURCHASE.as_bytes()).await?;
    println!("3. It sealed a purchase: {PURCHASE}");
    println!("   On the wire: {} bytes of AES-256-GCM.", answer.seen.request_len);
    println!("4. The gateway opened it and asked the service, which knows nothing of sealing; its answer was sealed.");
    println!("5. The client opened the answer:\n   {}", String::from_utf8_lossy(&answer.body));
    if !answer.status.is_success() {
        bail!("the demo service answered {}", answer.status);
    }

    let captured = client.seal_only(PATH, PURCHASE.as_bytes()).await?;
    let (first, _) = client.send_captured(PATH, &captured).await?;
    let (second, refusal) = client.send_captured(PATH, &captured).await?;
    println!(
        "6. Somebody captured a sealed purchase and sent it again: the first was answered {}, the copy",
        first.as_u16()
    );
    println!("   {} {}", second.as_u16(), String::from_utf8_lossy(&refusal));
    if !first.is_success() || second.as_u16() != 400 {
        bail!("the replay was not refused as it must be");
    }
    println!("\nSuccess: sealed, opened, served, sealed again, and not to be replayed.\n");
    println!("{}", summary::lay_out(&[("POST /session/init", &init), ("POST /transaction/purchase", &answer.timings)]));
    Ok(())
}
