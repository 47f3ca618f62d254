//! Sealway, with one worker thread.

use std::process::Command;

use super::{Headers, Setting, version};

pub(super) fn command(setting: &Setting<'_>) -> anyhow::Result<(Command, String)> {
    let (ports, certificates) = (setting.ports, setting.certificates);
    let tls = format!("cert: '{}', key: '{}'", certificates.server.0.display(), certificates.server.1.display());
    // All connections of the load come from one address.
    let config = format!(
        "listeners:
  - {{ name: http, address: '127.0.0.1:{http}' }}
  - {{ name: h2c, address: '127.0.0.1:{h2c}' }}
  - {{ name: https, address: '127.0.0.1:{https}', tls: {{ {tls} }} }}
  - {{ name: mtls, address: '127.0.0.1:{mtls}', tls: {{ {tls}, client_ca: ['{ca}'] }} }}
routes:
  - {{ match: {{}}, sealed: off, upstream: upstream, forwarded: {forwarded} }}
upstreams:
  upstream: {{ servers: ['http://127.0.0.1:{upstream}'] }}
limits: {{ connections_per_address_max: 10000 }}
telemetry: {{ log_level: warn }}
",
        http = ports.http,
        h2c = ports.h2c,
        https = ports.https,
        mtls = ports.mtls,
        ca = certificates.ca.display(),
        upstream = setting.upstream,
        forwarded = setting.headers == Headers::Origin,
    );
    let file = setting.file("serve.yaml", &config)?;
    let version = format!("sealway {} with AWS-LC", version(setting.sealway, "--version", "sealway ")?);
    let mut command = setting.pinned(setting.sealway);
    command.env("TOKIO_WORKER_THREADS", "1").arg("serve").arg("--config").arg(file);
    Ok((command, version))
}
