//! Translates the flags and the environment of Lite Gateway's load client.
//!
//! Names, defaults and exit codes are those of that client. These differ on purpose: percentiles come from a histogram and not
//! from the upper ends of 30 buckets; a request that is cut at the end counts as unfinished; connections are always counted; a
//! matrix searches for the knee, which may be below its least concurrency; HTTP/2 without TLS is used only if the server supports
//! it.

use std::collections::BTreeMap;
use std::time::Duration;

use sealway_runtime::config::{ConfigError, Problems};
use sealway_runtime::tls::Secret;

use crate::flags::values::{self, HOUR, parse_time, time_text};
use crate::flags::{AutotuneFlags, Flags, MatrixFlags};

/// Prefix of the client's environment variables.
const PREFIX: &str = "LITEGATEWAY_LOADCLIENT_";

/// Flags of the client that a value follows, separated by blanks.
const VALUE_FLAGS: &str = "mode url cert-pfx cert-password custom-ca concurrency duration timeout max-request-time ramp-percent-per-second \
    refresh-interval http-version profile matrix-http-url matrix-https-url matrix-mtls-url matrix-run-duration \
    autotune-min-concurrency autotune-max-concurrency autotune-growth-factor autotune-max-error-pct \
    autotune-binary-steps ramp-seconds loops-per-worker assert-status-code assert-json-path correlation-prefix \
    correlation-start correlation-query-param request-body-template fail-on-errors";
/// Flags of the client without a value.
const SWITCHES: [&str; 4] = ["connection-close", "track-opened-connections", "help", "h"];

/// Help text for these flags.
pub(crate) const HELP: &str = "\
The flags of Lite Gateway's load client, each also LITEGATEWAY_LOADCLIENT_<NAME>; names in any case, --x v or --x=v:

  --mode single|matrix               single with --url, else matrix
  --url URL                          http or https
  --cert-pfx FILE                    PKCS#12 [CLIENT_PFX]
  --cert-password WORD               its password; prefer the variable [CLIENT_PFX_PASSWORD]
  --custom-ca FILE                   the only trusted authority; host names are then not checked [CLIENT_CA_CERT]
  --concurrency N                    1 to 1,000,000 workers [64]
  --duration TIME                    seconds or hh:mm:ss [60]
  --timeout TIME                     to open a connection [30]
  --max-request-time TIME            for a request [10]
  --ramp-percent-per-second N        0 to 100; 0 starts all at once [10]
  --ramp-seconds TIME                the same, as a time
  --loops-per-worker N               requests per worker; 0: no bound
  --http-version 1.1|2|3             [2]
  --connection-close                 needs 1.1
  --profile balanced|reuse-first     accepted, no effect: connections are reused
  --track-opened-connections         accepted, no effect: connections are always counted
  --refresh-interval TIME            of plain lines [1]
  --request-body-template FILE       POST with {{correlationId}} {{counter}} {{timestamp}}
  --correlation-prefix TEXT          [5ac318d4-5e88-4b37-8ed1-]
  --correlation-start N              [30000000]
  --correlation-query-param NAME     adds NAME=<prefix><counter> to the query
  --assert-status-code N
  --assert-json-path PATH            has the value <prefix><counter>
  --fail-on-errors true|false        exit code 1 if a request failed [false]
  --matrix-http-url, --matrix-https-url, --matrix-mtls-url URL
  --matrix-run-duration TIME         of each run [20]
  --autotune-min-concurrency N       [256]     --autotune-max-concurrency N  [8192]
  --autotune-growth-factor N         [2]       --autotune-max-error-pct N    [2]
  --autotune-binary-steps N          0 to 20, load points between two [5]
";

/// Action that the client's flags ask for.
#[derive(Debug)]
pub(crate) enum Action {
    /// Prints [`HELP`] and nothing else.
    Help,
    /// Runs one plan at a single URL.
    Single {
        /// URL of the target, unchecked.
        url: String,
        /// All other flags of the run.
        flags: Box<Flags>,
    },
    /// Tunes each of six cells.
    Matrix {
        /// Flags of the six cells.
        matrix: Box<MatrixFlags>,
        /// Flags of the search in each cell.
        search: Box<AutotuneFlags>,
        /// Flags that all cells have in common.
        flags: Box<Flags>,
    },
}

