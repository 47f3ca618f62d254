//! nginx: one process that is its own worker.

use std::process::Command;

use super::{Setting, program, version};

pub(super) fn command(setting: &Setting<'_>) -> anyhow::Result<(Command, String)> {
    let nginx = program("nginx")?;
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
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    server {{ listen 127.0.0.1:{http}; {location} }}
    server {{ listen 127.0.0.1:{h2c} http2; {location} }}
    server {{ listen 127.0.0.1:{https} ssl http2; {location} }}
    server {{ listen 127.0.0.1:{mtls} ssl http2; ssl_client_certificate {ca}; ssl_verify_client on; {location} }}
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
    let version = format!(
        "nginx {} with OpenSSL {}",
        version(&nginx, "-V", "nginx/")?,
        version(&nginx, "-V", "built with OpenSSL ")?
    );
    let mut command = setting.pinned(&nginx);
    command.arg("-p").arg(&setting.folder).arg("-c").arg(file);
    Ok((command, version))
}
