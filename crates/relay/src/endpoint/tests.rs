use std::io::Write;
use std::time::Duration;

use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{IssuerKey, Profile, Role};
use sealway_runtime::clock::SystemClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::channel::{ChannelKey, Tenant};
use crate::keyset::Keys;
use crate::settings::Settings;
use crate::tick;

fn relay() -> Arc<Relay> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, IssuerKey::from_seed("k1", &[1; 32], default_signatures()).unwrap().keyset_text()).unwrap();
    let mut settings = Settings::new(Vec::new(), &file);
    settings.limits.tick = Duration::from_millis(10);
    settings.limits.keepalive = Duration::from_millis(100);
    settings.limits.linger = Duration::from_millis(100);
    Arc::new(Relay::new(settings, Keys::open(file, crate::keyset::Tenancy::One).unwrap(), None, Arc::new(SystemClock)))
}

async fn joined() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

#[tokio::test]
async fn a_bridged_endpoint_that_takes_nothing_is_not_kept_for_ever() {
    let (relay, shutdown) = (relay(), Shutdown::new());
    tokio::spawn(tick::run(relay.clone(), shutdown.clone()));
    let (_client, of_client) = joined().await;
    let (of_node, mut node) = joined().await;
    let (reader, writer) = of_client.into_split();
    let input = Input::attached(relay.settings.limits.message_bytes_max);
    let mut endpoint = Endpoint::new(&relay, Reader::Tcp(reader), Writer::Tcp(writer), None, input);
    endpoint.phase = Phase::Asking(Box::pin(std::future::ready(Ok(Admission::There(Box::new(of_node))))));
    endpoint.run(&shutdown);
    // The node keeps sending; the client neither reads nor closes.
    let sending = tokio::spawn(async move { while node.write_all(&[0x82, 2, 0, 0]).await.is_ok() {} });
    let gone = async {
        while relay.conns.len() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("it is cut off once nothing moves");
    sending.abort();
}

/// Attaches an endpoint to the one channel of these tests.
fn placed(relay: &Arc<Relay>, stream: TcpStream, role: Role) -> Endpoint {
    let (reader, writer) = stream.into_split();
    let input = Input::attached(relay.settings.limits.message_bytes_max);
    let mut endpoint = Endpoint::new(relay, Reader::Tcp(reader), Writer::Tcp(writer), None, input);
    endpoint.take_place(&AttachRequest {
        key: ChannelKey { tenant: Tenant([0; 8]), id: "a channel".into() },
        role,
        init_exp_s: i64::MAX,
        idle_s: None,
        eid: "an instance".into(),
        profile: Profile::V1,
    });
    endpoint
}

#[tokio::test]
async fn messages_sent_before_an_endpoint_closed_still_arrive() {
    let (relay, shutdown) = (relay(), Shutdown::new());
    let (goes, of_goes) = joined().await;
    let (mut stays, of_stays) = joined().await;
    let (going, staying) = (placed(&relay, of_goes, Role::Client), placed(&relay, of_stays, Role::Server));
    let taking = going.conn.clone();
    // Nothing here waits, so no task of the relay runs before the connection fails.
    let mut goes = goes.into_std().unwrap();
    goes.write_all(&[&[0x82, 0x84, 0, 0, 0, 0][..], b"last", &[0x88, 0x80, 0, 0, 0, 0]].concat()).unwrap();
    drop(goes);
    let is_broken = || taking.send(&mut [IoSlice::new(&[0x82, 0])], relay.now_ms()).is_err();
    assert!((0..1000).any(|_| is_broken()), "what is written to it is refused");
    going.run(&shutdown);
    staying.run(&shutdown);
    let mut said = [0; 6];
    let heard = tokio::time::timeout(Duration::from_secs(60), stays.read_exact(&mut said)).await;
    heard.expect("an answer in time").unwrap();
    assert_eq!(&said, b"\x82\x04last");
}
