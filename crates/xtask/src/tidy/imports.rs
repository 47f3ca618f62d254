//! Imports between crates: the table of ARCHITECTURE.md, and the rule that holds it. A new crate needs an ADR, then a row.

use super::Finding;
use super::graph::Graph;

/// A crate and the crates of the workspace that may be its normal dependencies.
const TABLE: &[(&str, &[&str])] = &[
    ("sealway-proto", &[]),
    ("sealway-runtime", &[]),
    ("sealway-awslc", &[]),
    ("sealway-pkcs11", &[]),
    ("sealway-client", &["sealway-proto"]),
    ("sealway-exchange", &["sealway-proto"]),
    ("sealway-tower", &["sealway-proto", "sealway-exchange"]),
    ("sealway-sessions", &["sealway-proto", "sealway-runtime", "sealway-client", "sealway-exchange"]),
    (
        "sealway-gateway",
        &[
            "sealway-proto",
            "sealway-runtime",
            "sealway-client",
            "sealway-exchange",
            "sealway-sessions",
            "sealway-awslc",
            "sealway-pkcs11",
        ],
    ),
    ("sealway-gateway-api", &["sealway-runtime"]),
    ("sealway-broker", &["sealway-proto", "sealway-runtime", "sealway-awslc", "sealway-pkcs11"]),
    ("sealway-relay", &["sealway-proto", "sealway-runtime"]),
    ("sealway-load", &["sealway-client", "sealway-runtime"]),
    ("sealway-pkcs11-module", &["sealway-client"]),
    ("sealway-broker-cli", &["sealway-runtime", "sealway-client", "sealway-broker", "sealway-pkcs11"]),
    ("sealway-cli", PRODUCT),
    ("sealway-testkit", &["sealway-proto", "sealway-client", "sealway-sessions"]),
    ("xtask", &["sealway-proto", "sealway-client", "sealway-sessions"]),
    ("sealway-bench", BENCH),
    ("sealway-fuzz", PRODUCT),
    ("sealway-evidence-constant-time", PRODUCT),
    ("sealway-evidence-memory", PRODUCT),
    ("sealway-evidence-proofs", PRODUCT),
    ("sealway-evidence-simulation", PRODUCT),
];

/// Crates that users get; all others are for development only and never a normal dependency of these.
const PRODUCT: &[&str] = &[
    "sealway-proto",
    "sealway-runtime",
    "sealway-awslc",
    "sealway-pkcs11",
    "sealway-client",
    "sealway-exchange",
    "sealway-sessions",
    "sealway-gateway",
    "sealway-gateway-api",
    "sealway-broker",
    "sealway-broker-cli",
    "sealway-pkcs11-module",
    "sealway-relay",
    "sealway-load",
];

/// The product, and the servers of others that it is measured with.
const BENCH: &[&str] = &[
    "sealway-proto",
    "sealway-runtime",
    "sealway-client",
    "sealway-exchange",
    "sealway-sessions",
    "sealway-gateway",
    "sealway-broker",
    "sealway-relay",
    "sealway-load",
    "sealway-testkit",
];

pub(super) fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, krate) in &graph.crates {
        let Some((_, allowed)) = TABLE.iter().find(|(row, _)| row == name) else {
            findings.push(Finding::new(
                name,
                "this crate is not in the import table. A crate earns its Cargo.toml by a dependency firewall, a deployable, a \
                 published artefact or dev-only code: write the ADR, then its row in ARCHITECTURE.md and in tidy/imports.rs",
            ));
            continue;
        };
        for import in krate.direct.iter().filter(|import| graph.crates.contains_key(*import)) {
            if !allowed.contains(&import.as_str()) {
                let may = if allowed.is_empty() { "no crate of the workspace".to_owned() } else { allowed.join(", ") };
                findings.push(Finding::new(
                    name,
                    format!(
                        "imports {import}, but may import only {may}. Pass the value in as an argument, move the code to the crate \
                         that may know both, or make it a dev-dependency if only tests need it"
                    ),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_as_designed_passes() {
        let graph = Graph::sample(&[
            ("sealway-proto", &["zeroize"]),
            ("sealway-runtime", &["tokio"]),
            ("sealway-sessions", &["sealway-proto", "sealway-runtime", "axum"]),
            ("sealway-cli", &["sealway-sessions", "clap"]),
        ]);
        assert_eq!(check(&graph), []);
    }

    #[test]
    fn an_import_against_the_table_is_found_and_both_crates_are_named() {
        let graph = Graph::sample(&[("sealway-runtime", &["sealway-proto"]), ("sealway-proto", &[])]);
        let findings = check(&graph);
        assert_eq!(findings.len(), 1);
        let text = findings[0].to_string();
        assert!(text.starts_with("sealway-runtime: imports sealway-proto, but may import only no crate"), "{text}");
    }

    #[test]
    fn no_product_crate_may_import_a_development_crate() {
        for dev in ["sealway-testkit", "xtask", "sealway-bench", "sealway-fuzz", "sealway-evidence-proofs"] {
            for product in PRODUCT.iter().chain(&["sealway-cli"]) {
                let graph = Graph::sample(&[(product, &[dev]), (dev, &[])]);
                assert_eq!(check(&graph).len(), 1, "{product} may import {dev}");
            }
        }
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let findings = check(&Graph::sample(&[("sealway-extras", &[])]));
        assert!(findings[0].message.contains("not in the import table"));
    }

    #[test]
    fn the_table_has_no_cycle() {
        // Rows are in order: each may import only rows above it, so that no set of crates can import each other.
        for (index, (name, allowed)) in TABLE.iter().enumerate() {
            for import in *allowed {
                assert!(
                    TABLE[..index].iter().any(|(row, _)| row == import),
                    "{name} may import {import}, a row below it"
                );
            }
        }
    }
}
