//! Bounds on memory that belong together.

use serde_json::Value;

use crate::chart::{pod, render};
use crate::{read, yaml};

/// Returns a size in MiB from any of its spellings: `32`, `"32"`, `128m`, `128Mi`.
fn mebibytes(value: &Value) -> u64 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.trim_end_matches(['M', 'm', 'i']).parse().unwrap_or_else(|err| panic!("{text}: {err}"))
}

#[test]
fn what_calls_of_a_broker_may_hold_is_at_most_a_quarter_of_the_memory_that_each_sample_gives() {
    const NAME: &str = "CRYPTO_BROKER_CALLS_MEMORY_MIB";
    let documents = render(&["application"], &[]);
    let sidecar = &pod(&documents, "try-sealway-application")["initContainers"][0];
    let named = sidecar["env"].as_array().unwrap().iter().find(|variable| variable["name"] == NAME).unwrap();
    let compose = &yaml("deploy/compose/broker.yaml")["services"]["broker"];
    let cloud_foundry = &yaml("deploy/cloudfoundry/broker.yml")["applications"][0];
    let unit = read("deploy/systemd/sealway-broker@.service");
    let of_unit = |name: &str| {
        let found = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        Value::from(found.unwrap_or_else(|| panic!("the unit has no {name}")))
    };
    for (sample, limit, held) in [
        ("helm", &sidecar["resources"]["limits"]["memory"], &named["value"]),
        ("compose", &compose["mem_limit"], &compose["environment"][NAME]),
        ("cloudfoundry", &cloud_foundry["sidecars"][0]["memory"], &cloud_foundry["env"][NAME]),
        ("systemd", &of_unit("MemoryMax"), &of_unit(&format!("Environment={NAME}"))),
    ] {
        assert!(!held.is_null(), "{sample} leaves {NAME} at its default");
        assert!(mebibytes(held) * 4 <= mebibytes(limit), "{sample}: {held} of {limit}");
    }
}
