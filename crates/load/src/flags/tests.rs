use clap::{CommandFactory, Parser};

use super::*;
use crate::plan::{Arrival, Protocol, Resumption, Steps};

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    load: LoadArgs,
}

fn flags(words: &[&str]) -> (Option<String>, Flags) {
    let args = Program::try_parse_from(["load"].iter().chain(words)).unwrap().load;
    (args.url, args.flags)
}

fn job(words: &[&str]) -> Result<Job, String> {
    let (url, flags) = flags(words);
    resolve(url.as_deref(), &flags, Extra::default()).map_err(|err| err.0)
}

#[test]
fn every_flag_is_also_a_variable_of_its_name() {
    let mut command = Program::command();
    command.build();
    let all = std::iter::once(&command).chain(command.get_subcommands());
    let mut seen = 0;
    for command in all.filter(|command| command.get_name() != "help") {
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long().filter(|long| !["help", "version", "litegateway"].contains(long)) else {
                continue;
            };
            let wanted = format!("SEALWAY_LOAD_{}", long.replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(wanted.as_str()), "--{long}");
            assert!(arg.is_hide_env_set(), "--{long}: the help would be twice as long");
            seen += 1;
        }
    }
    assert!(seen > 120, "{seen}");
}

#[test]
fn a_run_without_flags_is_sixty_four_workers_for_half_a_minute() {
    let job = job(&["http://localhost:8080/a?b=c"]).unwrap();
    let closed = Arrival::Closed { concurrency: Steps::constant(64.0), ramp_share: 0.0, loops: 0 };
    assert_eq!(job.plan.arrival, closed);
    assert_eq!(job.plan.stop.duration, Some(std::time::Duration::from_secs(30)));
    assert_eq!((job.plan.label.as_str(), job.plan.request.path.as_str()), ("localhost:8080/a", "/a?b=c"));
    assert_eq!((job.plan.target.protocol, job.plan.connections.reuse), (Protocol::Http1, true));
    assert!(job.verdict.fail_on_errors && job.plan.target.tls.is_none());
}

#[test]
fn all_problems_are_reported_at_once() {
    let err = job(&[
        "http://localhost/",
        "--concurrency",
        "0",
        "--duration=-3",
        "--timeout",
        "soon",
        "--threads=300",
        "--http-version",
        "4",
        "--assert-status",
        "700",
        "--ca",
        "nowhere.pem",
    ])
    .unwrap_err();
    for flag in ["--concurrency 0:", "--duration -3:", "--timeout soon:", "--threads 300:", "--http-version 4:"] {
        assert!(err.contains(flag), "{flag} is not in\n{err}");
    }
    assert!(err.contains("--assert-status 700:") && err.contains("--ca: "), "{err}");
    assert_eq!(err.lines().count(), 7, "{err}");
}