/// Meaning of the client's flags and variables.
#[derive(Debug)]
pub(crate) struct Translation {
    /// Action to take, with its flags.
    pub(crate) asked: Action,
    /// Password of the client's certificate.
    pub(crate) password: Option<Secret>,
    /// Warnings for the user, a sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Translates arguments and environment. `ours` are this program's own flags for output.
///
/// # Errors
/// All problems, a line each.
pub(crate) fn translate(
    arguments: &[String],
    variables: impl Iterator<Item = (String, String)>,
    ours: &Flags,
) -> Result<Translation, ConfigError> {
    let mut problems = Problems::default();
    let given = Arguments::read(arguments, variables, &mut problems);
    let translated = given.translate(ours, &mut problems);
    problems.into_result()?;
    Ok(translated)
}

/// Values by the name of their flag, without leading dashes.
struct Arguments {
    values: BTreeMap<String, String>,
    /// True if the password came by the command line, where other processes see it.
    password_seen: bool,
}

/// Returns whether a value follows the flag; `None` for an unknown flag.
fn takes_value(flag: &str) -> Option<bool> {
    let has_value = VALUE_FLAGS.split(' ').any(|known| known == flag);
    (has_value || SWITCHES.contains(&flag)).then_some(has_value)
}

impl Arguments {
    fn read(
        arguments: &[String],
        variables: impl Iterator<Item = (String, String)>,
        problems: &mut Problems,
    ) -> Arguments {
        let mut given = Arguments { values: BTreeMap::new(), password_seen: false };
        let mut others = Vec::new();
        for (name, value) in variables.filter(|(_, value)| !value.is_empty()) {
            match name.as_str() {
                "CLIENT_PFX" => others.push(("cert-pfx", value)),
                "CLIENT_PFX_PASSWORD" => others.push(("cert-password", value)),
                "CLIENT_CA_CERT" => others.push(("custom-ca", value)),
                _ => {
                    let Some(rest) = name.strip_prefix(PREFIX) else { continue };
                    let flag = rest.to_lowercase().replace('_', "-");
                    if takes_value(&flag).is_some() {
                        given.values.insert(flag, value);
                    } else {
                        problems.add(&name, "the load client has no such variable");
                    }
                }
            }
        }
        given.arguments(arguments, problems);
        // The variables that other programs share take effect only if the client's own flag or variable is absent.
        others.into_iter().for_each(|(flag, value)| _ = given.values.entry(flag.to_owned()).or_insert(value));
        given
    }

