//! `sealway config` as users see it: it reports every problem of a configuration and of the files that it names, before `serve`
//! does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sealway_testkit::daemon::clear_environment;

use crate::BINARY;
use crate::command_line::{run, text};

fn config_file(folder: &Path, config: &str) -> String {
    let file = folder.join("serve.yaml");
    std::fs::write(&file, config).unwrap();
    file.display().to_string()
}

#[test]
fn config_check_names_every_problem_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = config_file(
        folder.path(),
        "
listeners: [{ address: nowhere }]
routes: [{ match: {}, upstream: missing, sealed_body_max: 1 }]
sessions: { store: 'mysql:x' }
replay: { window_ms: 0 }
limits: { drain_ms: 0 }
",
    );
    let output = run(&["config", "check", &file]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for part in [
        file.as_str(),
        "listeners[0].address",
        "routes[0].upstream",
        "routes[0].sealed_body_max",
        "sessions.store",
        "replay.window_ms",
        "limits.drain_ms",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    let file = config_file(folder.path(), "listeners:\n  - adress: 'x'\n");
    let said = text(&run(&["config", "check", &file]).stderr);
    assert!(said.contains("adress") && said.contains("line 2"), "{said}");
    let said = text(&run(&["config", "check", "/nowhere/at/all.yaml"]).stderr);
    assert!(said.contains("/nowhere/at/all.yaml"), "{said}");
}

#[test]
fn config_check_finds_in_the_files_what_would_stop_serve() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("short.token", "short\n", 0o600);
    write("open.token", "a-token-that-is-long-enough\n", 0o644);
    write("bad.kek", "kek-1 not-base64\n", 0o600);
    write("open.kek", &format!("kek-1 {}\n", "A".repeat(43) + "="), 0o644);
    let config = |listener: &str, more: &str| {
        format!(
            "listeners: [{{ address: '127.0.0.1:0'{listener} }}]\n\
             routes: [{{ match: {{ path_prefix: [/session/, /v1/, /v3/] }}, sessions: {{}} }}]\n{more}\n"
        )
    };
    let admin = |file: &str| format!("admin: {{ address: '127.0.0.1:0', token_file: {file} }}");
    let sessions = |text: &str| format!("sessions: {{ {text} }}");
    for (config, setting, what) in [
        (config("", &admin("none.token")), "admin.token_file", "none.token"),
        (config("", &admin("short.token")), "admin.token_file", "at least 16"),
        (config("", &sessions("store: 'file:s.redb'")), "sessions.kek_file", "s.kek"),
        (config("", &sessions("store: 'file:s.redb', kek_file: bad.kek")), "sessions.kek_file", "bad.kek:1"),
        (
            config("", &sessions("store: 'file:none/s.redb', allow_generated_kek: true")),
            "sessions.store",
            "there is no folder",
        ),
        (config(", tls: { cert: no.pem, key: no.key }", ""), "listeners[0].tls.cert", "no.pem"),
        (config("", &sessions("identity: { key_file: no.identity }")), "sessions.identity.key_file", "no.identity"),
        (config("", &sessions("authority_secret_file: no.secret")), "sessions.authority_secret_file", "no.secret"),
        (config("", "telemetry: { log_level: verbose }"), "telemetry.log_level", "is no level"),
        (config("", "access_log: { file: none/access.log }"), "access_log.file", "there is no folder"),
        (config("", "access_log: { file: . }"), "access_log.file", "is a folder"),
        (
            config("", "telemetry: { otlp_endpoint: 'https://c/v1/traces', otlp_ca_file: no.pem }"),
            "telemetry.otlp_ca_file",
            "no.pem",
        ),
    ] {
        let file = config_file(folder.path(), &config);
        let output = run(&["config", "check", &file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{config}: {said}");
        assert!(said.contains(setting) && said.contains(what), "{config}: {said}");
        let output = run(&["serve", "--config", &file]);
        assert_eq!(output.status.code(), Some(1), "{config} serves");
    }
    let fine =
        config("", &format!("{}\n{}", admin("open.token"), sessions("store: 'file:s.redb', kek_file: open.kek")));
    let output = run(&["config", "check", &config_file(folder.path(), &fine)]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for file in ["open.token", "open.kek"] {
        assert!(said.contains(&format!("{file} has mode 0644")), "{said}");
    }
    assert!(!folder.path().join("s.redb").exists(), "a check made a store");
}

#[test]
fn config_check_accepts_the_samples_and_prints_their_warnings() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config");
    let names = ["one-port.yaml", "ports-3000-3001.yaml", "single-machine.yaml", "reverse-proxy.yaml", "fleet.yaml"];
    for name in names {
        let warns = name == "ports-3000-3001.yaml";
        // The keys and certificates belong to the operator.
        let output = run(&["config", "check", "--files=false", &samples.join(name).display().to_string()]);
        assert!(output.status.success() && text(&output.stdout).contains("OK"), "{name}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).contains("warning: compat.open_key_endpoint"), warns, "{name}");
    }
}

#[test]
fn config_print_shows_the_effective_settings_file_then_environment() {
    let folder = tempfile::tempdir().unwrap();
    let config = "
listeners: [{ address: '127.0.0.1:3000' }]
routes: [{ match: {}, sessions: {} }]
replay: { window_ms: 1000, nonces_max: 5000 }
";
    let file = config_file(folder.path(), config);
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).args(["config", "print", &file]);
    let output = command.env("PORT", "3456").env("SEALWAY_REPLAY__WINDOW_MS", "2000").output().unwrap();
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["listeners"][0]["address"], "127.0.0.1:3456");
    assert_eq!(
        (printed["replay"]["window_ms"].as_u64(), printed["replay"]["nonces_max"].as_u64()),
        (Some(2000), Some(5000))
    );
    // The output is itself a configuration.
    let printed = config_file(folder.path(), &text(&output.stdout));
    assert!(run(&["config", "check", &printed]).status.success());
}