#[test]
fn contradicting_flags_are_rejected_with_the_reason() {
    let plain = "http://localhost/";
    let tls = "https://localhost/";
    let cases: &[(&[&str], &str)] = &[
        (&[plain, "--rate", "5", "--concurrency", "5"], "--rate with --concurrency: "),
        (&[plain, "--streams", "5"], "--streams 5: HTTP/1.1 carries one request"),
        (&[plain, "--http-version", "2", "--streams", "5", "--no-reuse"], "--streams 5 with --no-reuse: "),
        (&[plain, "--http-version", "2", "--connection-close"], "--connection-close: only HTTP/1.1"),
        (&[plain, "--http-version", "3"], "--http-version 3: HTTP/3 needs TLS"),
        (&["ws://localhost/", "--http-version", "2"], "--http-version: a WebSocket"),
        (&[plain, "--burst", "5", "--rate", "5"], "--burst with --rate: "),
        (&[plain, "--burst", "5", "--requests", "5"], "--burst with --requests: "),
        (&[plain, "--every", "5"], "--every: applies to bursts only"),
        (&[plain, "--spacing", "even"], "--spacing: applies to an open loop only"),
        (&[plain, "--rate", "5", "--think", "5"], "--think: applies to a closed loop only"),
        (&[plain, "--rate", "5", "--loops", "5"], "--loops: applies to a closed loop only"),
        (&[plain, "--rate", "5", "--ramp-percent-per-second", "5"], "--ramp-percent-per-second: "),
        (&[plain, "--tls-resume", "on"], "--tls-resume: the URL has no TLS"),
        (&[tls, "--insecure", "--ca", "x"], "--insecure with --ca: "),
        (&[tls, "--insecure", "--key", "x"], "--key: there is no certificate"),
        (&[plain, "--body", "x", "--body-file", "y"], "--body with --body-file: "),
        (&[plain, "--agree", "reuse"], "--agree: applies to sealed sessions only"),
        (&[plain, "--sealed", "2", "--method", "GET"], "--method GET: wires 1 and 2 seal only POST"),
        (&[plain, "--json-lines", "--out", "-"], "--json-lines with --out -: "),
        (&[plain, "--resolve", "other:127.0.0.1"], "--resolve other:127.0.0.1: the URL's host is localhost"),
        (&[plain, "--profile", "p"], "--profile: applies to a broker only"),
        (&["broker://x"], "URL broker://x: expected broker:// and the absolute path of a socket"),
        (&["broker:///s", "--broker-operation", "hush"], "--broker-operation hush: expected one of hash, sign, "),
        (&["broker:///s", "--broker-wire", "v2"], "--broker-wire v2: expected one of v1, open"),
        (&["broker:///s", "--batch", "2"], "--batch: does not apply to --broker-operation health"),
        (
            &["broker:///s", "--broker-operation", "hash", "--batch", "0"],
            "--batch 0: expected a whole number, 1 to 1,024",
        ),
        (
            &["broker:///s", "--broker-operation", "hash", "--input-bytes", "1048577"],
            "--input-bytes 1048577: expected a whole number, 0 to 1,048,576",
        ),
        (
            &["broker:///s", "--broker-operation", "hash", "--input-bytes", "65536", "--batch", "17"],
            "--batch 17 of --input-bytes 65536: expected at most 1,048,576 bytes in a call",
        ),
        (
            &["broker:///s", "--broker-operation", "random", "--input-bytes", "0"],
            "--input-bytes 0: expected a whole number, 1 to ",
        ),
        (&["broker:///s", "--broker-operation", "mac"], "--broker-key : expected the id of a key"),
        (&["broker:///s", "--broker-operation", "hash", "--profile", ""], "--profile : expected a name, 1 to 64 bytes"),
        (
            &["broker:///s", "--broker-operation", "mac", "--broker-key", "k", "--broker-wire", "open"],
            "--broker-operation mac with --broker-wire open: the wire open has only hash, sign, encrypt, decrypt, health",
        ),
        (
            &["broker:///s", "--broker-operation", "hash", "--batch", "2", "--broker-wire", "open"],
            "--batch 2 with --broker-wire open: on the wire open a call has one input",
        ),
        (&["broker:///s", "--body", "x"], "--body: applies to HTTP only"),
        (&["broker:///s", "--insecure"], "--insecure: applies to HTTP only"),
        (&["broker:///s", "--assert-status", "200"], "--assert-status: applies to HTTP only"),
        (&["broker:///s", "--http-version", "2"], "--http-version: applies to HTTP only"),
        (&[], "URL: "),
    ];
    for (words, wanted) in cases {
        let err = job(words).unwrap_err();
        assert!(err.starts_with(wanted) && err.lines().count() == 1, "{words:?}: {err}");
    }
}

