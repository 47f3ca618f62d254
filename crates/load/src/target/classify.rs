//! Classification of library errors: the class that an error counts as, and one line that says what happened and where.
//!
//! Each layer wraps the error of the layer below, so the functions here follow the chain of sources.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use rustix::io::Errno;
use rustls::{AlertDescription, CertificateError};
use sealway_runtime::clock::iso8601;

use crate::record::{Class, Failure};

/// Phase in which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The TLS handshake, before any request.
    Handshake,
    /// A request or its answer.
    Exchange,
}

/// Classifies a TCP connection attempt that failed.
pub(crate) fn connect(err: &io::Error, to: SocketAddr) -> Failure {
    if let Some(failure) = descriptors(err) {
        return failure;
    }
    match err.kind() {
        ErrorKind::ConnectionRefused => Failure::new(Class::Refused, format!("connection refused by {to}")),
        ErrorKind::HostUnreachable => Failure::new(Class::Unreachable, format!("no route to the host of {to}")),
        ErrorKind::NetworkUnreachable => Failure::new(Class::Unreachable, format!("no route to the network of {to}")),
        ErrorKind::TimedOut => Failure::new(Class::ConnectTimeout, format!("no response from {to}")),
        ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => Failure::new(
            Class::OutOfPorts,
            format!("all local ports towards {to} are in use: add --source addresses, or reuse connections"),
        ),
        ErrorKind::ConnectionReset => Failure::new(Class::Reset, format!("{to} reset the connection at once")),
        _ => Failure::new(Class::Connect, format!("no connection to {to}: {err}")),
    }
}

/// Classifies a socket that could not be created or bound to this source address.
pub(crate) fn source(err: &io::Error, source: std::net::IpAddr) -> Failure {
    if let Some(failure) = descriptors(err) {
        return failure;
    }
    match err.kind() {
        ErrorKind::AddrInUse => Failure::new(
            Class::OutOfPorts,
            format!("all local ports of {source} are in use: add --source addresses, or reuse connections"),
        ),
        ErrorKind::AddrNotAvailable => {
            Failure::new(Class::Connect, format!("the source address {source} is not an address of this machine"))
        }
        _ => Failure::new(Class::Connect, format!("cannot connect from {source}: {err}")),
    }
}

fn descriptors(err: &io::Error) -> Option<Failure> {
    let errno = Errno::from_io_error(err)?;
    let what = match errno {
        Errno::MFILE => match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            Some(limit) => format!("no file descriptors left (limit {limit}): raise it with ulimit -n"),
            None => "no file descriptors left".to_owned(),
        },
        Errno::NFILE => "no file descriptors left on this machine (fs.file-max)".to_owned(),
        _ => return None,
    };
    Some(Failure::new(Class::OutOfDescriptors, what))
}

/// Classifies any error of an established connection to `to`, by its root cause.
pub(crate) fn of(err: &(dyn Error + 'static), at: At, to: impl Display) -> Failure {
    let mut next = Some(err);
    while let Some(err) = next {
        if let Some(tls) = err.downcast_ref::<rustls::Error>() {
            return of_tls(tls, &to);
        }
        if let Some(io) = err.downcast_ref::<io::Error>() {
            match io.get_ref() {
                // The source of an `io::Error` is not the error it wraps, but that error's source.
                Some(inner) if !is_plain(inner) => {
                    next = Some(inner);
                    continue;
                }
                _ => return of_io(io, at, &to),
            }
        }
        next = err.source();
    }
    let broken = if at == At::Handshake { Class::Tls } else { Class::Malformed };
    Failure::new(broken, format!("{} ({to})", chain(err)))
}

/// Returns whether the error is text only, which says less than the kind of the `io::Error` around it.
fn is_plain(err: &(dyn Error + Send + Sync + 'static)) -> bool {
    !err.is::<rustls::Error>() && !err.is::<io::Error>() && err.source().is_none()
}

fn of_io(err: &io::Error, at: At, to: &dyn Display) -> Failure {
    let when = match at {
        At::Handshake => " during the TLS handshake",
        At::Exchange => "",
    };
    match err.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            Failure::new(Class::Reset, format!("{to} reset the connection{when}"))
        }
        ErrorKind::UnexpectedEof | ErrorKind::NotConnected => {
            let when = if at == At::Handshake { when } else { " before its response was complete" };
            Failure::new(Class::Closed, format!("{to} closed the connection{when}"))
        }
        ErrorKind::TimedOut => Failure::new(Class::Reset, format!("{to} stopped responding: {err}")),
        _ if at == At::Handshake => Failure::new(Class::Tls, format!("no TLS with {to}: {err}")),
        ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            Failure::new(Class::Malformed, format!("{to} violated the protocol: {err}"))
        }
        _ => Failure::new(Class::Reset, format!("the connection to {to} failed: {err}")),
    }
}

/// Classifies a TLS error by its alert or its certificate error.
pub(crate) fn of_tls(err: &rustls::Error, to: &dyn Display) -> Failure {
    use rustls::Error as Tls;
    match err {
        Tls::AlertReceived(alert) => {
            Failure::new(Class::TlsAlert, format!("{to} ended the connection with the alert `{}`", alert_name(*alert)))
        }
        Tls::InvalidCertificate(err) => Failure::new(Class::Certificate, certificate(err, to)),
        Tls::NoCertificatesPresented => Failure::new(Class::Certificate, format!("{to} sent no certificate")),
        Tls::InvalidMessage(_) => {
            Failure::new(Class::Tls, format!("{to} does not speak TLS: is it a plain HTTP port?"))
        }
        Tls::PeerIncompatible(why) => {
            let why = words(&format!("{why:?}"));
            Failure::new(Class::Tls, format!("no common TLS parameters with {to}: {why}"))
        }
        err => Failure::new(Class::Tls, format!("no TLS with {to}: {err}")),
    }
}

