//! The inventory of a running gateway, from its admin listener.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http::Uri;
use sealway_runtime::inventory::DOCUMENT_LEN_MAX;
use sealway_runtime::output::Usage;
use zeroize::Zeroizing;

/// Longest time for one read or write.
const STEP: Duration = Duration::from_secs(10);
/// Longest token file, in bytes.
const TOKEN_LEN_MAX: u64 = 4096;

/// Asks an admin listener on this machine for its inventory. The token goes nowhere else.
///
/// # Errors
/// Another address, no token, no answer, or another status.
pub(super) fn inventory(url: &str, token_file: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let file = token_file.ok_or_else(|| Usage::new("--token-file: required for an admin listener"))?;
    let mut token = Zeroizing::new(String::new());
    let opened = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    opened.take(TOKEN_LEN_MAX).read_to_string(&mut token).with_context(|| file.display().to_string())?;
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("{}: expected one line of visible ASCII characters", file.display());
    }
    let uri: Uri = url.parse().map_err(|_| Usage::new("expected http://HOST:PORT"))?;
    let (host, port) = (uri.host().unwrap_or_default().trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
    let address = (host, port).to_socket_addrs()?.find(|address| address.ip().is_loopback());
    let address =
        address.ok_or_else(|| Usage::new("expected an address of this machine: 127.0.0.1, [::1] or localhost"))?;
    let mut stream = TcpStream::connect_timeout(&address, STEP)?;
    stream.set_read_timeout(Some(STEP))?;
    stream.set_write_timeout(Some(STEP))?;
    let request = Zeroizing::new(format!(
        "GET /admin/inventory HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    ));
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(DOCUMENT_LEN_MAX + 64 * 1024).read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(|| anyhow!("no answer in HTTP/1"))?;
    let head = String::from_utf8_lossy(answer.get(..end).unwrap_or_default()).into_owned();
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        bail!("the admin listener answered {}", super::shown(status));
    }
    Ok(answer.split_off(end + 4))
}
