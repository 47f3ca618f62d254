//! Keys of routes with `sealed: ehbp`: in a file that changes, made at a start, and in configurations that contradict.

use std::process::{Command, Stdio};

use sealway_testkit::daemon::clear_environment;
use sealway_testkit::process::Launch;
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::Upstream;

use crate::BINARY;
use crate::ehbp::{PLAIN, Setup, config, one_shot_keys, seal_to, serve};

#[test]
fn keys_change_with_their_file_and_an_old_one_is_accepted_until_it_is_retired() {
    let mut setup = Setup::new();
    let first = setup.public();
    let names = |setup: &Setup| {
        let listed = one_shot_keys(&["list", &setup.keys()]);
        listed.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    one_shot_keys(&["add", &setup.keys(), "--use", "ehbp"]);
    let both = names(&setup);
    assert_eq!(both.len(), 2);
    let from = setup.server.log().len();
    one_shot_keys(&["retire", &setup.keys(), &both[0], "--now"]);
    let live = setup.server.wait_for_log(from, |line| line.to_string().contains("keys of one-shot modes reloaded"));
    live.unwrap();
    let old = seal_to(&first, &[PLAIN]);
    let mut status = setup.send(&old.request("/v1/x")).status;
    for _ in 0..200 {
        if status == 422 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        status = setup.send(&seal_to(&first, &[PLAIN]).request("/v1/x")).status;
    }
    assert_eq!(status, 422, "a retired key opens nothing");
    // A broken file leaves what is in force, and says where it is broken.
    let from = setup.server.log().len();
    std::fs::write(setup.folder.path().join("keys.json"), "{").unwrap();
    let failed = setup.server.wait_for_log(from, |line| line.to_string().contains("one_shot.keys")).unwrap();
    assert!(failed.to_string().contains("keys.json: line 1"), "{failed}");
    assert_eq!(setup.send(&seal_to(&first, &[PLAIN]).request("/v1/x")).status, 422);
    let ready = setup.send(&Request::get("/ready")).json();
    assert!(ready["oneShotKeys"]["daysLeft"].as_i64().is_some_and(|days| days >= 6), "{ready}");
}

#[test]
fn over_a_store_in_memory_a_key_is_made_at_each_start_and_dies_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let service = Upstream::answering(serve).unwrap();
    let config = config(&service.address.to_string(), "memory:").replace("one_shot: { keys: keys.json }\n", "");
    let config = config.replace(", allow_generated_kek: true", "");
    let start = || Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let mut setup = Setup { server: start(), service, folder: tempfile::tempdir().unwrap() };
    let sealed = setup.seal(&[PLAIN]);
    assert_eq!(setup.send(&sealed.request("/v1/x")).status, 200);
    assert_eq!(setup.send(&sealed.request("/v1/x")).status, 409);
    setup.server.stop().unwrap();
    setup.server = start();
    assert_eq!(setup.send(&sealed.request("/v1/x")).status, 422, "the key of the process before is gone");
}

#[test]
fn openings_are_limited_by_the_network_of_the_client_and_requests_in_clear_are_not() {
    let mut setup = Setup::new();
    let config = config(&setup.service.address.to_string(), "file:sessions.redb");
    let config = config.replace("keys: keys.json", "keys: keys.json, opens_per_minute: 2");
    setup.server.stop().unwrap();
    setup.server = Launch::new(BINARY, &config).folder(setup.folder.path()).start().unwrap();
    let mut answers = (0..12).map(|_| setup.send(&setup.seal(&[PLAIN]).request("/v1/x")));
    assert_eq!([(); 2].map(|()| answers.next().unwrap().status), [200, 200]);
    // A minute's worth comes back bit by bit.
    let refused = answers.find(|answer| answer.status == 429).unwrap();
    assert!(refused.header("retry-after").is_some() && refused.header("ehbp-response-nonce").is_none());
    assert_eq!(setup.send(&Request::get("/bodyless/x")).status, 200);
}

#[test]
fn settings_that_contradict_are_named_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let (file, keys) = (folder.path().join("serve.yaml"), folder.path().join("keys.json"));
    one_shot_keys(&["add", keys.to_str().unwrap(), "--use", "ehbp"]);
    let other = folder.path().join("other.json");
    one_shot_keys(&["add", other.to_str().unwrap(), "--use", "hpke", "--kem", "x25519"]);
    let run = |arguments: &[&str], config: &str| {
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(BINARY);
        clear_environment(&mut command).args(arguments).arg(&file).stdin(Stdio::null());
        let done = command.output().unwrap();
        (
            done.status.success(),
            format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)),
        )
    };
    let config = |route: &str, store: &str, keys: &str| {
        format!(
            "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
one_shot: {{ {keys} }}
routes: [{route}]
upstreams: {{ service: {{ servers: ['http://127.0.0.1:9'] }} }}
sessions: {{ store: '{store}', allow_generated_kek: true }}
"
        )
    };
    let (route, store, file_keys) =
        ("{ match: {}, upstream: service, sealed: ehbp }", "file:s.redb", "keys: keys.json");
    let good = config(route, store, file_keys);
    let (is_good, said) = run(&["config", "check"], &good);
    assert!(is_good, "{said}");
    let check = &["config", "check"][..];
    let serve = &["serve", "--config"][..];
    for (arguments, config, expected) in [
        (
            check,
            config("{ match: {}, upstream: service, ehbp: {} }", store, file_keys),
            "routes[0].ehbp: only a route with sealed: ehbp",
        ),
        (
            check,
            config(
                &format!("{{ match: {{ path: /.well-known/hpke-keys }}, upstream: service }}, {route}"),
                store,
                file_keys,
            ),
            "routes[0].match.path: /.well-known/hpke-keys is the gateway's own",
        ),
        (check, config(route, store, "keys: none.json"), "one_shot.keys: "),
        (check, config(route, store, "max_age_sec: 59"), "one_shot.max_age_sec"),
        (
            serve,
            config(route, store, "keys: other.json"),
            "other.json: there is no key of use ehbp, which routes[0] needs",
        ),
        (serve, config(route, store, ""), "one_shot.keys: there is no key of use ehbp, which routes[0] needs"),
        (serve, config(route, "memory:", file_keys), "keys of use ehbp, whose claims"),
    ] {
        let config =
            if config.contains("memory:") { config.replace(", allow_generated_kek: true", "") } else { config };
        let (is_good, said) = run(arguments, &config);
        assert!(!is_good && said.contains(expected), "{said} instead of {expected}");
    }
}
