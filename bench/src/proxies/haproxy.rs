//! HAProxy: one process, one thread.

use std::path::Path;
use std::process::Command;

use super::{Headers, Setting, version};

/// The headers of `Headers::Origin`, of which two depend on the scheme. The text of `Forwarded` is made by a rule, because HAProxy
/// 2.6 has no option for it; `traceparent` is four random numbers in hexadecimal, padded by HAProxy.
const ORIGIN: &str = r#"    option forwardfor
    http-request set-var(txn.scheme) str(https) if { ssl_fc }
    http-request set-var(txn.scheme) str(http) if !{ ssl_fc }
    http-request set-header X-Forwarded-Proto %[var(txn.scheme)]
    http-request set-header X-Forwarded-Host %[req.hdr(host)]
    http-request set-header Forwarded for=%[src];host=\"%[req.hdr(host)]\";proto=%[var(txn.scheme)]
    http-request set-header Via 1.1\ haproxy
    http-request set-header traceparent 00-%[uuid,regsub(-,,g)]-%[rand(4294967295),hex,bytes(8,8)]%[rand(4294967295),hex,bytes(8,8)]-01
"#;

pub(super) fn command(setting: &Setting<'_>, haproxy: &Path) -> anyhow::Result<(Command, String)> {
    let headers = if setting.headers == Headers::Origin { ORIGIN } else { "" };
    let (ports, certificates) = (setting.ports, setting.certificates);
    // HAProxy reads certificate and key from one file.
    let mut both = std::fs::read_to_string(&certificates.server.0)?;
    both.push_str(&std::fs::read_to_string(&certificates.server.1)?);
    let pem = setting.file("server.pem", &both)?;
    let tls = format!("ssl crt {} alpn h2,http/1.1 ssl-min-ver TLSv1.2", pem.display());
    let config = format!(
        "global
    nbthread 1
    maxconn 9000
defaults
    mode http
    timeout connect 5s
    timeout client 75s
    timeout server 75s
    option http-keep-alive
    http-reuse always
frontend front
    bind 127.0.0.1:{http}
    bind 127.0.0.1:{h2c} proto h2
    bind 127.0.0.1:{https} {tls}
    bind 127.0.0.1:{mtls} {tls} ca-file {ca} verify required
{headers}    http-request set-header Host 127.0.0.1:{upstream}
    default_backend upstream
backend upstream
    server one 127.0.0.1:{upstream}
",
        http = ports.http,
        h2c = ports.h2c,
        https = ports.https,
        mtls = ports.mtls,
        ca = certificates.ca.display(),
        upstream = setting.upstream,
    );
    let file = setting.file("haproxy.cfg", &config)?;
    let version = format!(
        "haproxy {} with OpenSSL {}",
        version(haproxy, "-v", "HAProxy version ")?,
        version(haproxy, "-vv", " version : OpenSSL ")?
    );
    let mut command = setting.pinned(haproxy);
    command.arg("-db").arg("-f").arg(file);
    Ok((command, version))
}
