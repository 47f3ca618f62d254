//! nginx: one process that is its own worker.

use std::path::Path;
use std::process::Command;

use super::{Headers, Setting, version};

/// The headers of `Headers::Origin`. The id of the parent in `traceparent` is half of nginx's id of the request.
const ORIGIN: &str = r#"    map $request_id $parent_id { "~^(?<half>.{16})" $half; }
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header Forwarded "for=$remote_addr;host=\"$http_host\";proto=$scheme";
    proxy_set_header Via "1.1 nginx";
    proxy_set_header traceparent "00-$request_id-$parent_id-01";
"#;

pub(super) fn command(setting: &Setting<'_>, nginx: &Path) -> anyhow::Result<(Command, String)> {
    let number = version(nginx, "-V", "nginx/")?;
    // Since 1.25.1 HTTP/2 is no parameter of `listen` any more.
    let is_old = number.split('.').take(2).map_while(|part| part.parse().ok()).collect::<Vec<u32>>() < vec![1, 25];
    let (parameter, directive) = if is_old { (" http2", "") } else { ("", "http2 on; ") };
    let headers = if setting.headers == Headers::Origin { ORIGIN } else { "" };
    let folder = setting.folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("    {name}_temp_path {folder}/{name};\n"))
        .collect();
    let location = "location / { proxy_pass http://upstream; }";
    let (ports, certificates) = (setting.ports, setting.certificates);
    // No limit on the requests of a connection: by default nginx closes each after a thousand.
    let config = format!(
        "daemon off;
master_process off;
pid {folder}/pid;
error_log stderr error;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
    access_log off;
{temporary}    keepalive_requests 1000000000;
    keepalive_timeout 75s;
    ssl_certificate {cert};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    upstream upstream {{
        server 127.0.0.1:{upstream};
        keepalive 512;
        keepalive_requests 1000000000;
    }}
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    proxy_set_header Host $proxy_host;
{headers}    server {{ listen 127.0.0.1:{http}; {location} }}
    server {{ listen 127.0.0.1:{h2c}{parameter}; {directive}{location} }}
    server {{ listen 127.0.0.1:{https} ssl{parameter}; {directive}{location} }}
    server {{ listen 127.0.0.1:{mtls} ssl{parameter}; {directive}ssl_client_certificate {ca}; ssl_verify_client on; {location} }}
}}
",
        cert = certificates.server.0.display(),
        key = certificates.server.1.display(),
        ca = certificates.ca.display(),
        upstream = setting.upstream,
        http = ports.http,
        h2c = ports.h2c,
        https = ports.https,
        mtls = ports.mtls,
    );
    let file = setting.file("nginx.conf", &config)?;
    let version = format!("nginx {number} with OpenSSL {}", version(nginx, "-V", "built with OpenSSL ")?);
    let mut command = setting.pinned(nginx);
    command.arg("-p").arg(&setting.folder).arg("-c").arg(file);
    Ok((command, version))
}
