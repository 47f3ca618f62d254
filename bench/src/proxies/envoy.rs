//! Envoy: one worker. Its configuration is JSON, which it reads as YAML.

use std::process::Command;

use super::{Headers, Setting, program, version};

const HCM: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const TLS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";

/// The headers of `Headers::Origin` beside `X-Forwarded-For` and `-Proto`, which Envoy always sets. Without a tracer it has no id in the
/// form of `traceparent`: the id of the stream takes as much time to make.
const ORIGIN: &str = r#", "request_headers_to_add": [
  {"header": {"key": "X-Forwarded-Host", "value": "%REQ(:AUTHORITY)%"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
  {"header": {"key": "Forwarded", "value": "for=%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%;host=\"%REQ(:AUTHORITY)%\";proto=%REQ(:SCHEME)%"}},
  {"header": {"key": "Via", "value": "1.1 envoy"}},
  {"header": {"key": "traceparent", "value": "00-%STREAM_ID%-0123456789abcdef-01"}}]"#;

pub(super) fn command(setting: &Setting<'_>) -> anyhow::Result<(Command, String)> {
    let envoy = program("envoy")?;
    let ports = setting.ports;
    let listeners = [
        listener("http", ports.http, None, setting.headers),
        listener("h2c", ports.h2c, None, setting.headers),
        listener("https", ports.https, Some(tls(setting, false)), setting.headers),
        listener("mtls", ports.mtls, Some(tls(setting, true)), setting.headers),
    ]
    .join(",\n");
    // Envoy's default limits on connections and requests to a cluster are 1024; the load stays below.
    let config = format!(
        r#"{{"static_resources": {{"listeners": [
{listeners}],
"clusters": [{{"name": "upstream", "type": "STATIC", "connect_timeout": "5s",
  "load_assignment": {{"cluster_name": "upstream", "endpoints": [{{"lb_endpoints": [{{"endpoint": {{"address": {{
    "socket_address": {{"address": "127.0.0.1", "port_value": {upstream}}}}}}}}}]}}]}}}}]}}}}
"#,
        upstream = setting.upstream
    );
    let file = setting.file("envoy.json", &config)?;
    let said = version(&envoy, "--version", "version: ")?;
    // revision/version/state/build/TLS library
    let mut parts = said.split('/');
    let number = parts.nth(1).unwrap_or_default().to_owned();
    let version = format!("envoy {number} with {}", parts.next_back().unwrap_or_default());
    let mut command = setting.pinned(&envoy);
    command.arg("-c").arg(file).args(["--concurrency", "1", "--disable-hot-restart", "-l", "error"]);
    Ok((command, version))
}

fn listener(name: &str, port: u16, tls: Option<String>, headers: Headers) -> String {
    let added = if headers == Headers::Origin { ORIGIN } else { "" };
    let tls = tls.map_or(String::new(), |tls| format!(r#", "transport_socket": {tls}"#));
    format!(
        r#"{{"name": "{name}", "address": {{"socket_address": {{"address": "127.0.0.1", "port_value": {port}}}}},
  "filter_chains": [{{"filters": [{{"name": "hcm", "typed_config": {{"@type": "{HCM}",
    "stat_prefix": "{name}", "codec_type": "AUTO", "use_remote_address": true,
    "http_filters": [{{"name": "router", "typed_config": {{"@type": "{ROUTER}"}}}}],
    "route_config": {{"virtual_hosts": [{{"name": "all", "domains": ["*"],
      "routes": [{{"match": {{"prefix": "/"}}, "route": {{"cluster": "upstream"}}}}]}}]{added}}}}}}}]{tls}}}]}}"#
    )
}

fn tls(setting: &Setting<'_>, asks: bool) -> String {
    let certificates = setting.certificates;
    let asked = if asks {
        format!(
            r#", "validation_context": {{"trusted_ca": {{"filename": "{}"}}}}}}, "require_client_certificate": true"#,
            certificates.ca.display()
        )
    } else {
        "}".to_owned()
    };
    format!(
        r#"{{"name": "tls", "typed_config": {{"@type": "{TLS}",
    "common_tls_context": {{"alpn_protocols": ["h2", "http/1.1"],
      "tls_certificates": [{{"certificate_chain": {{"filename": "{cert}"}}, "private_key": {{"filename": "{key}"}}}}]{asked}}}}}"#,
        cert = certificates.server.0.display(),
        key = certificates.server.1.display(),
    )
}
