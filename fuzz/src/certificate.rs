//! `certificate`: the chain that a client presents. The server parses the intermediate certificates before it has verified them.

use sealway_runtime::tls::{AllowPattern, PeerCertificate};

/// The fuzz target for client certificates.
pub fn certificate(data: &[u8]) {
    let Ok(peer) = PeerCertificate::parse(vec![data.to_vec().into()]) else { return };
    for name in [&peer.subject, &peer.issuer] {
        assert!(!name.contains(char::is_control), "a name breaks lines: {name:?}");
    }
    assert!(peer.serial.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte)));
    assert_eq!(peer.sha256.len(), 64);
    let own = AllowPattern::parse(&format!("SHA256:{}", peer.sha256)).expect("a digest is a pattern");
    assert!(own.matches(&peer));
    let is_met = |text: &str| AllowPattern::parse(text).expect("a pattern").matches(&peer);
    assert_eq!(is_met("CN=*"), peer.common_name.is_some());
    assert!(!is_met("DNS:*") || !peer.dns.is_empty());
    assert!(!is_met("spiffe://*/*") || peer.uris.iter().any(|uri| uri.starts_with("spiffe://")));
    if let Some(name) = peer.common_name.as_deref().filter(|name| !name.contains('*')) {
        if let Ok(exact) = AllowPattern::parse(&format!("CN={name}")) {
            assert!(exact.matches(&peer), "{name:?}");
        }
        assert!(!is_met("CN=a*b") || (name.starts_with('a') && name.ends_with('b')));
    }
}
