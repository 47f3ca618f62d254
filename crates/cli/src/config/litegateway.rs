//! `serve --litegateway`: the environment of Lite Gateway, converted to a configuration of Sealway.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sealway_runtime::tls::Secret;
use serde_json::{Value, json};

const PREFIX: &str = "LITEGATEWAY_Proxy__";
/// Prefix of variables that Lite Gateway's Rust proxy prefers.
const RUST_PREFIX: &str = "LITEGATEWAY_RustProxy__";
const CERTIFICATES: &str = "certs/generated";
const PASSWORD: &str = "changeit";
const SLEEP_MS_MAX: u64 = 600_000;

/// A configuration with the secrets that no file of it may contain.
pub(crate) struct LiteGateway {
    /// Configuration as JSON, which is valid YAML.
    pub(crate) text: String,
    /// Password of the listeners' PKCS#12 file.
    pub(crate) server_password: Secret,
    /// Password of the PKCS#12 file with the client certificate for the upstream.
    pub(crate) client_password: Secret,
    /// Warnings for the operator, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Reads variables, and collects their defects.
struct Reader<'a> {
    var: &'a dyn Fn(&str) -> Option<String>,
    wrong: Vec<String>,
}

impl Reader<'_> {
    /// Returns a variable that is set and not blank.
    fn text(&self, name: &str) -> Option<String> {
        (self.var)(&format!("{PREFIX}{name}")).filter(|text| !text.trim().is_empty())
    }

    fn flag(&mut self, name: &str, default: bool) -> bool {
        match self.text(name).as_deref() {
            None => default,
            Some("true") => true,
            Some("false") => false,
            Some(other) => {
                self.wrong.push(format!("{PREFIX}{name}: \"{other}\" is neither true nor false"));
                default
            }
        }
    }

    fn integer(&mut self, name: &str, default: u64, least: u64, most: u64) -> u64 {
        let Some(text) = self.text(name) else { return default };
        match text.trim().parse::<u64>() {
            Ok(value) if (least..=most).contains(&value) => value,
            _ => {
                self.wrong.push(format!("{PREFIX}{name}: \"{text}\" is no integer from {least} to {most}"));
                default
            }
        }
    }

    /// Returns the absolute path of a file.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(|text| absolute(Path::new(&text)))
    }

    fn rust_path(&self, name: &str) -> Option<PathBuf> {
        let text = (self.var)(&format!("{RUST_PREFIX}{name}")).filter(|text| !text.trim().is_empty());
        text.map(|text| absolute(Path::new(&text)))
    }
}