fn certificate(err: &CertificateError, to: &dyn Display) -> String {
    let date = |time: &rustls::pki_types::UnixTime| {
        let text = iso8601(time.as_secs().saturating_mul(1000));
        text.split('T').next().unwrap_or_default().to_owned()
    };
    match err {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the certificate of {to} expired on {}", date(not_after))
        }
        CertificateError::Expired => format!("the certificate of {to} has expired"),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the certificate of {to} is not valid before {}", date(not_before))
        }
        CertificateError::NotValidYet => format!("the certificate of {to} is not valid yet"),
        CertificateError::UnknownIssuer => {
            format!("the certificate of {to} is not signed by a trusted authority; give its authority with --ca")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") };
            format!("the certificate of {to} is not valid for the name {}: it is for {names}", expected.to_str())
        }
        CertificateError::NotValidForName => format!("the certificate of {to} is not valid for its name"),
        CertificateError::BadSignature => format!("the certificate of {to} was not signed by its authority"),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("the certificate of {to} is not for servers (extended key usage serverAuth)")
        }
        CertificateError::Revoked => format!("the certificate of {to} is revoked"),
        err => format!("the certificate of {to} cannot be trusted: {err}"),
    }
}

/// Returns the alert's name as RFC 8446 writes it, with spaces: `certificate required`.
fn alert_name(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => "unknown ca".to_owned(),
        AlertDescription::UnknownPSKIdentity => "unknown psk identity".to_owned(),
        alert => match alert.as_str() {
            Some(name) => words(name),
            None => format!("number {}", u8::from(alert)),
        },
    }
}

/// Turns camel case into words: `CertificateRequired` becomes `certificate required`.
fn words(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 && !text.ends_with(' ') {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// Joins an error and its sources into one line of at most 300 characters.
pub(crate) fn chain(err: &(dyn Error + 'static)) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let more = err.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = err.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::UnixTime;

    use super::*;

    const TO: &str = "127.0.0.1:8443";

    fn at_exchange(err: io::Error) -> Failure {
        of(&err, At::Exchange, TO)
    }

    #[test]
    fn a_connection_that_is_not_opened_says_why_and_where() {
        let shown = |errno: Errno| connect(&errno.into(), "127.0.0.1:8443".parse().unwrap());
        assert_eq!(shown(Errno::CONNREFUSED).to_string(), "refused: connection refused by 127.0.0.1:8443");
        assert_eq!(shown(Errno::HOSTUNREACH).class, Class::Unreachable);
        assert_eq!(shown(Errno::NETUNREACH).class, Class::Unreachable);
        assert_eq!(shown(Errno::TIMEDOUT).class, Class::ConnectTimeout);
        assert_eq!(shown(Errno::ADDRNOTAVAIL).class, Class::OutOfPorts);
        assert_eq!(shown(Errno::ADDRINUSE).class, Class::OutOfPorts);
        assert_eq!(shown(Errno::NFILE).class, Class::OutOfDescriptors);
        assert_eq!(shown(Errno::ACCESS).class, Class::Connect);
        let shown = shown(Errno::MFILE);
        assert!(shown.class == Class::OutOfDescriptors && shown.detail.contains("limit "), "{shown}");
    }

    #[test]
    fn tls_is_reported_by_its_name_however_deep_it_lies() {
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
        let io = io::Error::new(ErrorKind::InvalidData, alert);
        let deep = io::Error::other(io);
        let failure = at_exchange(deep);
        assert_eq!(failure.class, Class::TlsAlert);
        assert_eq!(failure.detail, "127.0.0.1:8443 ended the connection with the alert `certificate required`");
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_reported_in_words() {
        let second = |secs| UnixTime::since_unix_epoch(std::time::Duration::from_secs(secs));
        let shown = |err: CertificateError| of_tls(&rustls::Error::InvalidCertificate(err), &TO).detail;
        let expired =
            CertificateError::ExpiredContext { time: second(1_700_000_000), not_after: second(1_600_000_000) };
        assert_eq!(shown(expired), "the certificate of 127.0.0.1:8443 expired on 2020-09-13");
        assert!(shown(CertificateError::UnknownIssuer).ends_with("give its authority with --ca"));
        let name = CertificateError::NotValidForNameContext {
            expected: "a.example".try_into().unwrap(),
            presented: vec!["b.example".to_owned()],
        };
        assert!(shown(name).contains("not valid for the name a.example: it is for b.example"));
    }

    #[test]
    fn a_connection_that_breaks_is_reset_or_closed() {
        assert_eq!(at_exchange(Errno::CONNRESET.into()).class, Class::Reset);
        assert_eq!(at_exchange(Errno::PIPE.into()).class, Class::Reset);
        assert_eq!(at_exchange(ErrorKind::UnexpectedEof.into()).class, Class::Closed);
        assert_eq!(at_exchange(io::Error::new(ErrorKind::UnexpectedEof, "no close_notify")).class, Class::Closed);
        let eof = io::Error::new(ErrorKind::UnexpectedEof, "tls handshake eof");
        assert!(of(&eof, At::Handshake, TO).detail.ends_with("closed the connection during the TLS handshake"));
    }
}
