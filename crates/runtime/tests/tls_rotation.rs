//! Rotation and revocation in a folder of certificates while a listener serves from it.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sealway_runtime::certs::{self, Leaf, Making};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::tls::{Client, ClientAuth, ClientFiles, Secret, Server, ServerFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn now() -> u64 {
    SystemClock.now_ms()
}

fn make(folder: &Path) {
    let making = Making {
        names: vec![],
        client_name: "a client".into(),
        days: 30,
        password: Secret::from("changeit".to_owned()),
        force: false,
    };
    certs::make(folder, &making, now()).unwrap();
}

fn listener(folder: &Path, is_pfx: bool) -> Server {
    let cert = folder.join(if is_pfx { Leaf::Server.pfx() } else { Leaf::Server.cert() });
    let files = ServerFiles {
        cert,
        key: (!is_pfx).then(|| folder.join(Leaf::Server.key())),
        password: Some(Secret::from("changeit".to_owned())),
        client_ca: vec![folder.join(certs::CA_CERT)],
        client_auth: ClientAuth::Required,
        crl: vec![folder.join(certs::CA_CRL)],
        ..ServerFiles::default()
    };
    Server::load(files, Arc::new(SystemClock)).unwrap()
}

/// Returns a client that trusts the authorities in `ca`, with the certificate in the folder.
fn client(folder: &Path, ca: &Path) -> Client {
    let files = ClientFiles {
        ca: Some(ca.to_owned()),
        cert: Some(folder.join(Leaf::Client.cert())),
        key: Some(folder.join(Leaf::Client.key())),
        ..ClientFiles::default()
    };
    Client::load(files, Arc::new(SystemClock)).unwrap()
}

async fn meet(server: &Server, client: &Client) -> Result<(), String> {
    let (here, there) = tokio::io::duplex(256 * 1024);
    let asking = async {
        let connector = tokio_rustls::TlsConnector::from(client.config(false));
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, here).await.map_err(|err| err.to_string())?;
        let mut answer = [0];
        stream.read_exact(&mut answer).await.map(drop).map_err(|err| err.to_string())
    };
    let answering = async {
        let (mut stream, _) = server.accept(there, None).await.map_err(|err| err.to_string())?;
        stream.write_all(b"a").await.map_err(|err| err.to_string())?;
        stream.shutdown().await.map_err(|err| err.to_string())
    };
    let (asked, answered) = tokio::join!(asking, answering);
    asked.map_err(|err| format!("client: {err}")).and(answered.map_err(|err| format!("server: {err}")))
}

#[tokio::test]
async fn nobody_is_refused_while_the_authority_is_replaced() {
    let ground = tempfile::tempdir().unwrap();
    let (folder, old) = (ground.path().join("certs"), ground.path().join("old.pem"));
    make(&folder);
    std::fs::copy(folder.join(certs::CA_CERT), &old).unwrap();
    let (pem, pfx) = (listener(&folder, false), listener(&folder, true));
    // Created before the rotation, and never reloaded: its certificate and its trust are the old ones.
    let staying = client(&folder, &old);
    let everybody = async |who: &Client| {
        for server in [&pem, &pfx] {
            meet(server, who).await?;
        }
        Ok::<(), String>(())
    };
    everybody(&staying).await.unwrap();
    certs::rotate_leaf(&folder, &Leaf::ALL, None, now()).unwrap();
    assert!(pem.reload().unwrap() && pfx.reload().unwrap());
    everybody(&staying).await.unwrap();
    certs::rotate_authority(&folder, None, now()).unwrap();
    // The new client's certificate leads to the old authority too, for listeners that have not reloaded yet.
    everybody(&client(&folder, &old)).await.unwrap();
    assert!(pem.reload().unwrap() && pfx.reload().unwrap());
    everybody(&staying).await.unwrap();
    everybody(&client(&folder, &old)).await.unwrap();
    everybody(&client(&folder, &folder.join(certs::CA_CERT))).await.unwrap();

    certs::finish_authority(&folder, None, now()).unwrap();
    assert!(pem.reload().unwrap() && pfx.reload().unwrap());
    everybody(&client(&folder, &folder.join(certs::CA_CERT))).await.unwrap();
    assert!(everybody(&client(&folder, &old)).await.unwrap_err().contains("UnknownIssuer"));
    let stale = client(&folder, &folder.join(certs::CA_CERT));
    certs::revoke(&folder, folder.join(Leaf::Client.cert()).to_str().unwrap(), now()).unwrap();
    assert!(pem.reload().unwrap() && pfx.reload().unwrap());
    assert!(everybody(&stale).await.unwrap_err().contains("CertificateRevoked"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reload_fails_and_no_handshake_is_lost_while_leaves_are_rotated() {
    const TURNS: usize = 30;
    let ground = tempfile::tempdir().unwrap();
    let folder = ground.path().join("certs");
    make(&folder);
    // Only the rotation of PEM is of interest, and PKCS#12 files are slow.
    std::fs::remove_file(folder.join(Leaf::Server.pfx())).unwrap();
    std::fs::remove_file(folder.join(certs::ENV)).unwrap();
    let server = Arc::new(listener(&folder, false));
    let who = client(&folder, &folder.join(certs::CA_CERT));
    let is_over = Arc::new(AtomicBool::new(false));
    let watching = std::thread::spawn({
        let (server, is_over) = (Arc::clone(&server), Arc::clone(&is_over));
        move || {
            let mut loads = 0;
            while !is_over.load(Ordering::Relaxed) {
                if server.files_changed() {
                    loads += u32::from(server.reload().expect("a reload failed"));
                }
            }
            loads
        }
    });
    let rotating = std::thread::spawn({
        let folder = folder.clone();
        move || {
            for _ in 0..TURNS {
                certs::rotate_leaf(&folder, &[Leaf::Server], None, now()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    });
    let mut met = 0;
    while !rotating.is_finished() || met < TURNS {
        meet(&server, &who).await.unwrap();
        met += 1;
    }
    rotating.join().unwrap();
    is_over.store(true, Ordering::Relaxed);
    assert!(watching.join().unwrap() > 1);
    let _ = server.reload().unwrap();
    let serial = &certs::show(&folder).unwrap()[1].serial;
    assert_eq!(&server.certificates()[0].serial, serial, "the last one is in force");
}
