//! Errors of the load generator for invalid input and for failing servers: each has its own clear message and an exit code, and
//! no half-written file remains.

mod flags;
mod ground;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::Duration;

use sealway_testkit::certificates::Certificates;
use sealway_testkit::generator::{Generator, Ran};
use sealway_testkit::scripted::{Script, ScriptedServer, ServerTls};

use self::flags::{CASES, Case};
use self::ground::{expired, help, in_namespace, nobody};
use crate::BINARY;

const PATIENCE: Duration = Duration::from_secs(10);
const URL: &str = "http://127.0.0.1:9/";

fn run(arguments: &[&str]) -> Ran {
    Generator::new(BINARY).without_report().run(arguments).unwrap()
}

/// Runs the six requests that every test of failures makes.
fn six(arguments: &[&str]) -> Ran {
    Generator::new(BINARY).run(&[&["--concurrency", "2", "--requests", "6"], arguments].concat()).unwrap()
}

/// Asserts that all requests failed in one class with these words and this exit code, and that the terminal shows it.
fn assert_failed(ran: &Ran, class: &str, words: &[&str]) {
    assert_eq!(ran.code, Some(1), "{}", ran.told());
    assert_eq!(ran.count("succeeded"), 0, "{}", ran.told());
    let classes: Vec<_> = ran.fault_classes().into_iter().map(|(class, _)| class).collect();
    assert_eq!(classes, [class], "{}", ran.told());
    let example = ran.example(class);
    for word in words {
        assert!(example.to_lowercase().contains(&word.to_lowercase()), "{word:?} is not in {example:?}");
    }
    assert!(!example.contains('\n') && example.len() < 400, "{example:?} is no line");
    let said = format!("{}{}", ran.out, ran.err);
    assert!(
        said.contains(&example) || said.contains(&example[..example.len().min(60)]),
        "{example:?} is not in {said}"
    );
}

#[test]
fn every_flag_has_a_case() {
    let subcommands: [&[&str]; 4] = [&[], &["autotune"], &["matrix"], &["compare"]];
    let flags: BTreeSet<String> = subcommands.iter().flat_map(|words| help(words)).collect();
    let cases: BTreeSet<String> = CASES.iter().map(|(flag, _)| (*flag).to_owned()).collect();
    let without: Vec<_> = flags.difference(&cases).collect();
    assert!(without.is_empty(), "no wrong value is tried of {without:?}: add cases to tests/load/input/flags.rs");
    let gone: Vec<_> =
        cases.difference(&flags).filter(|flag| !["--version", "--slo"].contains(&flag.as_str())).collect();
    assert!(gone.is_empty(), "there is no flag {gone:?}");
}