/// Makes a path absolute, so that errors name the whole path.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Converts the environment that `var` reads. `echo`: a gateway without an upstream answers with the request's body.
///
/// # Errors
/// All invalid variables, one line each.
pub(crate) fn read(var: &dyn Fn(&str) -> Option<String>, echo: bool) -> Result<LiteGateway, String> {
    let mut reader = Reader { var, wrong: Vec::new() };
    let mut warnings = Vec::new();
    let listeners = listeners(&mut reader);
    let delay_ms = reader.integer("SleepDurationMs", 5000, 0, SLEEP_MS_MAX);
    let pass_connection_close = reader.flag("PassConnectionClose", false);
    let mut route = json!({ "match": {}, "delay_ms": delay_ms });
    let mut upstreams = json!({});
    match reader.text("UpstreamUrl") {
        None => route["standalone"] = json!(if echo { "echo" } else { "ok" }),
        Some(url) => {
            if echo {
                warnings.push(format!("--standalone is without effect: {PREFIX}UpstreamUrl is set"));
            }
            let (upstream, path) = upstream(&mut reader, &url);
            upstreams = json!({ "upstream": upstream });
            route["upstream"] = json!("upstream");
            // Lite Gateway forwarded neither the origin of a request nor the client's identity to the service.
            route["forwarded"] = json!(false);
            route["client_identity"] = json!({});
            route["pass_connection_close"] = json!(pass_connection_close);
            if let Some(path) = path {
                route["upstream_path"] = json!(path);
            }
            if let Some(id) = var("SEALWAY_CUSTOMER_ID").filter(|id| !id.is_empty()) {
                route["request_headers"] = json!({ "set": { "X-Customer-Id": id } });
            }
        }
    }
    if !reader.wrong.is_empty() {
        return Err(reader.wrong.join("\n"));
    }
    let password = |name| Secret::from(password(var, name));
    if let Some((winner, _)) = server_cert(&reader).filter(|(name, _)| !name.ends_with("ServerCertificatePath")) {
        let losers = ["ServerCertificatePath", "ServerCertificatePassword"];
        let losers = losers.iter().filter(|name| reader.text(name).is_some());
        warnings.extend(losers.map(|name| format!("{PREFIX}{name} is without effect: {winner} is set")));
    }
    let level = var("RUST_LOG").filter(|level| !level.is_empty()).unwrap_or_else(|| "warn".into());
    let config = json!({
        "listeners": listeners,
        "routes": [route],
        "upstreams": upstreams,
        "telemetry": { "log_level": level },
        "limits": {
            "connections_max": 20_000, "streams_max": 1024, "header_timeout_ms": 30_000, "idle_timeout_ms": 130_000,
            "handshake_timeout_ms": 10_000,
        },
    });
    let (server_password, client_password) =
        (password("ServerCertificatePassword"), password("OutboundClientCertificatePassword"));
    Ok(LiteGateway { text: config.to_string(), server_password, client_password, warnings })
}

fn listeners(reader: &mut Reader<'_>) -> Vec<Value> {
    let mut port = |name: &str, default| reader.integer(name, default, 1, 65_535);
    let http = ("http", port("HttpPort", 8080));
    let https = ("https", port("HttpsPort", 8443));
    // An older name of the same port.
    let old = port("Port", 9443);
    let mtls = ("mtls", port("MtlsPort", old));
    let enabled: Vec<_> = [("EnableHttp", http), ("EnableHttps", https), ("EnableMtls", mtls)]
        .into_iter()
        .filter_map(|(name, listener)| reader.flag(name, true).then_some(listener))
        .collect();
    if enabled.is_empty() {
        reader.wrong.push(format!("{PREFIX}EnableHttp, EnableHttps, EnableMtls: at least one listener must be on"));
    }
    let ports: BTreeSet<_> = enabled.iter().map(|(_, port)| port).collect();
    if ports.len() < enabled.len() {
        reader
            .wrong
            .push(format!("{PREFIX}HttpPort, HttpsPort, MtlsPort: the ports of listeners that are on must differ"));
    }
    let listener = |(name, port): (&str, u64)| {
        let mut listener = json!({ "name": name, "address": format!("0.0.0.0:{port}") });
        if name != "http" {
            listener["tls"] = server_files(reader);
        }
        if name == "mtls" {
            listener["tls"]["client_ca"] = json!(trusted_ca(reader));
        }
        listener
    };
    enabled.into_iter().map(listener).collect()
}

/// Returns the password in a variable. A set and empty variable means no password, not the default one.
fn password(var: &dyn Fn(&str) -> Option<String>, name: &str) -> String {
    var(&format!("{PREFIX}{name}")).unwrap_or_else(|| PASSWORD.to_owned())
}

/// A file with the full name of its variable.
type NamedFile = (String, PathBuf);

/// Returns the first variable that names a file; those of the Rust proxy have another prefix, and take precedence.
fn named(reader: &Reader<'_>, rust: &str, others: &[&str]) -> Option<NamedFile> {
    let of_rust = reader.rust_path(rust).map(|path| (format!("{RUST_PREFIX}{rust}"), path));
    let mut others = others.iter().map(|name| Some((format!("{PREFIX}{name}"), reader.path(name)?)));
    of_rust.or_else(|| others.find_map(|named| named))
}

fn named_ca(reader: &Reader<'_>) -> Option<NamedFile> {
    named(reader, "TrustedCaPath", &["TrustedCaPath"])
}

