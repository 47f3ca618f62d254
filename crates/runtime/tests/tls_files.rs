//! The formats of TLS material, and the effects of changed or damaged files.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod pki;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pki::{Authority, DAY, Ground, IssuedCertificate, NOW, client, meet, server};
use rustls::HandshakeKind;
use sealway_runtime::tls::{Client, ClientFiles, Secret, Server, ServerFiles};

fn refused(ground: &Ground, files: ServerFiles) -> String {
    Server::load(files, ground.clock.clone()).expect_err("it loads").to_string()
}

fn openssl(arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).output().expect("install the package openssl");
    assert!(done.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Creates a PKCS#12 file of the server's, with its authority in it.
fn pfx(ground: &Ground, name: &str, more: &[&str]) -> std::path::PathBuf {
    let out = ground.path(name);
    let (key, cert, ca) = (ground.path("server.key"), ground.path("server.pem"), ground.path("ca.pem"));
    let mut arguments = vec!["pkcs12", "-export", "-out", path(&out), "-inkey", path(&key), "-in", path(&cert)];
    arguments.extend(["-certfile", path(&ca), "-passout", "pass:changeit"]);
    arguments.extend(more);
    openssl(&arguments);
    out
}

#[tokio::test]
async fn pkcs12_serves_as_pem_does() {
    let ground = Ground::new();
    ground.write("password", "changeit\n");
    let old = ["-legacy", "-certpbe", "PBE-SHA1-3DES", "-keypbe", "PBE-SHA1-3DES", "-macalg", "sha1"];
    for cert in [pfx(&ground, "server.pfx", &[]), pfx(&ground, "old.pfx", &old)] {
        let files = ServerFiles { cert, password_file: Some(ground.path("password")), ..ServerFiles::default() };
        let listener = ground.load(files.clone());
        assert!(meet(&listener, &ground.client(None)).await.client.is_ok());
        let roles: Vec<_> = listener.certificates().iter().map(|status| status.role).collect();
        assert_eq!(roles, ["server"], "the authority is not sent along");
        let given = Some(Secret::from("changeit".to_owned()));
        ground.load(ServerFiles { password_file: None, password: given, ..files.clone() });

        let wrong = Some(Secret::from("not this".to_owned()));
        let err = refused(&ground, ServerFiles { password_file: None, password: wrong, ..files.clone() });
        assert!(err.starts_with("cert: ") && err.contains("does not open with this password"), "{err}");
        let err = refused(&ground, ServerFiles { key: Some(ground.path("server.key")), ..files });
        assert!(err.starts_with("key: ") && err.contains("holds its own key"), "{err}");
    }
}

#[tokio::test]
async fn keys_come_in_three_forms_and_in_the_chains_own_file() {
    let ground = Ground::new();
    let (key, sec1, rsa, rsa_cert) =
        (ground.path("server.key"), ground.path("sec1.key"), ground.path("rsa.key"), ground.path("rsa.pem"));
    openssl(&["ec", "-in", path(&key), "-out", path(&sec1)]);
    assert!(pki::text(&sec1).contains("BEGIN EC PRIVATE KEY"));
    ground.load(ServerFiles { key: Some(sec1), ..ground.plain() });

    let both = pki::text(&ground.path("server.pem")) + &pki::text(&key);
    let both = ground.write("both.pem", both);
    ground.load(ServerFiles { cert: both, key: None, ..ground.plain() });

    openssl(&["genrsa", "-traditional", "-out", path(&rsa), "2048"]);
    assert!(pki::text(&rsa).contains("BEGIN RSA PRIVATE KEY"));
    openssl(&["req", "-x509", "-key", path(&rsa), "-subj", "/CN=rsa", "-days", "2", "-out", path(&rsa_cert)]);
    ground.load(ServerFiles { cert: rsa_cert, key: Some(rsa), ..ground.plain() });
}

#[test]
fn an_unusable_file_is_named_with_its_field() {
    let ground = Ground::new();
    let text = |name: &str| pki::text(&ground.path(name));
    let other = ground.ca.issue(server("another"));
    ground.put("other", &other);
    let encrypted = ground.path("encrypted.key");
    let key = ground.path("server.key");
    openssl(&["pkcs8", "-topk8", "-in", path(&key), "-out", path(&encrypted), "-passout", "pass:x"]);
    let words = ground.write("words", "these are words\n");
    let empty = ground.write("empty", "");
    let damaged = ground.write("damaged.pem", text("server.pem").replacen("MII", "MIIX", 1));
    let cut = ground.write("cut.pem", &text("server.pem")[..200]);
    let two = ground.write("two.key", text("server.key") + &text("other.key"));
    let in_der = ground.write("server.der", ground.ca.0.der());
    let (plain, mutual) = (|| ground.plain(), || ground.mutual());
    let cases = [
        (ServerFiles { cert: ground.path("none"), ..plain() }, "cert: ", "cannot be read"),
        (ServerFiles { cert: empty.clone(), ..plain() }, "cert: ", "is empty"),
        (ServerFiles { cert: words.clone(), key: None, ..plain() }, "cert: ", "neither PEM nor PKCS#12"),
        (ServerFiles { cert: ground.path("server.key"), ..plain() }, "cert: ", "no BEGIN CERTIFICATE"),
        (ServerFiles { cert: damaged, ..plain() }, "cert: ", ""),
        (ServerFiles { cert: cut, ..plain() }, "cert: ", "not proper PEM"),
        (ServerFiles { cert: in_der, key: None, ..plain() }, "cert: ", "in DER"),
        (ServerFiles { key: None, ..plain() }, "cert: ", "name the key's own file"),
        (
            ServerFiles { key: Some(ground.path("other.key")), ..plain() },
            "key: ",
            "not the key of the first certificate",
        ),
        (ServerFiles { key: Some(words.clone()), ..plain() }, "key: ", "holds no private key in PEM"),
        (ServerFiles { key: Some(encrypted), ..plain() }, "key: ", "encrypted"),
        (ServerFiles { key: Some(two), ..plain() }, "key: ", "more than one"),
        (ServerFiles { ocsp: Some(words.clone()), ..plain() }, "ocsp: ", "no OCSP answer"),
        (ServerFiles { client_ca: vec![], ..mutual() }, "client_ca: ", "of no authority"),
        (ServerFiles { client_ca: vec![empty], ..mutual() }, "client_ca: ", "is empty"),
        (ServerFiles { client_ca: vec![words.clone()], ..mutual() }, "client_ca: ", "no BEGIN CERTIFICATE"),
        (ServerFiles { crl: vec![words], ..mutual() }, "crl: ", "no list of revoked"),
        (ServerFiles { crl: vec![ground.path("ca.pem")], ..mutual() }, "crl: ", "no BEGIN X509 CRL"),
    ];
    let secret = text("server.key").lines().nth(1).unwrap().to_owned();
    for (files, field, message) in cases {
        let err = refused(&ground, files);
        assert!(err.starts_with(field) && err.contains(message), "{field}{message}: {err}");
        assert!(!err.contains(&secret), "{err}");
    }
}

#[tokio::test]
async fn a_broken_file_keeps_the_old_certificate_until_it_is_repaired() {
    let ground = Ground::new();
    let listener = ground.load(ground.mutual());
    let config = ground.client(Some(&ground.ca.issue(client("c"))));
    let before = listener.certificates();
    assert!(!listener.reload().unwrap(), "nothing has changed");

    ground.write("server.pem", "-----BEGIN CERTIFICATE-----\nno\n");
    assert!(listener.files_changed());
    assert!(listener.reload().is_err());
    assert!(!listener.files_changed(), "it has been looked at");
    assert_eq!(listener.certificates(), before);
    assert!(meet(&listener, &config).await.client.is_ok());
    std::fs::remove_file(ground.path("server.pem")).unwrap();
    assert!(listener.files_changed());
    assert!(listener.reload().is_err());
    assert!(meet(&listener, &config).await.client.is_ok());

    let renewed = ground.ca.issue(pki::Wish { serial: 0xabc, ..server("a server") });
    ground.put("server", &renewed);
    assert!(listener.files_changed());
    assert!(listener.reload().unwrap());
    assert_eq!(listener.certificates()[0].serial, "0ABC");
    assert_eq!(
        meet(&listener, &config).await.client,
        Ok(HandshakeKind::Resumed),
        "a renewed server certificate does not end the tickets"
    );
    let full = ground.client(Some(&ground.ca.issue(client("c"))));
    assert_eq!(meet(&listener, &full).await.client, Ok(HandshakeKind::Full));
}

#[test]
fn a_key_that_arrives_a_moment_before_its_certificate_is_waited_for() {
    let ground = Ground::new();
    let listener = ground.load(ground.plain());
    let renewed = ground.ca.issue(pki::Wish { serial: 0xabc, ..server("a server") });
    ground.write("server.key", renewed.key.serialize_pem());
    std::thread::scope(|scope| {
        let reloading = scope.spawn(|| listener.reload());
        std::thread::sleep(std::time::Duration::from_millis(50));
        ground.write("server.pem", renewed.cert.pem());
        assert!(reloading.join().unwrap().unwrap());
    });
    assert_eq!(listener.certificates()[0].serial, "0ABC");
}

#[test]
fn an_expired_certificate_is_loaded_with_a_warning() {
    let ground = Ground::new();
    ground.put("server", &ground.ca.issue(pki::Wish { until: NOW - DAY, ..server("a server") }));
    let listener = ground.load(ground.mutual());
    let status = &listener.certificates()[0];
    assert_eq!(status.days_left(NOW * 1000), -1);
    assert_eq!(status.names, ["localhost"]);
    let authority = listener.certificates().into_iter().find(|status| status.role == "client_ca").unwrap();
    assert_eq!(authority.days_left(NOW * 1000), 3650);
}

#[test]
fn debug_shows_neither_key_nor_password() {
    let ground = Ground::new();
    let files = ServerFiles { password: Some(Secret::from("hunter2".to_owned())), ..ground.mutual() };
    let shown = format!("{files:?} {:?}", ground.load(files.clone()));
    assert!(!shown.contains("hunter2") && !shown.contains("PRIVATE"), "{shown}");
}

#[tokio::test]
async fn both_protocols_and_post_quantum_keys_are_offered() {
    let ground = Ground::new();
    let listener = ground.load(ground.plain());
    for (offered, agreed) in
        [(vec!["h2", "http/1.1"], Some("h2")), (vec!["http/1.1"], Some("http/1.1")), (vec![], None)]
    {
        let mut config = (*ground.client(None)).clone();
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let met = meet(&listener, &Arc::new(config)).await;
        assert_eq!(met.alpn.as_deref(), agreed.map(str::as_bytes));
    }
    let (here, there) = tokio::io::duplex(65_536);
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let connecting = tokio_rustls::TlsConnector::from(ground.client(None)).connect(name, here);
    let (client, server) = tokio::join!(connecting, listener.accept(there, None));
    let (stream, _) = server.unwrap();
    assert_eq!(stream.get_ref().1.negotiated_key_exchange_group().unwrap().name(), rustls::NamedGroup::X25519MLKEM768);
    drop(client);
}

#[tokio::test]
async fn tls_1_2_is_spoken_unless_it_is_switched_off() {
    let ground = Ground::new();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ground.ca.0.der().clone()).unwrap();
    let issued = ground.ca.issue(client("c"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_details(provider, Arc::new(pki::Standing))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![issued.cert.der().clone()], pki::key(&issued))
        .unwrap();
    let config = Arc::new(config);
    let listener = ground.load(ground.mutual());
    assert_eq!(meet(&listener, &config).await.client, Ok(HandshakeKind::Full));
    let resumed = meet(&listener, &config).await;
    assert_eq!(resumed.client, Ok(HandshakeKind::Resumed));
    assert_eq!(resumed.peer().subject, "CN=c");
    let strict = ground.load(ServerFiles { tls13_only: true, ..ground.mutual() });
    assert!(meet(&strict, &config).await.client.is_err());
}

fn client_files(ground: &Ground, issued: Option<&IssuedCertificate>) -> ClientFiles {
    if let Some(issued) = issued {
        ground.put("client", issued);
    }
    ClientFiles {
        ca: Some(ground.path("ca.pem")),
        cert: issued.map(|_| ground.path("client.pem")),
        key: issued.map(|_| ground.path("client.key")),
        ..ClientFiles::default()
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate_and_the_next_one_after_a_reload() {
    let ground = Ground::new();
    let listener = ground.load(ground.mutual());
    let upstream =
        Client::load(client_files(&ground, Some(&ground.ca.issue(client("one")))), ground.clock.clone()).unwrap();
    assert_eq!(meet(&listener, &upstream.config(false)).await.peer().subject, "CN=one");
    let met = meet(&listener, &upstream.config(true)).await;
    assert_eq!(met.alpn.as_deref(), Some(&b"h2"[..]));
    let roles: Vec<_> = upstream.certificates().iter().map(|status| status.role).collect();
    assert_eq!(roles, ["server_ca", "client"]);

    let mut changes = upstream.generation();
    changes.mark_unchanged();
    assert!(!upstream.files_changed() && !upstream.reload().unwrap());
    ground.put("client", &ground.ca.issue(client("two")));
    assert!(upstream.files_changed() && upstream.reload().unwrap());
    assert!(changes.has_changed().unwrap());
    assert_eq!(meet(&listener, &upstream.config(false)).await.peer().subject, "CN=two");
    ground.write("client.pem", "broken");
    assert!(upstream.reload().is_err());
    assert_eq!(meet(&listener, &upstream.config(true)).await.peer().subject, "CN=two");
}

#[tokio::test]
async fn a_client_trusts_its_authority_alone() {
    let ground = Ground::new();
    let stranger = Authority::new("another CA");
    ground.write("other.pem", stranger.0.pem());
    let files = ClientFiles { ca: Some(ground.path("other.pem")), ..client_files(&ground, None) };
    let upstream = Client::load(files.clone(), ground.clock.clone()).unwrap();
    let met = meet(&ground.load(ground.plain()), &upstream.config(false)).await;
    assert!(met.told().contains("UnknownIssuer"), "{}", met.told());
    for (files, field) in [
        (ClientFiles { server_name: Some("no name".into()), ..files.clone() }, "server_name: "),
        (ClientFiles { key: Some(ground.path("server.key")), ..files.clone() }, "cert: "),
        (ClientFiles { ca: Some(ground.path("server.key")), ..files }, "ca: "),
    ] {
        let err = Client::load(files, ground.clock.clone()).unwrap_err().to_string();
        assert!(err.starts_with(field), "{err}");
    }
}
