//! The clients that a listener accepts, by real handshakes.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod pki;

use pki::{Authority, DAY, Ground, NOW, client, meet};
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use rustls::HandshakeKind;
use sealway_runtime::tls::{AcceptError, AllowPattern, ClientAuth, ServerFiles};

#[tokio::test]
async fn a_client_of_the_authority_is_let_in_and_read() {
    let ground = Ground::new();
    let mut wish = client("instrument-7");
    wish.names = vec![
        SanType::DnsName("seven.plant.example".try_into().unwrap()),
        SanType::URI("spiffe://plant/line/7".try_into().unwrap()),
        SanType::IpAddress("192.0.2.7".parse().unwrap()),
        SanType::IpAddress("2001:db8::7".parse().unwrap()),
        SanType::Rfc822Name("seven@plant.example".try_into().unwrap()),
    ];
    let issued = ground.ca.issue(wish);
    let peer = meet(&ground.load(ground.mutual()), &ground.client(Some(&issued))).await.peer();
    assert_eq!(peer.subject, "CN=instrument-7");
    assert_eq!(peer.common_name.as_deref(), Some("instrument-7"));
    assert_eq!(peer.dns, ["seven.plant.example"]);
    assert_eq!(peer.uris, ["spiffe://plant/line/7"]);
    assert_eq!(peer.ips.len(), 2);
    assert_eq!(peer.emails, ["seven@plant.example"]);
    assert_eq!(peer.serial, "07");
    assert_eq!(peer.issuer, "CN=a CA");
    assert_eq!(peer.not_after_ms, (NOW + 30 * DAY) * 1000 + 999);
    assert_eq!(peer.sha256.len(), 64);
    assert_eq!(peer.chain, [issued.cert.der().clone()]);
}