fn server_cert(reader: &Reader<'_>) -> Option<NamedFile> {
    named(reader, "ServerCertPath", &["ServerCertificatePemPath", "ServerCertificatePath"])
}

fn server_key(reader: &Reader<'_>) -> Option<NamedFile> {
    named(reader, "ServerKeyPath", &["ServerPrivateKeyPath"])
}

/// Rewrites an error of a start: the variable replaces the setting that was made from it.
pub(crate) fn explain(err: &str, var: &dyn Fn(&str) -> Option<String>) -> String {
    let reader = Reader { var, wrong: Vec::new() };
    let parts = err.split_once(": ").and_then(|(setting, rest)| Some((setting.split_once(".tls.")?, rest)));
    let Some(((place, field), rest)) = parts else { return err.to_owned() };
    let is_listener = place.starts_with("listeners[");
    let (file, usual, password) = match field {
        "cert" if is_listener => (server_cert(&reader), "ServerCertificatePath", "ServerCertificatePassword"),
        "key" if is_listener => {
            (server_key(&reader).or_else(|| server_cert(&reader)), "ServerCertificatePath", "ServerCertificatePassword")
        }
        "client_ca" | "ca" => (named_ca(&reader), "TrustedCaPath", ""),
        "cert" => (None, "OutboundClientCertificatePath", "OutboundClientCertificatePassword"),
        _ => return err.to_owned(),
    };
    let name = file.map_or_else(|| format!("{PREFIX}{usual}"), |(name, _)| name);
    let password = if rest.contains("password") { format!(" ({PREFIX}{password})") } else { String::new() };
    format!("{name}: {rest}{password}")
}

fn trusted_ca(reader: &Reader<'_>) -> PathBuf {
    named_ca(reader).map_or_else(|| absolute(&Path::new(CERTIFICATES).join("ca.cert.pem")), |(_, path)| path)
}

/// Returns the PKCS#12 file of one proxy, or certificate and key of the other.
fn server_files(reader: &Reader<'_>) -> Value {
    let key = server_key(reader).map(|(_, path)| path);
    let cert = server_cert(reader).map(|(_, path)| path);
    let cert = cert.unwrap_or_else(|| absolute(&Path::new(CERTIFICATES).join("server.pfx")));
    let is_pfx = cert.extension().is_some_and(|extension| extension == "pfx" || extension == "p12");
    match key {
        Some(key) => json!({ "cert": cert, "key": key }),
        None if is_pfx && cert.exists() => json!({ "cert": cert }),
        None if is_pfx => {
            json!({ "cert": cert.with_file_name("server.cert.pem"), "key": cert.with_file_name("server.key.pem") })
        }
        None => {
            let name = cert.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let key = name
                .strip_suffix(".cert.pem")
                .map_or_else(|| "server.key.pem".into(), |stem| format!("{stem}.key.pem"));
            json!({ "cert": cert, "key": cert.with_file_name(key) })
        }
    }
}

/// Returns the upstream, and the path prefix of its requests.
fn upstream(reader: &mut Reader<'_>, url: &str) -> (Value, Option<String>) {
    let uri = url.trim().parse::<http::Uri>().ok().filter(|uri| uri.query().is_none());
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?, uri.path())));
    let Some((scheme @ ("http" | "https"), authority, path)) =
        parts.filter(|(_, host, _)| !host.as_str().contains('@'))
    else {
        reader.wrong.push(format!("{PREFIX}UpstreamUrl: expected an absolute URL, such as https://service:8443"));
        return (Value::Null, None);
    };
    let mut upstream = json!({
        "servers": [format!("{scheme}://{authority}")],
        // Lite Gateway waited for an answer without a bound.
        "timeouts": { "connect_ms": 10_000, "response_ms": 3_600_000, "idle_ms": 120_000 },
        "connections_max": 4096,
        "idle_connections_max": 4096,
    });
    if scheme == "https" {
        upstream["tls"] = client_files(reader);
    }
    (upstream, (path.len() > 1).then(|| path.to_owned()))
}

