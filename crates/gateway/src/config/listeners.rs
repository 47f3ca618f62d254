//! Section `listeners:` of the configuration.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealway_runtime::config::{FilePath, Flag, Problems, relative_to};
use sealway_runtime::listener::parse_address;
use sealway_runtime::tls::{AllowPattern, ClientAuth, Secret, ServerFiles, TlsError};
use serde::{Deserialize, Serialize};

use super::OneOrMany;
use super::pkcs11::{self, Tokens};
use crate::policy::TrustedProxies;
use crate::upstream::UNIX_PATH_MAX;

/// Prefix of an address on a Unix socket.
const UNIX: &str = "unix:";

/// An entry of `listeners:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawListener {
    /// Name by which routes refer to the listener; not empty, and unique.
    /// - default: `listeners[N]`, by its index
    name: Option<String>,
    /// `IP:PORT`, `[IPv6]:PORT`, `localhost:PORT` for 127.0.0.1 and [::1], or `unix:PATH`. Port 0 takes a free one. No two
    /// listeners on one address, the admin listener included; nor on one port if one of them has all addresses
    /// (`0.0.0.0`), unless both set `reuse_port`.
    address: String,
    /// TLS of the listener; the keys are below.
    /// - default: none: plain
    tls: Option<RawTls>,
    /// Trusted proxies: networks (`10.0.0.0/8`), addresses, or `unix:` for a Unix socket's peers. Their forwarding headers
    /// are kept, and the client's address is the last one in `X-Forwarded-For` that is not a trusted proxy's.
    trusted_proxies: Option<OneOrMany>,
    /// Allows another process to listen on the same address (`SO_REUSEPORT`), to take its place.
    reuse_port: Flag<false>,
    /// Name of the setting in errors, instead of its path in the configuration: a flag.
    #[serde(skip)]
    setting: Option<String>,
}

