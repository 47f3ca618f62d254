//! Parsers of flag values of `relay` and `channel`. Each error names the expected form.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use clap::Command;
use sealway_proto::channel::Suite;
use sealway_runtime::listener::parse_address;

/// Accepts `-5` after a flag as its value, so that the error names the flag.
pub(crate) fn with_negative_numbers(command: Command) -> Command {
    let options = |arg: clap::Arg| {
        let is_option = !arg.is_positional() && arg.get_action().takes_values();
        if is_option { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(options).mut_subcommands(with_negative_numbers)
}

/// Addresses of one flag: `localhost` has two.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(pub(crate) Vec<SocketAddr>);

pub(crate) fn addresses(text: &str) -> Result<Addresses, String> {
    parse_address(text).map(Addresses)
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an address and port, such as 127.0.0.1:7000".into())
}

/// Parses a whole number within bounds.
pub(crate) fn whole<T: TryFrom<u64>>(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number =
            text.parse().ok().filter(|number| bounds.contains(number)).and_then(|number| number.try_into().ok());
        number.ok_or_else(|| match *bounds.end() {
            u64::MAX => format!("expected a whole number from {}", bounds.start()),
            end => format!("expected a whole number from {} to {end}", bounds.start()),
        })
    }
}

/// Parses a text of 1 to `len_max` bytes.
pub(crate) fn text(len_max: usize) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| {
        let fits = (1..=len_max).contains(&text.len());
        fits.then(|| text.to_owned()).ok_or_else(|| format!("expected 1 to {len_max} bytes"))
    }
}

pub(crate) fn path_of_url(text: &str) -> Result<String, String> {
    if text.starts_with('/') { Ok(text.into()) } else { Err("expected a path that begins with /, such as /ws".into()) }
}

pub(crate) fn relay_url(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    let is_relay = url.is_some_and(|url| matches!(url.scheme_str(), Some("ws" | "wss")) && url.host().is_some());
    is_relay.then(|| text.to_owned()).ok_or_else(|| "expected ws://HOST:PORT/PATH or wss://HOST:PORT/PATH".into())
}

/// Parses a pattern that the relay's `is_allowed` can compare with an `Origin`.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let is_host = !text.is_empty() && !text.contains(|sign: char| sign == '/' || sign.is_whitespace());
    if is_host || text.contains("://") {
        return Ok(text.into());
    }
    Err("expected an origin such as https://app.example, a host, a host and port, or *.HOST".into())
}

pub(crate) fn suite(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let known = number.ok().filter(|number| Suite::from_id(*number).is_ok());
    known.ok_or_else(|| "expected the number of a suite, such as 0x104 (native) or 1 (flowersec-v1)".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_or_refused_with_what_is_expected() {
        assert_eq!(whole::<u32>(1..=9)("9").unwrap(), 9);
        assert_eq!(whole::<u32>(1..=9)("-5").unwrap_err(), "expected a whole number from 1 to 9");
        assert_eq!(whole::<usize>(0..=u64::MAX)("x").unwrap_err(), "expected a whole number from 0");
        assert_eq!(whole::<u8>(0..=300)("256").unwrap_err(), "expected a whole number from 0 to 300");
        assert!(text(3)("abc").is_ok() && text(3)("").is_err() && text(3)("abcd").is_err());
        assert!(["ws://r/ws", "wss://[::1]:1"].iter().all(|url| relay_url(url).is_ok()));
        assert!(["", "r", "http://r/ws", "ws:///x", "ws//r", "ws://a b"].iter().all(|url| relay_url(url).is_err()));
        let origins = ["https://app.example", "app.example:8080", "*.app.example", "null", "chrome-extension://x"];
        assert!(origins.iter().all(|value| origin(value).is_ok()));
        assert!(["", "a b", "htt:p//", "/x"].iter().all(|value| origin(value).is_err()));
        assert_eq!((suite("0x104").unwrap(), suite("2").unwrap()), (0x104, 2));
        assert!(["", "0", "0x9999", "0x108", "-1", "x"].iter().all(|value| suite(value).is_err()));
    }
}