/// TLS for the upstream: the client certificate is the configured PKCS#12 file, or the default one if it exists. The
/// system's authorities are trusted, and the clients' authority if its file exists.
fn client_files(reader: &Reader<'_>) -> Value {
    let mut tls = json!({ "system_roots": true });
    let usual = || Some(absolute(&Path::new(CERTIFICATES).join("client.pfx"))).filter(|path| path.exists());
    if let Some(cert) = reader.path("OutboundClientCertificatePath").or_else(usual) {
        tls["cert"] = json!(cert);
    }
    let ca = trusted_ca(reader);
    if reader.path("TrustedCaPath").is_some() || ca.exists() {
        tls["ca"] = json!(ca);
    }
    tls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> Result<Value, String> {
        let var = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let read = read(&var, false)?;
        Ok(serde_json::from_str(&read.text).unwrap())
    }

    #[test]
    fn the_defaults_are_three_listeners_a_delay_and_a_standalone_answer() {
        let config = config(&[]).unwrap();
        let addresses: Vec<_> = config["listeners"].as_array().unwrap().iter().map(|l| l["address"].clone()).collect();
        assert_eq!(addresses, ["0.0.0.0:8080", "0.0.0.0:8443", "0.0.0.0:9443"]);
        assert_eq!(config["routes"][0], json!({ "match": {}, "delay_ms": 5000, "standalone": "ok" }));
        assert!(config["listeners"][1]["tls"].get("client_ca").is_none());
        let ca = config["listeners"][2]["tls"]["client_ca"].as_str().unwrap();
        assert!(ca.starts_with('/') && ca.ends_with("certs/generated/ca.cert.pem"), "{ca}");
    }

    #[test]
    fn an_upstream_gets_no_added_header_but_the_customer() {
        let config = config(&[
            ("LITEGATEWAY_Proxy__UpstreamUrl", "https://cloud:8443/base"),
            ("LITEGATEWAY_Proxy__SleepDurationMs", "0"),
            ("LITEGATEWAY_Proxy__PassConnectionClose", "true"),
            ("LITEGATEWAY_Proxy__OutboundClientCertificatePath", "/c/out.pfx"),
            ("SEALWAY_CUSTOMER_ID", "plant-7"),
        ])
        .unwrap();
        let route = &config["routes"][0];
        assert_eq!((&route["forwarded"], &route["client_identity"]), (&json!(false), &json!({})));
        assert_eq!((&route["upstream_path"], &route["pass_connection_close"]), (&json!("/base"), &json!(true)));
        assert_eq!(route["request_headers"]["set"]["X-Customer-Id"], "plant-7");
        let upstream = &config["upstreams"]["upstream"];
        assert_eq!(upstream["servers"], json!(["https://cloud:8443"]));
        assert_eq!(upstream["tls"]["cert"], "/c/out.pfx");
    }

    #[test]
    fn every_variable_that_is_wrong_is_named() {
        let err = config(&[
            ("LITEGATEWAY_Proxy__HttpPort", "0"),
            ("LITEGATEWAY_Proxy__EnableMtls", "yes"),
            ("LITEGATEWAY_Proxy__SleepDurationMs", "-1"),
            ("LITEGATEWAY_Proxy__UpstreamUrl", "/relative"),
            ("LITEGATEWAY_Proxy__HttpsPort", "9443"),
        ])
        .unwrap_err();
        for name in ["HttpPort: \"0\"", "EnableMtls", "SleepDurationMs", "UpstreamUrl", "must differ"] {
            assert!(err.contains(name), "{name} in {err}");
        }
        let off = ["Http", "Https", "Mtls"].map(|name| (format!("LITEGATEWAY_Proxy__Enable{name}"), "false"));
        let off: Vec<_> = off.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert!(config(&off).unwrap_err().contains("at least one"));
    }

    #[test]
    fn an_empty_password_is_none_and_a_variable_that_another_one_overrides_is_warned_of() {
        let read = |variables: &'static [(&str, &str)]| {
            let var =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            read(&var, false).unwrap()
        };
        for (value, taken) in [(None, "changeit"), (Some(""), ""), (Some(" x "), " x ")] {
            let var = |_: &str| value.map(str::to_owned);
            assert_eq!(password(&var, "ServerCertificatePassword"), taken);
        }
        let both = read(&[
            ("LITEGATEWAY_Proxy__ServerCertificatePath", "/c/s.pfx"),
            ("LITEGATEWAY_Proxy__ServerCertificatePassword", "secret"),
            ("LITEGATEWAY_Proxy__ServerCertificatePemPath", "/c/s.pem"),
        ]);
        assert_eq!(both.warnings.len(), 2);
        for (warning, loser) in both.warnings.iter().zip(["ServerCertificatePath is", "ServerCertificatePassword is"]) {
            assert!(warning.contains(loser) && warning.contains("ServerCertificatePemPath is set"), "{warning}");
            assert!(!warning.contains("secret"));
        }
    }

    #[test]
    fn an_error_about_a_file_names_the_variable_that_named_it() {
        let none = |_: &str| None;
        let pem = |name: &str| (name == "LITEGATEWAY_Proxy__ServerCertificatePemPath").then(|| "/c/s.pem".to_owned());
        let ca = |name: &str| (name == "LITEGATEWAY_RustProxy__TrustedCaPath").then(|| "/c/ca.pem".to_owned());
        for (err, explained) in [
            (
                explain("listeners[1].tls.cert: /c/x: cannot be read", &none),
                "LITEGATEWAY_Proxy__ServerCertificatePath: /c/x",
            ),
            (
                explain("listeners[1].tls.cert: /c/x: cannot be read", &pem),
                "LITEGATEWAY_Proxy__ServerCertificatePemPath: /c/x",
            ),
            (
                explain("listeners[1].tls.key: /c/x: is no key", &pem),
                "LITEGATEWAY_Proxy__ServerCertificatePemPath: /c/x",
            ),
            (explain("listeners[2].tls.client_ca: /c/x: none", &none), "LITEGATEWAY_Proxy__TrustedCaPath: /c/x"),
            (explain("listeners[2].tls.client_ca: /c/x: none", &ca), "LITEGATEWAY_RustProxy__TrustedCaPath: /c/x"),
            (
                explain("upstreams.upstream.tls.cert: /c/x: does not open with this password", &none),
                "LITEGATEWAY_Proxy__OutboundClientCertificatePath: /c/x: does not open with this password \
                 (LITEGATEWAY_Proxy__OutboundClientCertificatePassword)",
            ),
            (explain("listeners[0].address: taken", &none), "listeners[0].address: taken"),
        ] {
            assert!(err.starts_with(explained), "{err}");
        }
    }

    #[test]
    fn a_certificate_is_found_as_either_proxy_finds_it() {
        let files = |variables: &[(&str, &str)]| config(variables).unwrap()["listeners"][1]["tls"].clone();
        let given = |path| files(&[("LITEGATEWAY_Proxy__ServerCertificatePath", path)]);
        assert_eq!(given("/c/no.pfx"), json!({ "cert": "/c/server.cert.pem", "key": "/c/server.key.pem" }));
        assert_eq!(given("/c/x.cert.pem"), json!({ "cert": "/c/x.cert.pem", "key": "/c/x.key.pem" }));
        assert_eq!(given("/c/x.pem"), json!({ "cert": "/c/x.pem", "key": "/c/server.key.pem" }));
        let pem = files(&[
            ("LITEGATEWAY_Proxy__ServerCertificatePemPath", "/c/a.pem"),
            ("LITEGATEWAY_Proxy__ServerPrivateKeyPath", "/c/a.key"),
            ("LITEGATEWAY_RustProxy__ServerCertPath", "/c/first.pem"),
        ]);
        assert_eq!(pem, json!({ "cert": "/c/first.pem", "key": "/c/a.key" }));
    }
}
