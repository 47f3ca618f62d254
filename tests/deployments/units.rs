//! deploy/systemd. No unit is started: systemd's own tools read them.

use std::process::Command;

use crate::{BINARY, read, sealway};

/// Unit, and its name in the test.
const UNITS: [(&str, &str); 3] = [
    ("sealway-broker@.service", "sealway-broker@root.service"),
    ("sealway-gateway.service", "sealway-gateway.service"),
    ("sealway-relay.service", "sealway-relay.service"),
];

#[test]
fn the_units_are_valid_for_systemd_and_expose_little() {
    let folder = tempfile::tempdir().unwrap();
    for (file, name) in UNITS {
        // systemd-analyze checks that the program exists.
        let text = read(&format!("deploy/systemd/{file}"));
        let unit = folder.path().join(name);
        std::fs::write(&unit, text.replace("/usr/bin/sealway", BINARY)).unwrap();
        let analyze = |arguments: &[&str]| {
            let output = Command::new("systemd-analyze").args(arguments).arg(&unit).output();
            output.unwrap_or_else(|err| panic!("systemd-analyze is missing: run scripts/setup-tests.sh ({err})"))
        };
        let verified = analyze(&["verify", "--man=no", "--recursive-errors=no"]);
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success() && !said.contains("sealway-"), "{said}");
        // In tenths: 0 is closed, 100 is open. Each unit says 1.1.
        let judged = analyze(&["security", "--offline=true", "--threshold=12", "--no-pager"]);
        assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    }
}

#[test]
fn the_units_stop_later_than_the_services_drain() {
    let seconds = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
        line.trim_end_matches('s').parse::<u64>().unwrap()
    };
    // The default of limits.drain_ms with ten seconds of limits.stop_delay_ms, and --drain-s of the sample.
    assert!(seconds(&read("deploy/systemd/sealway-gateway.service")) > 30 + 10);
    let relay = read("deploy/systemd/sealway-relay.service");
    let flags = relay.split("SEALWAY_RELAY_FLAGS=").nth(1).unwrap().lines().next().unwrap();
    let drain = flags.split("--drain-s ").nth(1).unwrap().parse::<u64>().unwrap();
    assert!(seconds(&relay) > drain);
    let known = sealway(&[]).args(["relay", "serve"]).args(flags.split(' ')).arg("--help").output().unwrap();
    assert!(known.status.success() && known.stderr.is_empty(), "{}", String::from_utf8_lossy(&known.stderr));
}