#[test]
fn a_wrong_value_names_its_flag_and_what_is_allowed() {
    let sets: Vec<(&[&str], Vec<String>)> =
        [&[][..], &["autotune"], &["matrix"], &["compare"]].into_iter().map(|words| (words, help(words))).collect();
    let mut bad = Vec::new();
    for (flag, case) in CASES {
        // The first command with this flag.
        let Some((words, _)) = sets.iter().find(|(_, flags)| flags.iter().any(|one| one == flag)) else { continue };
        let mut arguments = words.to_vec();
        let mut generator = Generator::new(BINARY).without_report();
        let expected = match case {
            Case::Nothing => continue,
            Case::Switch => {
                generator =
                    generator.env(&format!("SEALWAY_LOAD_{}", flag[2..].replace('-', "_").to_uppercase()), "perhaps");
                "perhaps"
            }
            Case::Wrong(wrong, expected) => {
                arguments.extend(*wrong);
                *expected
            }
        };
        let has_target = arguments.iter().any(|word| word.starts_with("https://") || word.starts_with("broker://"));
        if *words == ["compare"] {
            arguments.extend(["/nowhere/a.json", "/nowhere/b.json"]);
        } else if !has_target && *flag != "--litegateway" && *words != ["matrix"] {
            arguments.push(URL);
        }
        let ran = generator.run(&arguments).unwrap();
        let named = ran.err.contains(flag) && ran.err.contains(expected);
        if ran.code != Some(2) || !named {
            bad.push(format!("{arguments:?}: exit code {:?} and not 2, or not {expected:?}:\n{}", ran.code, ran.err));
        }
    }
    assert!(bad.is_empty(), "{} flags:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn all_problems_are_reported_at_once() {
    let ran = run(&["--concurrency", "0", "--timeout", "x", "--http-version", "4", "--threads", "0", URL]);
    assert_eq!(ran.code, Some(2));
    for flag in ["--concurrency 0", "--timeout x", "--http-version 4", "--threads 0"] {
        assert!(ran.err.contains(flag), "{flag} is not named: {}", ran.err);
    }
}

#[test]
fn contradicting_flags_are_rejected_with_the_reason() {
    let cases: [(&[&str], &str); 6] = [
        (&["--rate", "5", "--concurrency", "5"], "--rate with --concurrency"),
        (&["--streams", "5"], "--streams 5"),
        (&["--http-version", "2", "--connection-close"], "--connection-close"),
        (&["--burst", "5", "--rate", "5"], "--burst with --rate"),
        (&["--ca", "/dev/null"], "--ca"),
        (&["--http-version", "3"], "--http-version 3"),
    ];
    for (arguments, named) in cases {
        let ran = run(&[arguments, &[URL]].concat());
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.told());
        assert!(ran.err.contains(named), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn an_invalid_url_is_reported() {
    for url in ["nowhere", "ftp://localhost/", "http://", "http://user:secret-word@localhost/", "http://localhost:0/"] {
        let ran = run(&[url]);
        assert_eq!(ran.code, Some(2), "{url}: {}", ran.told());
        assert!(!ran.err.contains("secret-word"), "{}", ran.err);
    }
    let ran = run(&[]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("https://"), "an example helps: {}", ran.err);
}

#[test]
fn every_flag_is_also_a_variable() {
    let server = ScriptedServer::http(Script::default()).unwrap();
    let generator = Generator::new(BINARY)
        .env("SEALWAY_LOAD_URL", &format!("http://{}/", server.address()))
        .env("SEALWAY_LOAD_CONCURRENCY", "3")
        .env("SEALWAY_LOAD_REQUESTS", "12")
        .env("SEALWAY_LOAD_NO_REUSE", "true");
    let ran = generator.run(&[]).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.told());
    let record = server.settled(PATIENCE);
    assert_eq!((record.requests, record.accepted, record.in_flight_max <= 3), (12, 12, true));
    // A value on the command line takes precedence.
    server.forget();
    assert_eq!(generator.run(&["--requests", "7"]).unwrap().code, Some(0));
    assert_eq!(server.settled(PATIENCE).requests, 7);
}

#[test]
fn the_old_clients_variables_and_flags_are_understood() {
    let server = ScriptedServer::http(Script::default()).unwrap();
    let url = format!("http://{}/", server.address());
    let generator = Generator::new(BINARY)
        .without_report()
        .env("LITEGATEWAY_LOADCLIENT_URL", &url)
        .env("LITEGATEWAY_LOADCLIENT_CONCURRENCY", "5")
        .env("LITEGATEWAY_LOADCLIENT_RAMP_PERCENT_PER_SECOND", "0")
        .env("LITEGATEWAY_LOADCLIENT_HTTP_VERSION", "1.1");
    let ran = generator.run(&["--litegateway", "--duration", "1"]).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.told());
    let record = server.settled(PATIENCE);
    assert_eq!(record.accepted, 5, "{:#}", record.json());
    assert!(record.answered > 50, "{:#}", record.json());
    let wrong =
        generator.env("LITEGATEWAY_LOADCLIENT_CONCURRENCY", "0").run(&["--litegateway", "--duration", "1"]).unwrap();
    assert_eq!(wrong.code, Some(2), "{}", wrong.told());
}

#[test]
fn a_port_that_nobody_listens_on_is_refused() {
    let address = nobody();
    assert_failed(&six(&[&format!("http://{address}/")]), "refused", &["refused", &address.to_string()]);
}

#[test]
fn an_unresolvable_host_is_reported() {
    // Before the first request: a name that does not resolve cannot take load.
    let ran = six(&["http://nobody.invalid/"]);
    assert_eq!(ran.code, Some(1), "{}", ran.told());
    assert!(ran.err.contains("nobody.invalid has no address"), "{}", ran.err);
}

#[test]
fn reset_connections_are_reported() {
    let server = ScriptedServer::http(Script { reset_at_accept: true, ..Script::default() }).unwrap();
    assert_failed(&six(&[&format!("http://{}/", server.address())]), "reset", &["reset"]);
}

#[test]
fn a_listener_that_takes_no_more_is_a_connect_timeout() {
    let (listener, _held) = ground::full_listener();
    let ran = six(&["--connect-timeout", "300ms", &format!("http://{}/", listener.local_addr().unwrap())]);
    assert_failed(&ran, "connect_timeout", &["300"]);
}

#[test]
fn a_response_that_is_not_http_is_malformed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"220 mail.example ESMTP ready\r\n");
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    assert_failed(&six(&[&url]), "malformed", &[]);
}

#[test]
fn untrusted_certificates_are_reported_by_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (mine, other) = (folder.path().join("mine"), folder.path().join("other"));
    for path in [&mine, &other] {
        std::fs::create_dir(path).unwrap();
    }
    let mine = Certificates::make(&mine, "DNS:localhost,IP:127.0.0.1", "a client").unwrap();
    let other = Certificates::make(&other, "DNS:elsewhere.example", "a client").unwrap();
    let (ca, other_ca) = (mine.ca.display().to_string(), other.ca.display().to_string());

    let server = ScriptedServer::https(Script::default(), &ServerTls::of(&mine)).unwrap();
    let url = format!("https://{}/", server.address());
    assert_failed(&six(&["--ca", &other_ca, &url]), "certificate", &["not signed by a trusted authority"]);
    assert_eq!(six(&["--ca", &ca, &url]).code, Some(0));
    assert_eq!(six(&["--insecure", &url]).code, Some(0));
    assert!(server.record().handshakes_failed >= 1);

    let server = ScriptedServer::https(Script::default(), &ServerTls::of(&other)).unwrap();
    let url = format!("https://{}/", server.address());
    assert_failed(&six(&["--ca", &other_ca, &url]), "certificate", &["name"]);
    assert_eq!(six(&["--ca", &other_ca, "--no-verify-name", &url]).code, Some(0));

    let (tls, ca) = expired(folder.path());
    let server = ScriptedServer::https(Script::default(), &tls).unwrap();
    let url = format!("https://{}/", server.address());
    assert_failed(&six(&["--ca", &ca, &url]), "certificate", &["expired"]);
}

