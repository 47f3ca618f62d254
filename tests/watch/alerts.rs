//! Alerts of the rules, made short by [`SCALE`](sealway_testkit::prometheus::SCALE), on services in good order and at fault.
//!
//! The short form begins most faults at once. `make alerts` runs the long form: a long run without a fault, then each fault by
//! itself, which must fire its own alerts and no others.
#![allow(clippy::print_stdout, reason = "which alerts fired when, for a reader")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sealway_testkit::prometheus::Prometheus;
use serde_json::Value;

use crate::dashboards::{offer_load, panels_without_data};
use crate::faults::{Connections, FAULTS, Fault};
use crate::services::Services;
use crate::traffic::Traffic;

/// Longest time until the alerts of a fault fire.
const SOON: Duration = Duration::from_secs(60);
/// Processes that are scraped, and their objectives.
const SERVICES: usize = 4;
const OBJECTIVES: usize = 5;
/// Time without a fault before faults begin, and of the long run: longer than an hour of the rules.
const QUIET: Duration = Duration::from_secs(5);
const LONG_QUIET: Duration = Duration::from_secs(90);

/// Returns an alert as faults name it.
fn key(alert: &Value) -> String {
    let label = |name: &str| alert["labels"][name].as_str().unwrap_or_default();
    [label("severity"), label("alertname"), label("slo")].join(" ").trim_end().to_owned()
}

fn firing(prometheus: &Prometheus) -> BTreeSet<String> {
    let alerts = prometheus.firing().unwrap();
    for alert in &alerts {
        let text = alert["annotations"].to_string();
        assert!(!text.contains("error expanding") && !text.contains("<no value>"), "{alert}");
    }
    alerts.iter().map(key).collect()
}

/// Waits until every service is scraped and every objective measured, then looks on for some time, in which no alert fires.
fn stays_quiet(prometheus: &Prometheus, time: Duration) {
    let begun = Instant::now();
    let count = |expression: &str| prometheus.query(expression).unwrap().len();
    while count("up{job=~'sealway.*'} == 1") < SERVICES || count("sealway:slo_burn:rate5m == 0") < OBJECTIVES {
        assert!(begun.elapsed() < SOON, "{:?}", prometheus.query("{__name__=~'up|sealway:slo_burn:rate5m'}"));
        std::thread::sleep(Duration::from_millis(100));
    }
    let begun = Instant::now();
    while begun.elapsed() < time {
        assert_eq!(firing(prometheus), BTreeSet::new(), "after {:?} without a fault", begun.elapsed());
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Begins the faults, and waits until all of their alerts have fired. No other may.
fn fires(services: &Services, traffic: &Traffic, open: &mut Connections, faults: &[&Fault], may: &[&str]) {
    let begun = Instant::now();
    for fault in faults {
        (fault.begin)(services, traffic, open);
    }
    let of = |alerts: fn(&Fault) -> &'static [&'static str]| -> BTreeSet<String> {
        faults.iter().flat_map(|fault| alerts(fault)).map(ToString::to_string).collect()
    };
    let (wanted, mut allowed) = (of(|fault| fault.fires), of(|fault| fault.may_fire));
    allowed.extend(wanted.iter().cloned());
    allowed.extend(may.iter().map(ToString::to_string));
    let mut fired = BTreeSet::new();
    let names: Vec<_> = faults.iter().map(|fault| fault.name).collect();
    while !wanted.is_subset(&fired) {
        for alert in firing(&services.prometheus) {
            assert!(allowed.contains(&alert), "{alert} fires, and is about none of {names:?}");
            if fired.insert(alert.clone()) {
                println!("{:5.1} s  {alert}", begun.elapsed().as_secs_f64());
            }
        }
        let missing: Vec<_> = wanted.difference(&fired).collect();
        assert!(begun.elapsed() < SOON, "{names:?}: {missing:?} do not fire");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn no_alert_fires_without_a_fault_each_fires_when_its_fault_begins_and_every_panel_has_data() {
    let services = Services::start();
    let traffic = Traffic::start(&services);
    let load = offer_load(&services);
    stays_quiet(&services.prometheus, QUIET);
    // Some show what goes well, some what does not.
    let empty = panels_without_data(&services.prometheus);
    let (mut open, mut may) = (Connections::default(), Vec::new());
    let last = FAULTS.iter().map(|fault| fault.round).max().unwrap();
    for round in 1..=last {
        let faults: Vec<_> = FAULTS.iter().filter(|fault| fault.round == round).collect();
        fires(&services, &traffic, &mut open, &faults, &may);
        may.extend(faults.iter().flat_map(|fault| fault.fires.iter().chain(fault.may_fire)));
    }
    let empty: Vec<_> = empty.intersection(&panels_without_data(&services.prometheus)).cloned().collect();
    assert!(empty.is_empty(), "panels without data: {empty:#?}");
    drop(load);
}

#[test]
#[ignore = "a quarter of an hour: make alerts"]
fn no_alert_fires_in_a_long_run_and_each_fault_fires_its_own_alerts_alone() {
    let begun = Instant::now();
    {
        let services = Services::start();
        let _traffic = Traffic::start(&services);
        stays_quiet(&services.prometheus, LONG_QUIET);
        println!("no alert in {LONG_QUIET:?} without a fault");
    }
    for fault in FAULTS {
        println!("{}", fault.name);
        let services = Services::start();
        let traffic = Traffic::start(&services);
        stays_quiet(&services.prometheus, QUIET);
        fires(&services, &traffic, &mut Connections::default(), &[fault], &[]);
    }
    println!("{} faults in {:.0} s", FAULTS.len(), begun.elapsed().as_secs_f64());
}
