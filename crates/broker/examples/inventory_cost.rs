//! Makes calls to a broker within the process, with or without the inventory: the same work twice, so that a counter of
//! instructions such as callgrind gives what counting costs.
//!
//! `inventory_cost counted 10000` or `inventory_cost uncounted 10000`. The call is a digest of 64 bytes, the shortest one.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use prost::Message;
use sealway_broker::callers::{Callers, Peer};
use sealway_broker::profile::{Leniency, Live};
use sealway_broker::service::{Service, Turns};
use sealway_broker::wire::{Options, Wires};
use sealway_proto::broker::v1::HashRequest;
use sealway_runtime::clock::SystemClock;
use sealway_runtime::inventory;

const PROFILES: &str = "- {Name: P, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha-256}}}\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("counted") => drop(inventory::install()),
        Some("uncounted") => {}
        _ => return Err("expected counted or uncounted, and a number of calls".into()),
    }
    let calls: u64 = arguments.next().unwrap_or_default().parse()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("Profiles.yaml");
    std::fs::write(&file, PROFILES)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
    let profiles = Live::load(file, Leniency::Strict).map_err(|problems| format!("{problems:?}"))?;
    let service = Service {
        profiles: Arc::new(profiles),
        callers: None,
        audit: None,
        keys: None,
        clock: Arc::new(SystemClock),
        owner: Callers::only(1000),
        is_fips: false,
        turns: Turns::default(),
    };
    let options = Options { has_earlier_wires: false, dev: None, calls_memory: Options::CALLS_MEMORY };
    let wires = Arc::new(Wires::new(Arc::new(service), options));
    let message = HashRequest { profile: "P".into(), inputs: vec![vec![7; 64]] }.encode_to_vec();
    let frame = [&[0][..], &u32::try_from(message.len())?.to_be_bytes(), &message].concat();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for _ in 0..calls {
            let request =
                http::Request::post("/sealway.broker.v1.Broker/Hash").header("content-type", "application/grpc");
            let request = request.body(Full::new(Bytes::from(frame.clone())))?;
            let peer = Peer { uid: 1000, gid: 1000, ..Peer::default() };
            let Ok(answer) = wires.clone().answer(request, peer).await;
            if answer.headers().contains_key("grpc-status") && answer.headers()["grpc-status"] != "0" {
                return Err(format!("{:?}", answer.headers()).into());
            }
        }
        Ok(())
    })
}