#[test]
fn a_server_that_wants_a_certificate_says_so_by_its_alert() {
    let folder = tempfile::tempdir().unwrap();
    let mine = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "a client").unwrap();
    let tls = ServerTls::of(&mine).with_client_ca(&mine.ca);
    let server = ScriptedServer::https(Script::default(), &tls).unwrap();
    let (url, ca) = (format!("https://{}/", server.address()), mine.ca.display().to_string());
    assert_failed(&six(&["--ca", &ca, &url]), "tls_alert", &["certificate", "required"]);
    let (cert, key) = (mine.client.0.display().to_string(), mine.client.1.display().to_string());
    let ran = six(&["--ca", &ca, "--cert", &cert, "--key", &key, &url]);
    assert_eq!(ran.code, Some(0), "{}", ran.told());
}

#[test]
fn tls_to_a_plain_port_is_reported() {
    let server = ScriptedServer::http(Script { reset_at_accept: false, ..Script::default() }).unwrap();
    let ran =
        six(&["--insecure", "--timeout", "2s", "--connect-timeout", "1s", &format!("https://{}/", server.address())]);
    assert_eq!(ran.code, Some(1), "{}", ran.told());
    let classes: Vec<_> = ran.fault_classes().into_iter().map(|(class, _)| class).collect();
    // The scripted server waits for a head that never ends.
    assert!(classes == ["connect_timeout"] || classes == ["tls"], "{}", ran.told());
}

#[test]
fn no_route_is_unreachable() {
    let ran = in_namespace("ip link set lo up", &["--concurrency", "2", "--requests", "6", "http://203.0.113.1/"]);
    assert_failed(&ran, "unreachable", &["no route", "203.0.113.1"]);
}

#[test]
fn out_of_ports_is_reported_with_a_remedy() {
    // Ten ports, and twenty kept connections.
    let before = format!(
        "ip link set lo up && echo 40000 40009 >/proc/sys/net/ipv4/ip_local_port_range && {}",
        ground::serve_in_background(39999)
    );
    let arguments = ["--concurrency", "20", "--duration", "1", "http://127.0.0.1:39999/"];
    let ran = in_namespace(&before, &arguments);
    assert_eq!(ran.code, Some(1), "{}", ran.told());
    assert!(ran.faults("out_of_ports") > 0 && ran.count("succeeded") > 0, "{}", ran.told());
    let classes: Vec<_> = ran.fault_classes().into_iter().map(|(class, _)| class).collect();
    assert_eq!(classes, ["out_of_ports"], "{}", ran.told());
    assert!(ran.example("out_of_ports").contains("port"), "{}", ran.told());
}

#[test]
fn out_of_descriptors_is_reported_with_a_remedy() {
    let server = ScriptedServer::http(Script::default()).unwrap();
    let url = format!("http://{}/", server.address());
    let limited = Generator::new(BINARY).by(&["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"]);
    let ran = limited.run(&["--concurrency", "200", "--duration", "1", &url]).unwrap();
    assert!(matches!(ran.code, Some(1 | 2)), "{}", ran.told());
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("descriptors"), "{}", ran.told());
    if ran.code == Some(1) {
        assert!(ran.faults("out_of_descriptors") > 0, "{}", ran.told());
    }
}

#[test]
fn a_failed_report_is_named_and_leaves_no_partial_file() {
    let server = ScriptedServer::http(Script { body_len: 10, ..Script::default() }).unwrap();
    let url = format!("http://{}/", server.address());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    for (options, name) in [("size=4k,nr_inodes=4", "full"), ("size=1m,ro", "read-only")] {
        let script = format!(
            "mount -t tmpfs -o {options} tmpfs {place} && shift && \"$@\"; code=$?; ls -A {place} >&2; exit $code"
        );
        let mounted =
            Generator::new(BINARY).without_report().by(&["unshare", "-r", "-m", "sh", "-c", &script, "sh", "-"]);
        let file = format!("{place}/report.json");
        let ran = mounted.run(&["--concurrency", "2", "--requests", "6", "--out", &file, &url]).unwrap();
        assert!(ran.code.is_some_and(|code| code != 0), "{name}: {}", ran.told());
        assert!(ran.err.contains("report.json:") || ran.err.contains(&file), "{name}: {}", ran.err);
        // The last lines of the output list the files that remain.
        assert!(!ran.err.lines().any(|line| line == "report.json"), "{name}: half a report is left: {}", ran.err);
        assert!(!ran.err.lines().any(|line| line.contains(".tmp") && !line.contains(' ')), "{name}: {}", ran.err);
    }
}
