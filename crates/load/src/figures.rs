//! Formats figures for the terminal: as in reports, and in a shorter form for narrow columns.

use std::time::Duration;

use crate::plan::{Arrival, Plan, Protocol};
use crate::progress::OfferedLoad;
use crate::report::units::{self, digits};
pub(crate) use crate::report::units::{bytes, count, counted, length, share};

/// Formats a time in nanoseconds as reports do.
pub(crate) fn time(ns: u64) -> String {
    units::time(ns as f64)
}

/// Formats a length of time for people, rounded to whole seconds: `12 s`, `2 min 05 s`, `1 h 02 min`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Formats a length of time as [`clock`] does, but with tenths of a second below one hour: `16.3 s`, `2 min 05.3 s`.
pub(crate) fn moment(at: Duration) -> String {
    let tenths = (at.as_secs_f64() * 10.0).round() as u64;
    let (seconds, tenth) = (tenths / 10, tenths % 10);
    match seconds {
        _ if tenth == 0 => clock(at),
        0..100 => format!("{seconds}.{tenth} s"),
        100..3600 => format!("{} min {:02}.{tenth} s", seconds / 60, seconds % 60),
        _ => clock(at),
    }
}

/// Formats an estimated length of time as [`clock`] does, but from two minutes to an hour in whole minutes, rounded up.
pub(crate) fn clock_about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 120..3600 => format!("{} min", seconds.div_ceil(60)),
        _ => clock(time),
    }
}

/// Formats a rate without its unit: `0`, `1.23`, `12.3`, `12,345`. A rate that is negative or not finite becomes `0`.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() || rate <= 0.0 => "0".to_owned(),
        rate if rate >= 99.95 => count(rate.round() as u64),
        rate => digits(rate),
    }
}

/// Formats a large number for a narrow column: `950`, `12.3k`, `1.23M`.
pub(crate) fn short(value: f64) -> String {
    match value {
        value if value >= 999.5e6 => format!("{}G", digits(value / 1e9)),
        value if value >= 999.5e3 => format!("{}M", digits(value / 1e6)),
        value if value >= 999.5 => format!("{}k", digits(value / 1e3)),
        value if value.fract() == 0.0 => format!("{value:.0}"),
        value => digits(value),
    }
}

/// Formats a part of a whole as [`share`] does; of a whole of 0 it is 0 %.
pub(crate) fn part(part: u64, whole: u64) -> String {
    share(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// Formats an offered load: `64 workers`, `5,000/s`.
pub(crate) fn offered(offered: OfferedLoad) -> String {
    match offered {
        OfferedLoad::Concurrency(workers) => counted(workers, "worker"),
        OfferedLoad::Rate(per_second) => format!("{}/s", rate(per_second)),
    }
}

/// Formats the load that a plan offers: `64 workers`, `up to 5,000/s`, `4 bursts of 3,000 every 5.00 s`.
pub(crate) fn arrival(plan: &Plan) -> String {
    let up_to = |stages: usize| if stages > 1 { "up to " } else { "" };
    match &plan.arrival {
        Arrival::Closed { concurrency, .. } => {
            let workers = OfferedLoad::Concurrency(concurrency.max().round() as u64);
            format!("{}{}", up_to(concurrency.0.len()), offered(workers))
        }
        Arrival::Open { rate, .. } => format!("{}{}", up_to(rate.0.len()), offered(OfferedLoad::Rate(rate.max()))),
        Arrival::Bursts { burst, every, times } => {
            let each = count(*burst as u64);
            match times {
                1 => format!("1 burst of {each}"),
                _ => format!("{times} bursts of {each} every {}", length(*every)),
            }
        }
    }
}

/// Formats the target of a plan, without what may be secret: the query, and a user and password before the host.
pub(crate) fn target(plan: &Plan) -> String {
    let url = &plan.target.url;
    if let Some(broker) = &plan.target.broker {
        return clean(&format!("broker://{}", broker.socket.display()));
    }
    let host = url.host().unwrap_or_default();
    let port = url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    let path = plan.request.path.split(['?', '#']).next().unwrap_or_default();
    clean(&format!("{}://{host}{port}{path}", url.scheme_str().unwrap_or("http")))
}

/// Names the protocol of a plan: `HTTP/1.1`, `HTTP/2 over TLS, sealed`.
pub(crate) fn protocol(plan: &Plan) -> String {
    let name = match plan.target.protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
        Protocol::Http3 => "HTTP/3",
        Protocol::WebSocket => "WebSocket",
        Protocol::Broker => return format!("broker{}", broker(plan)),
        Protocol::Channel => "channel",
    };
    let tls = if plan.target.tls.is_some() && plan.target.protocol != Protocol::Http3 { " over TLS" } else { "" };
    let sealed = if plan.target.sealed.is_some() { ", sealed" } else { "" };
    format!("{name}{tls}{sealed}")
}

fn broker(plan: &Plan) -> String {
    let Some(broker) = &plan.target.broker else { return String::new() };
    let mut text = format!(" ({}", broker.wire.name());
    if broker.operation.has_length() {
        text.push_str(&format!(", {} bytes", broker.input_len));
    }
    if broker.operation.has_batch() {
        text.push_str(&format!(", {} per call", broker.batch));
    }
    text + ")"
}

/// Replaces control characters by spaces, so that a server's text stays on one line and cannot move the terminal's cursor.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_rates_are_short() {
        let shown = [0, 59, 125, 3725].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "59 s", "2 min 05 s", "1 h 02 min"]);
        assert_eq!(
            [59, 125, 3725].map(|seconds| clock_about(Duration::from_secs(seconds))),
            ["59 s", "3 min", "1 h 02 min"]
        );
        let moments = [0, 16_000, 16_312, 125_260, 3_725_300].map(|ms| moment(Duration::from_millis(ms)));
        assert_eq!(moments, ["0 s", "16 s", "16.3 s", "2 min 05.3 s", "1 h 02 min"]);
        assert_eq!([0.0, f64::NAN, 1.234, 99.96, 12_345.6].map(rate), ["0", "0", "1.23", "100", "12,346"]);
        assert_eq!([5.0, 950.0, 12_300.0, 1_234_567.0].map(short), ["5", "950", "12.3k", "1.23M"]);
        assert_eq!((part(1, 8), part(0, 0)), ("12.5 %".to_owned(), "0 %".to_owned()));
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(clean("a\x1b[2Jb\r\nc\u{9b}1m"), "a [2Jb  c 1m");
    }
}