/// `tls:` of a listener as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawTls {
    /// PEM, the server's certificate first; or PKCS#12.
    cert: FilePath,
    /// PEM: PKCS#8, SEC1 or PKCS#1, not encrypted. Or a key on a token of [`pkcs11`](#pkcs11):
    /// `pkcs11:token=LABEL;object=LABEL;type=private`, RSA of at least 2048 bits, or ECDSA on P-256 or P-384; `cert` is PEM then
    /// ([keep-keys-in-an-hsm.md](../guides/keep-keys-in-an-hsm.md#keys-of-tls-listeners)).
    /// - default: in `cert`
    key: Option<FilePath>,
    /// Password of a PKCS#12 file, one line.
    password_file: Option<FilePath>,
    /// Authorities that sign clients, in PEM. Without them no certificate is requested.
    /// - type: path or list
    client_ca: Option<OneOrMany>,
    /// `required`: clients without a certificate are rejected. `optional`: they are accepted.
    /// - default: `required` with `client_ca`
    client_auth: Option<RawClientAuth>,
    /// Lists of revoked certificates, PEM or DER.
    /// - type: path or list
    crl: Option<OneOrMany>,
    /// Names of which a client's certificate must have one: `spiffe://plant/*`, `URI:…`, `DNS:…`, `CN=…`, `SHA256:…`
    /// ([certificates.md](../guides/certificates.md#who-is-let-in)).
    /// - default: any
    allow: Option<OneOrMany>,
    /// OCSP response in DER, stapled.
    ocsp: Option<FilePath>,
    /// Lowest version of TLS.
    /// - default: `"1.2"`
    min_version: Option<MinVersion>,
    /// Password of a process without a file for it.
    #[serde(skip)]
    password: Option<Secret>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawClientAuth {
    Required,
    Optional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum MinVersion {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

impl RawListener {
    /// Changes the port of the address.
    pub fn set_port(&mut self, port: u16) {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        self.address = format!("{host}:{port}");
    }

    /// Sets the password of a PKCS#12 file that does not come from a file.
    pub fn set_tls_password(&mut self, password: &Secret) {
        if let Some(tls) = &mut self.tls {
            tls.password = Some(password.clone());
        }
    }

    /// Sets the flag that the address came from, for errors.
    pub fn set_setting(&mut self, setting: &str) {
        self.setting = Some(setting.to_owned());
    }
}

/// Address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP: one address, or both loopback addresses.
    Tcp(Vec<SocketAddr>),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl Place {
    /// Parses `IP:PORT`, `localhost:PORT` or `unix:PATH`, which is relative to the folder of `file`.
    ///
    /// # Errors
    /// A sentence that says which form is expected.
    pub fn parse(text: &str, file: Option<&Path>) -> Result<Self, String> {
        let Some(path) = text.strip_prefix(UNIX) else { return parse_address(text).map(Place::Tcp) };
        if path.is_empty() || path.len() > UNIX_PATH_MAX {
            return Err(format!("\"{text}\": a Unix socket's path has 1 to {UNIX_PATH_MAX} bytes"));
        }
        Ok(Place::Unix(relative_to(file, path)))
    }

    /// True if both cannot be bound at once: the same address, or the same port if one of them has all addresses. Port
    /// 0 never collides.
    pub fn collides(&self, other: &Place) -> bool {
        let is_taken = |mine: &SocketAddr, theirs: &SocketAddr| {
            let is_any = mine.ip().is_unspecified() || theirs.ip().is_unspecified();
            let is_one = mine.ip() == theirs.ip() || (is_any && mine.is_ipv4() == theirs.is_ipv4());
            mine.port() != 0 && mine.port() == theirs.port() && is_one
        };
        match (self, other) {
            (Place::Tcp(mine), Place::Tcp(theirs)) => {
                mine.iter().any(|mine| theirs.iter().any(|it| is_taken(mine, it)))
            }
            (Place::Unix(mine), Place::Unix(theirs)) => mine == theirs,
            _ => false,
        }
    }
}

/// A listener after the checks.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Name of the listener; by default its place in the list.
    pub name: Arc<str>,
    /// Path in the configuration, for errors.
    pub setting: String,
    /// Address on which it listens.
    pub place: Place,
    /// TLS files and settings; `None` for plain HTTP.
    pub tls: Option<ServerFiles>,
    /// Proxies trusted on this listener.
    pub trusted: TrustedProxies,
    /// True if another process may listen on the same address (`SO_REUSEPORT`).
    pub reuse_port: bool,
}

impl Listener {
    /// True if `other` is the same listener for clients. The position in the configuration does not matter, and trusted
    /// proxies belong to the gateway.
    pub fn serves_as(&self, other: &Listener) -> bool {
        let bound_alike = self.name == other.name && self.place == other.place && self.reuse_port == other.reuse_port;
        bound_alike && self.has_same_tls(other)
    }

    /// Formats an error of the listener's TLS files, with the setting that names them.
    pub(crate) fn tls_problem(&self, err: &TlsError) -> String {
        self.tls_setting(&err.to_string())
    }

    /// Returns the path of a setting in the listener's TLS section.
    pub(crate) fn tls_setting(&self, name: &str) -> String {
        let at = self.setting.strip_suffix(".address").unwrap_or(&self.setting);
        format!("{at}.tls.{name}")
    }

    /// True if both have the same TLS settings.
    pub fn has_same_tls(&self, other: &Listener) -> bool {
        // Compared as text: a secret in it is hidden, but a configuration that can be reloaded contains none.
        format!("{:?}", self.tls) == format!("{:?}", other.tls)
    }
}

/// Checks all listeners; `file` is the path of the configuration file.
pub(super) fn resolve(
    raw: &[RawListener],
    tokens: &Tokens,
    file: Option<&Path>,
    problems: &mut Problems,
) -> Vec<Listener> {
    if raw.is_empty() {
        problems.add("listeners", "expected at least one listener");
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for (index, listener) in raw.iter().enumerate() {
        let setting = format!("listeners[{index}]");
        let name: Arc<str> = listener.name.clone().unwrap_or_else(|| setting.clone()).into();
        let path = format!("{setting}.address");
        let place = problems.take(&path, Place::parse(&listener.address, file)).unwrap_or(Place::Tcp(Vec::new()));
        if name.is_empty() {
            problems.add(format!("{setting}.name"), "a name has at least one character");
        }
        for other in &listeners {
            if other.name == name {
                problems.add(format!("{setting}.name"), format!("\"{name}\" stands twice"));
            }
            // The kernel lets one address and all addresses share a port if both sockets set the option.
            let shares = listener.reuse_port.get() && other.reuse_port && place != other.place;
            if place.collides(&other.place) && !shares {
                problems.add(&path, format!("{} is also {}", listener.address, other.setting));
            }
        }
        if listener.reuse_port.given().is_some() && matches!(place, Place::Unix(_)) {
            problems.add(format!("{setting}.reuse_port"), "a Unix socket has no port");
        }
        listeners.push(Listener {
            name,
            tls: listener.tls.as_ref().map(|tls| tls.resolve(&format!("{setting}.tls"), tokens, file, problems)),
            trusted: resolve_trusted(&setting, listener, problems),
            reuse_port: listener.reuse_port.get(),
            setting: listener.setting.clone().unwrap_or(path),
            place,
        });
    }
    listeners
}

fn resolve_trusted(setting: &str, listener: &RawListener, problems: &mut Problems) -> TrustedProxies {
    let mut trusted = TrustedProxies::default();
    let at = format!("{setting}.trusted_proxies");
    for text in OneOrMany::checked(listener.trusted_proxies.as_ref(), &at, problems) {
        let network = text.parse().or_else(|_| text.parse().map(|address: std::net::IpAddr| address.into()));
        match network {
            _ if text == UNIX => trusted.unix = true,
            Ok(network) => trusted.networks.push(network),
            Err(_) => problems
                .add(&at, format!("\"{text}\" is no network, such as 10.0.0.0/8, 2001:db8::/32, 192.0.2.7 or unix:")),
        }
    }
    trusted
}

impl RawTls {
    /// Checks the section at the path `at` of the configuration, whose file is `file`. The key may be on one of `tokens`.
    pub fn resolve(&self, at: &str, tokens: &Tokens, file: Option<&Path>, problems: &mut Problems) -> ServerFiles {
        let mut paths = |name: &str, list: &Option<OneOrMany>| {
            let at = format!("{at}.{name}");
            let list = OneOrMany::checked(list.as_ref(), &at, problems);
            list.iter().map(|text| problems.file(&at, file, text)).collect::<Vec<_>>()
        };
        let (client_ca, crl) = (paths("client_ca", &self.client_ca), paths("crl", &self.crl));
        let client_auth = match (client_ca.is_empty(), self.client_auth) {
            (true, None) => ClientAuth::None,
            (true, Some(_)) => {
                problems.add(format!("{at}.client_auth"), "there is no client_ca to verify clients by");
                ClientAuth::None
            }
            (false, Some(RawClientAuth::Optional)) => ClientAuth::Optional,
            (false, _) => ClientAuth::Required,
        };
        for (name, list) in [("crl", &self.crl), ("allow", &self.allow)] {
            if client_ca.is_empty() && list.is_some() {
                problems.add(format!("{at}.{name}"), "there is no client_ca to verify clients by");
            }
        }
        let patterns = OneOrMany::checked(self.allow.as_ref(), &format!("{at}.allow"), problems);
        let allow = patterns
            .iter()
            .enumerate()
            .filter_map(|(index, text)| problems.take(format!("{at}.allow[{index}]"), AllowPattern::parse(text)))
            .collect();
        let (uri, key) = match self.key.as_ref() {
            Some(text) if text.starts_with(pkcs11::SCHEME) => (Some(text), None),
            key => (None, key),
        };
        let external_key = uri.and_then(|uri| problems.take(format!("{at}.key"), tokens.key(uri)));
        if uri.is_some() && self.password_file.is_some() {
            problems.add(format!("{at}.password_file"), "it is for a PKCS#12 file, and the key is on a token");
        }
        let mut path = |name: &str, text: &String| problems.file(&format!("{at}.{name}"), file, text);
        ServerFiles {
            cert: path("cert", &self.cert),
            key: key.map(|text| path("key", text)),
            external_key,
            password_file: self.password_file.as_ref().map(|text| path("password_file", text)),
            password: self.password.clone(),
            client_ca,
            client_auth,
            allow,
            crl,
            ocsp: self.ocsp.as_ref().map(|text| path("ocsp", text)),
            tls13_only: self.min_version == Some(MinVersion::Tls13),
            alpn: None,
        }
    }
}