#[test]
fn a_broker_is_a_target_and_a_certificate_needs_its_files() {
    let words = ["broker:///run/b.sock", "--broker-operation", "hash", "--batch", "64", "--streams", "16"];
    let plan = job(&words).unwrap().plan;
    let broker = plan.target.broker.unwrap();
    assert_eq!((plan.target.protocol, plan.connections.streams), (Protocol::Broker, 16));
    assert_eq!((broker.socket.to_str().unwrap(), broker.profile.as_str()), ("/run/b.sock", "Default"));
    assert_eq!((broker.input_len, broker.batch), (64, 64));
    assert_eq!((plan.request.method.as_str(), plan.label.as_str()), ("hash", "/run/b.sock"));
    let err = job(&["broker:///s", "--broker-operation", "sign", "--issuer", "nowhere.pem"]).unwrap_err();
    let lines: Vec<_> = err.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("--csr: missing"), "{err}");
    assert!(lines[1].starts_with("--issuer: ") && lines[2].starts_with("--broker-key : "), "{err}");
    let open = ["broker:///s", "--broker-operation", "sign", "--broker-wire", "open"];
    assert!(job(&open).unwrap_err().contains("--issuer-key: missing, --broker-operation sign"));
}

#[test]
fn stages_follow_the_first_value_and_make_the_run_as_long_as_they_are() {
    let job = job(&["http://x/", "--rate", "100", "--stage", "ramp:500@1m,500@30s", "--spacing", "poisson"]).unwrap();
    let Arrival::Open { rate, .. } = job.plan.arrival else { panic!("it is open") };
    let at = |seconds| rate.at(std::time::Duration::from_secs(seconds));
    assert_eq!((at(0), at(30), at(75)), (100.0, 300.0, 500.0));
    assert_eq!(job.plan.stop.duration, Some(std::time::Duration::from_secs(90)));
}

#[test]
fn a_threshold_on_errors_takes_the_place_of_failing_on_any() {
    let of = |words: &[&str]| job(words).unwrap().verdict.fail_on_errors;
    assert!(of(&["http://x/", "--threshold", "p99<5ms"]));
    assert!(!of(&["http://x/", "--threshold", "errors<1%"]));
    assert!(of(&["http://x/", "--slo", "errors<1%", "--fail-on-errors"]));
    assert!(!of(&["http://x/", "--fail-on-errors", "false"]));
}

#[test]
fn flags_are_set_and_filled_by_name() {
    let (_, mut flags) = flags(&["http://x/", "--concurrency", "5", "--header", "A: b"]);
    flags.set("tls_resume", &["both".into()]).unwrap();
    flags.set("no_reuse", &["true".into()]).unwrap();
    flags.set("stage", &["1@1".into(), "2@2".into()]).unwrap();
    assert!(flags.set("no_reuse", &["maybe".into()]).is_err());
    assert!(flags.set("concurency", &["1".into()]).is_err());
    assert!(flags.set("rate", &[]).is_err());
    let mut defaults = Flags::default();
    defaults.arrival.concurrency = Some("9".into());
    defaults.arrival.duration = Some("9".into());
    defaults.request.header = vec!["C: d".into()];
    flags.fill(&defaults).unwrap();
    assert_eq!(flags.arrival.concurrency.as_deref(), Some("5"));
    assert_eq!(flags.arrival.duration.as_deref(), Some("9"));
    assert_eq!(flags.request.header, ["A: b"]);
    assert_eq!(
        given(&flags),
        ["--concurrency", "--duration", "--header", "--no-reuse", "--stage", "--tls-resume"].map(str::to_owned)
    );
}

#[test]
fn full_handshakes_are_what_is_measured_unless_resumption_is_asked_for() {
    let tls = |words: &[&str]| job(words).unwrap().plan.target.tls.unwrap();
    let plain = tls(&["https://x/", "--insecure"]);
    assert_eq!((plain.resumption, plain.verify, plain.verify_name), (Resumption::Off, false, false));
    assert_eq!(tls(&["https://x/", "--insecure", "--tls-resume", "both"]).resumption, Resumption::Both);
}

#[test]
fn arguments_after_litegateway_are_not_parsed_as_flags() {
    let args = Program::try_parse_from(["load", "--no-tui", "--litegateway", "--URL", "http://x/", "--help"]).unwrap();
    let rest = args.load.source.litegateway.unwrap();
    assert_eq!(rest, ["--URL", "http://x/", "--help"]);
    assert!(args.load.flags.output.no_tui);
}
