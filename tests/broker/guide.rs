//! The broker's guides, run as written: the test writes their files and runs their commands in order in an empty folder, against
//! the broker that they start.

use std::path::Path;

use sealway_testkit::daemon::{free_port, root};
use sealway_testkit::guide::{self, Block, blocks};

use crate::BINARY;

const GUIDE: &str = include_str!("../../docs/tutorials/broker.md");
const SWITCH: &str = include_str!("../../docs/guides/replace-crypto-broker.md");
const TRANSIT: &str = include_str!("../../docs/guides/replace-vault-transit.md");
const INVENTORY: &str = include_str!("../../docs/guides/crypto-inventory-for-pci-dss.md");
const CNSA: &str = include_str!("../../docs/guides/be-ready-for-cnsa-2-0.md");
const HSM: &str = include_str!("../../docs/guides/keep-keys-in-an-hsm.md");
const SAMPLE: &str = include_str!("../../deploy/broker/Profiles.yaml");

/// Returns the blocks as one shell script. The last command of a block `refused` must fail, that of `wait` may take a while.
/// Blocks `build` are left out, because `cargo xtask test-fips` does the same.
fn script(blocks: &[Block]) -> String {
    let mut script = String::from("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for block in blocks.iter().filter(|block| block.info.starts_with("sh") && block.info != "sh build") {
        script.push_str(&format!("echo '### line {}' >&2\n", block.line));
        let text = block.text.replace(" &\n", " >>broker.log 2>&1 &\n");
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let (last, others) = lines.split_last().unwrap();
        match block.info.as_str() {
            "sh refused" => {
                script.push_str(&format!(
                    "{}\nif {last}; then echo 'it was not refused' >&2; exit 1; fi\n",
                    others.join("\n")
                ));
            }
            "sh wait" => {
                script.push_str(&format!(
                    "for try in $(seq 300); do if {last} 2>try.log; then break; fi; sleep 0.1; done\n{last}\n"
                ));
            }
            "sh" => script.push_str(&text),
            other => panic!("line {}: what is `{other}`?", block.line),
        }
    }
    script
}

fn run(blocks: &[Block], folder: &Path, environment: &[(&str, &str)]) {
    for block in blocks.iter().filter(|block| block.file.is_some()) {
        std::fs::write(folder.join(block.file.as_ref().unwrap()), &block.text).unwrap();
    }
    let mut shell = guide::shell(BINARY, folder, &script(blocks)).unwrap();
    guide::run(shell.envs(environment.iter().copied()), &folder.join("broker.log")).unwrap();
}

fn folder_of_ones_own() -> tempfile::TempDir {
    // Not writable by others, whatever the umask of the test is.
    tempfile::tempdir().unwrap()
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = folder_of_ones_own();
    let blocks = blocks(GUIDE);
    assert!(blocks.iter().filter(|block| block.info.starts_with("sh")).count() > 12);
    run(&blocks, folder.path(), &[]);
    let log = std::fs::read_to_string(folder.path().join("broker.log")).unwrap();
    assert!(log.contains("profiles reloaded") && !log.contains("hello"), "an input is in the log, or no reload: {log}");
    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(audit.contains("\"SignCertificate\"") && !audit.contains("hello"), "{audit}");
}

#[test]
fn the_guide_to_the_inventory_is_done_as_written() {
    let folder = folder_of_ones_own();
    run(&blocks(INVENTORY), folder.path(), &[]);
    let bom: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("cbom.json")).unwrap()).unwrap();
    let names: Vec<_> = bom["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sha-256", "sha-384"]);
}

#[test]
fn a_file_of_callers_as_the_guide_has_it_is_one() {
    let block = blocks(GUIDE).into_iter().find(|block| block.file.as_deref() == Some("callers.yaml")).unwrap();
    let callers = sealway_broker::callers::Callers::parse(&block.text, sealway_broker::profile::Leniency::Strict);
    let callers = callers.unwrap_or_else(|err| panic!("{err:?}"));
    let peer = sealway_broker::callers::Peer { uid: 1000, gid: 1000, ..Default::default() };
    let allows = |operation| callers.allows(&peer, operation, Some("Default"), None).is_ok();
    assert!(allows("HashData") && !allows("Random"));
}

#[test]
fn the_switch_from_the_old_broker_is_done_as_its_guide_says() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder_of_ones_own();
    let profiles = folder.path().join("Profiles.yaml");
    std::fs::write(&profiles, SAMPLE).unwrap();
    std::fs::set_permissions(&profiles, PermissionsExt::from_mode(0o644)).unwrap();
    let mut blocks = blocks(SWITCH);
    for block in &mut blocks {
        // A reader of the guide runs this command in a second terminal.
        block.text = block.text.replace("sealway broker serve\n", "sealway broker serve &\n");
    }
    let health = Block { info: "sh wait".into(), text: "sealway broker health\n".into(), line: 0, file: None };
    blocks.push(health);
    // Not the default path, which clients of other programs on this machine use.
    run(&blocks, folder.path(), &[("CRYPTO_BROKER_SOCKET", "run/broker.sock"), ("CRYPTO_BROKER_APP_ENV", "prod")]);
}