#[tokio::test]
async fn an_invalid_client_certificate_is_rejected_with_an_alert() {
    let ground = Ground::new();
    let listener = ground.load(ground.mutual());
    let stranger = Authority::new("another CA");
    let namesake = Authority::new("a CA");
    let no_usage = pki::Wish { usages: vec![], ..client("c") };
    let wrong_usage = pki::Wish { usages: vec![ExtendedKeyUsagePurpose::ServerAuth], ..client("c") };
    let over = pki::Wish { until: NOW - 1, ..client("c") };
    let early = pki::Wish { from: NOW + 1, ..client("c") };
    for (issued, refusal, told) in [
        (stranger.issue(client("c")), "of no authority", "UnknownCA"),
        (namesake.issue(client("c")), "not signed by its authority", "DecryptError"),
        (ground.ca.issue(no_usage), "not for clients", "UnsupportedCertificate"),
        (ground.ca.issue(wrong_usage), "not for clients", "UnsupportedCertificate"),
        (ground.ca.issue(over), "has expired", "CertificateExpired"),
        (ground.ca.issue(early), "not valid yet", "CertificateExpired"),
    ] {
        let met = meet(&listener, &ground.client(Some(&issued))).await;
        assert!(met.refusal().contains(refusal), "{refusal}: {}", met.refusal());
        assert!(met.told().contains(told), "{told}: {}", met.told());
        assert!(matches!(met.server, Err(AcceptError::Certificate(_))));
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_is_accepted_only_if_it_is_optional() {
    let ground = Ground::new();
    let met = meet(&ground.load(ground.mutual()), &ground.client(None)).await;
    assert!(matches!(met.server, Err(AcceptError::NoCertificate)));
    assert!(met.told().contains("CertificateRequired"), "{}", met.told());

    let optional = ground.load(ServerFiles { client_auth: ClientAuth::Optional, ..ground.mutual() });
    let met = meet(&optional, &ground.client(None)).await;
    assert!(met.client.is_ok() && matches!(met.server, Ok(None)));
    let bad = Authority::new("another CA").issue(client("c"));
    assert!(meet(&optional, &ground.client(Some(&bad))).await.refusal().contains("of no authority"));
    let good = ground.ca.issue(client("c"));
    assert_eq!(meet(&optional, &ground.client(Some(&good))).await.peer().subject, "CN=c");

    let plain = ground.load(ground.plain());
    assert!(matches!(meet(&plain, &ground.client(Some(&good))).await.server, Ok(None)));
}

#[tokio::test]
async fn an_authority_that_has_expired_vouches_for_nobody() {
    let ground = Ground::new();
    let old = Authority::until("an old CA", NOW + DAY);
    ground.write("old.pem", old.0.pem());
    let mut files = ground.mutual();
    files.client_ca.push(ground.path("old.pem"));
    let listener = ground.load(files);
    let config = ground.client(Some(&old.issue(client("c"))));
    let peer = meet(&listener, &config).await.peer();
    assert_eq!(listener.still_valid(&peer), Ok(()));
    ground.clock.set((NOW + DAY + 1) * 1000);
    assert!(listener.still_valid(&peer).unwrap_err().contains("authority has expired"));
    let met = meet(&listener, &ground.client(Some(&old.issue(client("c"))))).await;
    assert!(met.refusal().contains("authority has expired"), "{}", met.refusal());
}

#[tokio::test]
async fn an_expired_authority_is_not_made_valid_by_another_ones_public_certificate() {
    let ground = Ground::new();
    let old = Authority::until("an old CA", NOW + DAY);
    ground.write("old.pem", old.0.pem());
    let mut files = ground.mutual();
    files.client_ca.push(ground.path("old.pem"));
    let listener = ground.load(files);
    let issued = old.issue(client("c"));
    // Every client that has met the listener can have the valid authority's certificate, and the certificates that it has
    // issued.
    let bystander = ground.ca.issue(client("bystander"));
    for beside in [ground.ca.0.der(), bystander.cert.der()] {
        let config = ground.client_with(&issued, std::slice::from_ref(beside));
        ground.clock.set(NOW * 1000);
        let peer = meet(&listener, &config).await.peer();
        assert_eq!(listener.still_valid(&peer), Ok(()));
        ground.clock.set((NOW + DAY + 1) * 1000);
        assert!(listener.still_valid(&peer).unwrap_err().contains("authority has expired"));
        let met = meet(&listener, &config).await;
        assert!(met.refusal().contains("authority has expired"), "{}", met.refusal());
    }
    // Clients of the valid authority go on.
    assert_eq!(meet(&listener, &ground.client(Some(&bystander))).await.peer().subject, "CN=bystander");
}

#[tokio::test]
async fn an_authority_counts_from_its_first_day_on_without_a_reload() {
    let ground = Ground::new();
    let next = Authority::between("the next CA", NOW + DAY, NOW + 300 * DAY);
    ground.write("next.pem", next.0.pem());
    let mut files = ground.mutual();
    files.client_ca.push(ground.path("next.pem"));
    let listener = ground.load(files);
    let issued = next.issue(client("c"));
    let met = meet(&listener, &ground.client(Some(&issued))).await;
    assert!(met.refusal().contains("not valid yet"), "{}", met.refusal());
    ground.clock.set((NOW + DAY + 1) * 1000);
    assert_eq!(meet(&listener, &ground.client(Some(&issued))).await.peer().subject, "CN=c");
}

#[tokio::test]
async fn the_allow_list_lets_in_those_that_it_names() {
    let ground = Ground::new();
    let mut wish = client("instrument-7");
    wish.names = vec![SanType::URI("spiffe://plant/line/7".try_into().unwrap())];
    let issued = ground.ca.issue(wish);
    let digest = meet(&ground.load(ground.mutual()), &ground.client(Some(&issued))).await.peer().sha256.clone();
    for (pattern, is_let_in) in [
        ("spiffe://plant/*", true),
        ("CN=instrument-*", true),
        (&format!("SHA256:{digest}"), true),
        ("spiffe://plant/line", false),
        ("CN=instrument", false),
        ("DNS:*", false),
    ] {
        let allow = vec![AllowPattern::parse("CN=nobody").unwrap(), AllowPattern::parse(pattern).unwrap()];
        let listener = ground.load(ServerFiles { allow, ..ground.mutual() });
        let met = meet(&listener, &ground.client(Some(&issued))).await;
        assert_eq!(met.client.is_ok(), is_let_in, "{pattern}");
        if !is_let_in {
            assert!(met.refusal().contains("allow-list"), "{}", met.refusal());
            assert!(met.told().contains("AccessDenied"), "{}", met.told());
        }
    }
}

#[tokio::test]
async fn a_revocation_that_is_loaded_refuses_and_ends_what_was_let_in() {
    let ground = Ground::new();
    let list = ground.write("crl.pem", ground.ca.revoke(&[99], NOW + DAY));
    let listener = ground.load(ServerFiles { crl: vec![list], ..ground.mutual() });
    let mut changes = listener.generation();
    changes.mark_unchanged();
    let config = ground.client(Some(&ground.ca.issue(client("c"))));
    let peer = meet(&listener, &config).await.peer();
    let resumed = meet(&listener, &config).await;
    assert_eq!(resumed.client, Ok(HandshakeKind::Resumed), "so that the refusal below is one of a ticket");

    ground.write("crl.pem", ground.ca.revoke(&[99, 7], NOW + DAY));
    assert!(listener.files_changed());
    assert_eq!(listener.still_valid(&peer), Ok(()), "nothing is loaded yet");
    assert!(listener.reload().unwrap());
    assert!(!listener.files_changed());
    assert!(changes.has_changed().unwrap());
    assert!(listener.still_valid(&peer).unwrap_err().contains("revoked"));
    // The old ticket is no longer valid, so this is a full handshake, whose rejection the client learns.
    let met = meet(&listener, &config).await;
    assert!(met.refusal().contains("revoked"), "{}", met.refusal());
    assert!(met.told().contains("CertificateRevoked"), "{}", met.told());
    let other = ground.ca.issue(pki::Wish { serial: 8, ..client("d") });
    assert!(meet(&listener, &ground.client(Some(&other))).await.client.is_ok());
}

#[tokio::test]
async fn a_list_past_its_time_goes_on_counting_and_lets_others_in() {
    let ground = Ground::new();
    let list = ground.write("crl.pem", ground.ca.revoke(&[99], NOW - 60));
    let listener = ground.load(ServerFiles { crl: vec![list], ..ground.mutual() });
    assert!(meet(&listener, &ground.client(Some(&ground.ca.issue(client("c"))))).await.client.is_ok());
    let revoked = ground.ca.issue(pki::Wish { serial: 99, ..client("d") });
    assert!(meet(&listener, &ground.client(Some(&revoked))).await.refusal().contains("revoked"));
    let status = listener.certificates().into_iter().find(|status| status.role == "crl").unwrap();
    assert_eq!((status.not_after_ms, status.revoked), ((NOW - 60) * 1000, Some(1)));
}

#[tokio::test]
async fn a_ticket_does_not_outlive_the_certificate_that_it_was_granted_to() {
    let ground = Ground::new();
    let listener = ground.load(ground.mutual());
    let short = pki::Wish { until: NOW + 600, ..client("c") };
    let config = ground.client(Some(&ground.ca.issue(short)));
    assert_eq!(meet(&listener, &config).await.client, Ok(HandshakeKind::Full));
    let met = meet(&listener, &config).await;
    assert_eq!(met.client, Ok(HandshakeKind::Resumed));
    let peer = met.peer();
    assert_eq!(peer.subject, "CN=c");
    ground.clock.set((NOW + 600) * 1000 + 999);
    assert_eq!(listener.still_valid(&peer), Ok(()), "the last second belongs to it");
    assert!(meet(&listener, &config).await.client.is_ok());
    ground.clock.set((NOW + 601) * 1000);
    assert_eq!(listener.still_valid(&peer), Err("the certificate has expired".into()));
    assert_eq!(meet(&listener, &config).await.refusal(), "the certificate has expired");
}

#[tokio::test]
async fn a_peer_of_an_authority_that_is_taken_away_is_valid_no_longer() {
    let ground = Ground::new();
    let listener = ground.load(ground.mutual());
    let config = ground.client(Some(&ground.ca.issue(client("c"))));
    let peer = meet(&listener, &config).await.peer();
    let next = Authority::new("the next CA");
    ground.write("ca.pem", next.0.pem() + &ground.ca.0.pem());
    assert!(listener.reload().unwrap());
    assert_eq!(listener.still_valid(&peer), Ok(()));
    let newer = next.issue(client("n"));
    assert_eq!(meet(&listener, &ground.client(Some(&newer))).await.peer().issuer, "CN=the next CA");
    ground.write("ca.pem", next.0.pem());
    assert!(listener.reload().unwrap());
    assert!(listener.still_valid(&peer).unwrap_err().contains("of no authority"));
    assert!(meet(&listener, &config).await.refusal().contains("of no authority"));
}

#[tokio::test]
async fn a_peer_that_does_not_speak_tls_is_reported_as_such() {
    use tokio::io::AsyncWriteExt;
    let ground = Ground::new();
    let listener = ground.load(ground.plain());
    let (mut here, there) = tokio::io::duplex(4096);
    let speaking = async {
        here.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        here.shutdown().await.unwrap();
        here
    };
    let (_here, met) = tokio::join!(speaking, listener.accept(there, None));
    assert!(matches!(met, Err(AcceptError::Protocol(_))), "{:?}", met.err());
}

#[tokio::test]
async fn the_certificate_of_another_listener_proves_nothing_here() {
    let ground = Ground::new();
    let (one, other_ca) = (ground.load(ground.mutual()), Authority::new("another CA"));
    ground.write("other.pem", other_ca.0.pem());
    let other = ground.load(ServerFiles { client_ca: vec![ground.path("other.pem")], ..ground.mutual() });
    let config = ground.client(Some(&ground.ca.issue(client("c"))));
    let peer = meet(&one, &config).await.peer();
    assert_eq!(one.still_valid(&peer), Ok(()));
    assert!(other.still_valid(&peer).is_err());
    assert!(meet(&other, &config).await.refusal().contains("of no authority"));
}

#[tokio::test]
async fn a_rejected_client_that_is_sending_gets_its_alert() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let ground = Ground::new();
    let listener = ground.load(ground.mutual());
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    for _ in 0..20 {
        let asking = async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let connector = tokio_rustls::TlsConnector::from(ground.client(None));
            let name = "localhost".try_into().unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            stream.write_all(&[b'a'; 30_000]).await.unwrap();
            stream.flush().await.unwrap();
            // Long enough for a reset, on which many clients report a failed connection and read no more.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            stream.write_all(b"a").await.unwrap();
            stream.flush().await.unwrap();
            stream.read(&mut [0]).await.unwrap_err().to_string()
        };
        let answering = async { listener.accept(socket.accept().await.unwrap().0, None).await };
        let (told, refused) = tokio::join!(asking, answering);
        assert!(matches!(refused, Err(AcceptError::NoCertificate)));
        assert!(told.contains("CertificateRequired"), "{told}");
    }
}
