//! The checks of `sealway load` before it sends requests, and the summary at its end.

use std::net::TcpListener;

use sealway_testkit::scripted::{Script, ScriptedServer};

use crate::ground::{load, text};

fn server() -> (ScriptedServer, String) {
    let server = ScriptedServer::http(Script::default()).unwrap();
    let url = format!("http://{}/", server.address());
    (server, url)
}

/// Returns the lines after those of the progress.
fn summary(out: &str) -> Vec<&str> {
    let lines: Vec<_> = out.lines().collect();
    let begin = lines.iter().position(|line| line.contains(" over http/1.1: ")).unwrap_or(0);
    lines[begin..].to_vec()
}

#[test]
fn an_output_that_cannot_be_written_is_named_before_any_request() {
    let (server, url) = server();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("file"), "kept").unwrap();
    let cases = [
        (path("missing/a.json"), "does not exist"),
        (path("missing/a.html"), "does not exist"),
        (folder.path().display().to_string(), "is a folder"),
        (path("file/a.csv"), "is not a folder"),
        // No user can create a file there, not even root.
        ("/proc/a.json".to_owned(), "cannot create a file in /proc"),
    ];
    for (file, words) in cases {
        for command in [&["--requests", "5"][..], &["autotune"], &["matrix"]] {
            let flags = [command, &["--out", &file]].concat();
            let target = if command[0] == "matrix" { vec!["--http-url", &url] } else { vec![url.as_str()] };
            let ran = load(&[flags, target].concat());
            let said = text(&ran.stderr);
            assert_eq!(ran.status.code(), Some(2), "{command:?} --out {file}: {said}{}", text(&ran.stdout));
            assert!(said.contains(&format!("--out {file}: ")) && said.contains(words), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    assert_eq!(server.record().requests, 0);
    // A check leaves no file behind, and changes no existing one.
    assert_eq!(std::fs::read(path("file")).unwrap(), b"kept");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_address_for_prometheus_that_is_taken_is_named_before_any_request() {
    let (server, url) = server();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = load(&["--requests", "5", "--prometheus", &address, &url]);
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains(&format!("--prometheus {address}: ")), "{}", text(&ran.stderr));
    assert_eq!(server.record().requests, 0);
}

#[test]
fn a_summary_fits_80_columns_also_with_a_long_url() {
    let (_server, url) = server();
    let long = format!("{url}{}?{}", "path/".repeat(60), "parameter=value&".repeat(60));
    for url in [&url, &long] {
        let ran = load(&["--requests", "20", "--concurrency", "2", "--threshold", "p99<1h,errors<1%", url]);
        let out = text(&ran.stdout);
        assert_eq!(ran.status.code(), Some(0), "{out}{}", text(&ran.stderr));
        // The first line, which announces the run, may be a little wider.
        let wide: Vec<_> = out.lines().skip(1).filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        assert!(summary(&out).len() > 10, "{out}");
        assert!(out.contains("bottleneck") && out.contains("service (since sent)"), "{out}");
    }
}

#[test]
fn a_target_that_refuses_is_no_limit_and_the_run_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/");
    for more in [&[][..], &["--fail-on-errors", "false"], &["--rate", "50"], &["--burst", "5", "--times", "2"]] {
        let length: &[&str] = if more.contains(&"--burst") { &[] } else { &["--duration", "3s"] };
        let ran = load(&[more, length, &[&url]].concat());
        let out = text(&ran.stdout);
        assert_eq!(ran.status.code(), Some(1), "{more:?}: {out}{}", text(&ran.stderr));
        assert!(!out.contains("the target: the generator waited"), "{out}");
        let limit = summary(&out).join("\n");
        let limit = limit.split_once("\n  bottleneck ").unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            limit.starts_with("unknown, because nothing was measured: the target refused every connection"),
            "{limit}"
        );
        assert!(limit.contains("start the server"), "{limit}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    load(&["--requests", "2", "--out", file.to_str().unwrap(), &url]);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["limit"]["what"], "unmeasured", "{}", report["limit"]);
    let tuned = load(&["autotune", "--run-time", "300ms", &url]);
    let out = text(&tuned.stdout);
    assert_eq!(tuned.status.code(), Some(1), "{out}");
    assert!(out.contains("There is no knee") && !out.contains("The knee is at"), "{out}");
    assert!(out.contains("unmeasured") && !out.contains(" target "), "{out}");
}

#[test]
fn each_bad_input_is_one_line_that_names_it_and_what_to_give() {
    let (server, url) = server();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--concurrency", "many", &url], &["--concurrency many: ", "1 to 1,000,000"]),
        (&["--duration", "5x", &url], &["--duration 5x: ", "1m30s"]),
        (&["--rate", "10", "--concurrency", "5", &url], &["--rate with --concurrency: ", "--in-flight-max"]),
        (&["--http-version", "5", &url], &["--http-version 5: expected one of 1.1, 2, 3\n"]),
        (&["--header", "nocolon", &url], &["--header nocolon: ", "Name: value"]),
        (&["--ca", "/nowhere.pem", "https://localhost:1/"], &["--ca /nowhere.pem: "]),
        (&["--jmeter", "/etc/hostname"], &["--jmeter /etc/hostname: ", "no JMeter plan"]),
        (&["--threshold", "p99<fast", &url], &["--threshold `p99<fast`", "such as 50ms"]),
        (&["http://127.0.0.1:99999/"], &["URL http://127.0.0.1:99999/: ", "1 to 65,535"]),
        (&["ftp://localhost/"], &["URL ftp://localhost/: ", "http://"]),
        (&["--preset", "nope", &url], &["--preset nope: ", "poc, session"]),
        (&["--litegateway", "--concurrency", "x", "--url", &url], &["--litegateway: --concurrency x: "]),
        (&["autotune", "--search-min", "10", "--search-max", "5", &url], &["--search-min", "--search-max"]),
        (&["matrix", "/nowhere.yaml"], &["/nowhere.yaml"]),
        (&["--out", "a.doc", &url], &["--out a.doc: ", ".json"]),
        (&["--prometheus", "9464", &url], &["--prometheus 9464: ", "127.0.0.1:9464"]),
    ];
    for (arguments, parts) in cases {
        let ran = load(arguments);
        let said = text(&ran.stderr);
        assert_eq!((ran.status.code(), said.lines().count()), (Some(2), 1), "{arguments:?}: {said}");
        for part in *parts {
            assert!(said.contains(part), "{part} is not in {said}");
        }
    }
    assert_eq!(server.record().requests, 0);
}

#[test]
fn a_certificate_without_its_key_names_the_flag_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let certificates =
        sealway_testkit::certificates::Certificates::make(folder.path(), "DNS:localhost", "a client").unwrap();
    let cert = certificates.client.0.display().to_string();
    let ran = load(&["--cert", &cert, "https://localhost:1/"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("--cert {cert}: ")) && said.contains("--key"), "{said}");
}