    fn arguments(&mut self, arguments: &[String], problems: &mut Problems) {
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            let Some(bare) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
                problems.add(argument, "expected a flag; --litegateway --help lists them");
                continue;
            };
            let (name, inline) = match bare.split_once('=') {
                Some((name, value)) => (name.to_lowercase(), Some(value.to_owned())),
                None => (bare.to_lowercase(), None),
            };
            let Some(takes_value) = takes_value(&name) else {
                problems.add(format!("--{name}"), "there is no such flag; --litegateway --help lists them");
                continue;
            };
            let is_word = |next: &&&String| !next.starts_with("--");
            let value = match (inline, takes_value) {
                (Some(value), _) => value,
                (None, true) => match rest.next_if(|next| is_word(&next)) {
                    Some(value) => value.clone(),
                    None => {
                        problems.add(format!("--{name}"), "expected a value");
                        continue;
                    }
                },
                (None, false) => match rest.next_if(|next| ["true", "false"].contains(&next.to_lowercase().as_str())) {
                    Some(value) => value.to_lowercase(),
                    None => "true".to_owned(),
                },
            };
            self.password_seen |= name == "cert-password";
            self.values.insert(name, value);
        }
    }

    fn value(&self, name: &str) -> Option<&String> {
        self.values.get(name)
    }

    fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn translate(&self, ours: &Flags, problems: &mut Problems) -> Translation {
        let mut warnings = Vec::new();
        if self.password_seen {
            warnings.push(
                "--cert-password is visible in the process list: use the variable CLIENT_PFX_PASSWORD".to_owned(),
            );
        }
        let mode = self.value("mode").map(|mode| mode.to_lowercase());
        let is_single = match mode.as_deref() {
            None => self.value("url").is_some(),
            Some("single") => true,
            Some("matrix") => false,
            Some(other) => {
                values::wrong(problems, "--mode", other, "one of single, matrix");
                false
            }
        };
        let is_help = self.is_on("help") || self.is_on("h");
        if is_single && self.value("url").is_none() && !is_help {
            problems.add("--url", "missing, and --mode single needs it");
        }
        let mut flags = self.flags(ours, is_single, problems);
        let asked = if is_help {
            Action::Help
        } else if is_single {
            Action::Single { url: self.value("url").cloned().unwrap_or_default(), flags: Box::new(flags) }
        } else {
            flags.arrival = crate::flags::ArrivalFlags { warm_up: Some("0".into()), ..Default::default() };
            // The cells set reuse and the version.
            flags.connection.connection_close = false;
            Action::Matrix {
                matrix: Box::new(self.matrix()),
                search: Box::new(self.search(problems)),
                flags: Box::new(flags),
            }
        };
        let password = self.value("cert-password");
        Translation { asked, password: password.map(|word| Secret::from(word.clone())), warnings }
    }

    fn flags(&self, ours: &Flags, is_single: bool, problems: &mut Problems) -> Flags {
        let or = |name: &str, default: &str| Some(self.value(name).cloned().unwrap_or_else(|| default.to_owned()));
        let mut flags = ours.clone();
        let version = self.value("http-version").map_or("2", |version| version.as_str());
        if !["1.1", "2", "3", "2.0", "3.0"].contains(&version) {
            values::wrong(problems, "--http-version", version, "one of 1.1, 2, 3");
        }
        let version = version.trim_end_matches(".0");
        if self.is_on("connection-close") && version != "1.1" {
            problems.add("--connection-close", "needs --http-version 1.1");
        }
        let profile = self.value("profile");
        values::word(problems, "--profile", profile, &[("balanced", ()), ("reuse-first", ())]);
        values::whole(problems, "--concurrency", self.value("concurrency"), 1..=1_000_000);
        flags.arrival.concurrency = or("concurrency", "64");
        flags.arrival.duration = or("duration", "60");
        flags.arrival.ramp_percent_per_second = self.ramp(problems);
        flags.arrival.loops = self.value("loops-per-worker").cloned();
        flags.connection.http_version = Some(version.to_owned());
        flags.connection.connection_close = self.is_on("connection-close");
        flags.connection.connect_timeout = or("timeout", "30");
        flags.connection.timeout = or("max-request-time", "10");
        let is_tls = !is_single || self.value("url").is_some_and(|url| url.to_lowercase().starts_with("https:"));
        if is_tls {
            flags.tls.cert = self.value("cert-pfx").cloned();
            flags.tls.ca = self.value("custom-ca").cloned();
            flags.tls.no_verify_name = flags.tls.ca.is_some();
        }
        flags.output.interval = flags.output.interval.take().or_else(|| self.value("refresh-interval").cloned());
        flags.verdict.fail_on_errors = or("fail-on-errors", "false");
        flags.verdict.assert_status = self.value("assert-status-code").cloned().into_iter().collect();
        self.correlation(&mut flags, problems);
        flags
    }

    /// Replaces `{{correlationId}}` by the prefix and the counter, in the body, the query and the expected value.
    fn correlation(&self, flags: &mut Flags, problems: &mut Problems) {
        let prefix = self.value("correlation-prefix").map_or("5ac318d4-5e88-4b37-8ed1-", |prefix| prefix.as_str());
        let id = format!("{prefix}{{{{counter}}}}");
        let is_used = ["request-body-template", "assert-json-path", "correlation-query-param"]
            .iter()
            .any(|name| self.value(name).is_some());
        if is_used {
            flags.request.counter_start =
                Some(self.value("correlation-start").map_or("30000000", |start| start.as_str()).to_owned());
        }
        if let Some(file) = self.value("request-body-template") {
            let read = sealway_runtime::config::read_bounded(std::path::Path::new(file), 16 * 1024 * 1024);
            if let Some(text) = problems.take("--request-body-template", read) {
                flags.request.body = Some(text.replace("{{correlationId}}", &id));
                flags.request.template = true;
                flags.request.header.push("Content-Type: application/json".to_owned());
            }
        }
        if let Some(path) = self.value("assert-json-path") {
            flags.verdict.assert_json.push(format!("{path}={id}"));
        }
        if let Some(name) = self.value("correlation-query-param") {
            flags.request.query.push(format!("{name}={id}"));
        }
    }

    fn ramp(&self, problems: &mut Problems) -> Option<String> {
        let seconds = values::time(problems, "--ramp-seconds", self.value("ramp-seconds"), Duration::ZERO..=HOUR);
        match seconds {
            Some(time) if time.is_zero() => Some("0".into()),
            Some(time) => Some(format!("{}", (100.0 / time.as_secs_f64()).min(100.0))),
            None => Some(self.value("ramp-percent-per-second").cloned().unwrap_or_else(|| "10".into())),
        }
    }

    fn matrix(&self) -> MatrixFlags {
        MatrixFlags {
            http_url: self.value("matrix-http-url").cloned(),
            https_url: self.value("matrix-https-url").cloned(),
            mtls_url: self.value("matrix-mtls-url").cloned(),
            fixed: false,
        }
    }

    fn search(&self, problems: &mut Problems) -> AutotuneFlags {
        let or = |name: &str, default: &str| Some(self.value(name).cloned().unwrap_or_else(|| default.to_owned()));
        let mut check = |name: &str, range| values::number(problems, &format!("--{name}"), self.value(name), range);
        check("autotune-min-concurrency", 1.0..=1e6);
        check("autotune-max-concurrency", 1.0..=1e6);
        check("autotune-growth-factor", 1.1..=10.0);
        check("autotune-max-error-pct", 0.0..=100.0);
        let between = check("autotune-binary-steps", 0.0..=20.0).unwrap_or(5.0);
        let number = |name: &str, default: f64| self.value(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        let (least, most) = (number("autotune-min-concurrency", 256.0), number("autotune-max-concurrency", 8192.0));
        if least > most {
            problems.add(
                format!("--autotune-max-concurrency {most}"),
                format!("is below --autotune-min-concurrency, {least}"),
            );
        }
        // Allow as many points as growing alone needs from the lowest load to the highest.
        let strides = (most / least).ln() / number("autotune-growth-factor", 2.0).ln();
        let grown = (strides.ceil() + 1.0).clamp(1.0, 80.0);
        let duration = self.value("matrix-run-duration").map_or("20", |time| time.as_str());
        let duration = parse_time(duration).map_or_else(|| duration.to_owned(), time_text);
        AutotuneFlags {
            search_min: or("autotune-min-concurrency", "256"),
            search_max: or("autotune-max-concurrency", "8192"),
            growth: or("autotune-growth-factor", "2"),
            errors_max: or("autotune-max-error-pct", "2"),
            run_time: Some(duration),
            repeats: Some("1".into()),
            points: Some(format!("{}", grown + between.floor())),
            between: Some(between as u32),
            ..AutotuneFlags::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Extra, Job, resolve};
    use crate::plan::{Arrival, Assertion, Protocol};

    fn read(words: &[&str], variables: &[(&str, &str)]) -> Result<Translation, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        translate(&words, variables, &Flags::default()).map_err(|err| err.0)
    }

    fn single(words: &[&str], variables: &[(&str, &str)]) -> Job {
        match read(words, variables).unwrap().asked {
            Action::Single { url, flags } => resolve(Some(&url), &flags, Extra::default()).unwrap(),
            other => panic!("{other:?} is not single"),
        }
    }

    #[test]
    fn the_old_defaults_hold() {
        let job = single(&["--URL", "http://localhost:8080/x"], &[]);
        let Arrival::Closed { concurrency, ramp_share, loops } = job.plan.arrival else { panic!("it is closed") };
        assert_eq!((concurrency.max(), ramp_share, loops), (64.0, 0.1, 0));
        assert_eq!(job.plan.stop.duration, Some(Duration::from_secs(60)));
        assert_eq!((job.plan.timeouts.connect.as_secs(), job.plan.timeouts.request.as_secs()), (30, 10));
        assert_eq!(job.plan.target.protocol, Protocol::Http2);
        assert!(!job.verdict.fail_on_errors);
        let Action::Matrix { search, .. } = read(&[], &[]).unwrap().asked else {
            panic!("without --url it is a matrix")
        };
        assert_eq!((search.search_min.as_deref(), search.search_max.as_deref()), (Some("256"), Some("8192")));
        assert_eq!((search.run_time.as_deref(), search.errors_max.as_deref()), (Some("20s"), Some("2")));
    }

    #[test]
    fn flags_go_before_variables_and_names_are_taken_in_any_case() {
        let variables = [("LITEGATEWAY_LOADCLIENT_CONCURRENCY", "5"), ("LITEGATEWAY_LOADCLIENT_HTTP_VERSION", "1.1")];
        let job = single(&["--Url=http://a/", "--Duration", "00:01:30", "--connection-close"], &variables);
        assert_eq!(job.plan.stop.duration, Some(Duration::from_secs(90)));
        assert!(job.plan.connections.close_header && job.plan.target.protocol == Protocol::Http1);
        let Arrival::Closed { concurrency, .. } = job.plan.arrival else { panic!("it is closed") };
        assert_eq!(concurrency.max(), 5.0);
        let job = single(&["--url", "http://a/", "--concurrency", "7", "--ramp-seconds", "5"], &variables);
        let Arrival::Closed { concurrency, ramp_share, .. } = job.plan.arrival else { panic!("it is closed") };
        assert_eq!((concurrency.max(), ramp_share), (7.0, 0.2));
    }

    #[test]
    fn the_binary_steps_are_the_points_between_two_loads_and_may_be_none() {
        let search = |words: &[&str]| {
            let Action::Matrix { search, .. } = read(words, &[]).unwrap().asked else { panic!("it is a matrix") };
            let mut problems = Problems::default();
            let (settings, _) = search.resolve(&mut problems);
            problems.into_result().unwrap();
            (settings.points_max, settings.points_between)
        };
        // 256, 512, 1024, 2048, 4096 and 8192, and the points between.
        assert_eq!(search(&["--autotune-binary-steps", "0"]), (6, 0));
        assert_eq!(search(&["--autotune-binary-steps=2"]), (8, 2));
        assert_eq!(search(&[]), (11, 3));
        let wide =
            ["--autotune-min-concurrency=1", "--autotune-max-concurrency=1000000", "--autotune-growth-factor=1.1"];
        assert_eq!(search(&[&wide[..], &["--autotune-binary-steps=20"]].concat()), (100, 3));
        assert!(read(&["--autotune-binary-steps", "21"], &[]).unwrap_err().contains("0 to 20"));
        assert!(read(&["--autotune-min-concurrency=9", "--autotune-max-concurrency=8"], &[]).is_err());
    }

    #[test]
    fn a_correlation_is_sent_and_expected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("body.json");
        std::fs::write(&file, r#"{"correlationId":"{{correlationId}}","n":{{counter}}}"#).unwrap();
        let file = file.display().to_string();
        let words = [
            "--url=http://a/t",
            "--request-body-template",
            &file,
            "--correlation-query-param=id",
            "--assert-json-path=$.correlationId",
            "--assert-status-code=200",
        ];
        let plan = single(&words, &[]).plan;
        assert_eq!(plan.request.path, "/t?id=5ac318d4-5e88-4b37-8ed1-{{counter}}");
        assert_eq!((plan.request.method.as_str(), plan.request.counter_start), ("POST", 30_000_000));
        let equals = "5ac318d4-5e88-4b37-8ed1-{{counter}}".to_owned();
        assert_eq!(plan.assertions[1], Assertion::JsonPath { path: "$.correlationId".into(), equals });
    }

    #[test]
    fn a_password_on_the_command_line_is_taken_with_a_warning_and_never_shown() {
        let read = read(&["--url", "https://a/", "--cert-pfx", "x.pfx", "--cert-password", "geheim"], &[]).unwrap();
        assert!(read.password.is_some() && read.warnings[0].contains("CLIENT_PFX_PASSWORD"));
        assert!(!format!("{read:?}").contains("geheim"));
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let err = read(
            &["--mode", "both", "--concurrency=0", "--http-version", "2", "--connection-close", "--profile=x", "--foo"],
            &[("LITEGATEWAY_LOADCLIENT_BAR", "1")],
        )
        .unwrap_err();
        for part in ["--mode both: ", "--concurrency 0: ", "--connection-close: needs", "--profile x: ", "--foo: "] {
            assert!(err.contains(part), "{part} is not in\n{err}");
        }
        assert!(err.contains("LITEGATEWAY_LOADCLIENT_BAR: "), "{err}");
    }
}