#[test]
fn keys_are_kept_in_an_hsm_as_the_guide_says() {
    let folder = folder_of_ones_own();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let hsm = sealway_testkit::softhsm::module().unwrap().display().to_string();
    let mut blocks = blocks(HSM);
    for block in &mut blocks {
        block.text = block.text.replace("127.0.0.1:9464", &address).replace("/usr/lib/softhsm/libsofthsm2.so", &hsm);
        block.text = block.text.replace("tokendir = tokens", &format!("tokendir = {}/tokens", folder.path().display()));
    }
    run(&blocks, folder.path(), &[]);
    let pin = std::fs::read_to_string(folder.path().join("pin")).unwrap();
    let log = std::fs::read_to_string(folder.path().join("broker.log")).unwrap();
    assert!(!log.contains(pin.trim()), "{log}");
}

#[test]
fn the_move_from_vault_is_done_as_its_guide_says() {
    let folder = folder_of_ones_own();
    // The ports of the guide may be another program's here.
    let (api, gateway) = (free_port().unwrap(), free_port().unwrap());
    let mut blocks = blocks(TRANSIT);
    for block in &mut blocks {
        block.text = block.text.replace(":8200", &format!(":{api}")).replace(":8202", &format!(":{gateway}"));
    }
    run(&blocks, folder.path(), &[]);
    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(audit.contains("\"token\":\"billing\"") && !audit.contains("c2FsYXJ5"), "{audit}");
}

#[test]
fn a_broker_of_cnsa_2_0_is_set_up_as_its_guide_says() {
    let folder = folder_of_ones_own();
    // The CA and the request that a reader has, of an OpenSSL that knows ML-DSA.
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "{} is missing: run scripts/setup-tests.sh", python.display());
    let script = root().join("crates/broker/tests/ml_dsa.py");
    let made = std::process::Command::new(python).arg(script).arg("make").arg(folder.path()).status().unwrap();
    assert!(made.success());
    for (from, to) in [("87-key.pem", "ca-key.pem"), ("87-ca.pem", "ca.pem"), ("87-csr.pem", "device.csr")] {
        std::fs::rename(folder.path().join(from), folder.path().join(to)).unwrap();
    }
    let (service, gateway) = (free_port().unwrap(), free_port().unwrap());
    let mut blocks = blocks(CNSA);
    for block in &mut blocks {
        // The ports of the guide may be another program's here.
        let text = block.text.replace("9000", &service.to_string());
        block.text = text.replace(":8480", &format!(":{gateway}"));
    }
    run(&blocks, folder.path(), &[]);
    let issued = std::fs::read_to_string(folder.path().join("device.pem")).unwrap();
    assert!(issued.starts_with("-----BEGIN CERTIFICATE-----") && issued.len() > 9_000, "{issued}");
    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(audit.contains("\"SignCertificate\"") && audit.contains("clients-ca"), "{audit}");
}

#[test]
fn everything_that_the_guides_name_exists() {
    for guide in [GUIDE, SWITCH, TRANSIT, CNSA] {
        assert_eq!(guide::missing(guide), [""; 0]);
    }
    assert!(root().join("fips/Cargo.toml").is_file());
}

/// Collects the quoted names after a mark, from every source file of a folder.
fn named_after(mark: &str, folder: &Path, names: &mut std::collections::BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named_after(mark, &path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let after = text.split(mark).skip(1);
            names.extend(after.map(|rest| rest.trim_start().split('"').nth(1).unwrap().to_owned()));
        }
    }
}

#[test]
fn the_page_for_operators_has_every_metric_and_no_other() {
    let mut recorded = std::collections::BTreeSet::new();
    for mark in ["metrics::counter!(", "metrics::gauge!(", "metrics::histogram!("] {
        for crate_of in ["broker", "pkcs11"] {
            named_after(mark, &root().join("crates").join(crate_of).join("src"), &mut recorded);
        }
    }
    let page = std::fs::read_to_string(root().join("docs/reference/broker.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let kinds = ["counter ", "gauge ", "histogram "];
    let told =
        rows.filter(|(_, rest)| kinds.iter().any(|kind| rest.starts_with(kind))).map(|(name, _)| name.to_owned());
    assert!(recorded.len() > 8, "{recorded:?}");
    assert_eq!(told.collect::<std::collections::BTreeSet<_>>(), recorded);
}
