//! The inventory as a CBOM of CycloneDX 1.6 (ECMA-424): a component for each algorithm, key and protocol, and an occurrence for
//! each use. Equal inventories give equal bytes.

use std::collections::{BTreeMap, BTreeSet};

use sealway_runtime::clock::iso8601;
use sealway_runtime::inventory::{Document, Entry, properties};
use serde_json::{Value, json};

use super::shown;

/// Builds the document of a merged inventory.
pub(super) fn bom(document: &Document) -> Value {
    let mut components: BTreeMap<String, Value> = BTreeMap::new();
    let mut uses: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    let mut suites: BTreeMap<&str, BTreeSet<&Entry>> = BTreeMap::new();
    for row in &document.rows {
        uses.entry(algorithm_ref(row)).or_default().push(row);
        if !row.key.is_empty() {
            uses.entry(key_ref(row)).or_default().push(row);
        }
        if row.operation == "tls-handshake" {
            suites.entry(&row.protocol).or_default().insert(row);
        }
    }
    for row in &document.rows {
        let name = algorithm_ref(row);
        let evidence = evidence(uses.get(&name).map_or(&[], Vec::as_slice));
        components.entry(name.clone()).or_insert_with(|| algorithm(&name, row, &uses, evidence));
        if !row.key.is_empty() {
            let name = key_ref(row);
            let evidence = self::evidence(uses.get(&name).map_or(&[], Vec::as_slice));
            components.entry(name.clone()).or_insert_with(|| key(&name, row, evidence));
        }
    }
    for (version, rows) in suites {
        let name = format!("crypto/protocol/tls@{}", shown(version));
        components.insert(name.clone(), protocol(&name, version, &rows));
    }
    let figures = [
        ("sealway:inventory:overflow", document.overflow.count.to_string()),
        ("sealway:inventory:gaps", document.gaps.count.to_string()),
        ("sealway:inventory:since", iso8601(document.since_ms)),
        ("sealway:inventory:sources", document.sources.iter().map(|name| shown(name)).collect::<Vec<_>>().join(" ")),
    ];
    let figures: Vec<_> = figures.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": iso8601(document.until_ms),
            "tools": { "components": [{ "type": "application", "name": "sealway", "version": env!("CARGO_PKG_VERSION") }] },
            "properties": figures,
        },
        "components": components.into_values().collect::<Vec<_>>(),
    })
}

fn algorithm_ref(row: &Entry) -> String {
    format!("crypto/algorithm/{}@{}", shown(&row.algorithm), row.size)
}

fn key_ref(row: &Entry) -> String {
    format!("crypto/key/{}@{}@{}", shown(&row.key), shown(&row.algorithm), row.size)
}

/// Formats the uses as occurrences, which are unique and in order.
fn evidence(rows: &[&Entry]) -> Value {
    let occurrence = |row: &&Entry| {
        json!({
            "location": shown(&row.party),
            "symbol": shown(&row.operation),
            "additionalContext": format!(
                "protocol={} key={} count={} first={} last={}",
                shown(&row.protocol), shown(&row.key), row.count, iso8601(row.first_ms), iso8601(row.last_ms)
            ),
        })
    };
    json!({ "occurrences": rows.iter().map(occurrence).collect::<Vec<_>>() })
}

fn algorithm(name: &str, row: &Entry, uses: &BTreeMap<String, Vec<&Entry>>, evidence: Value) -> Value {
    let known = properties(&row.algorithm, row.size);
    let functions: BTreeSet<_> =
        uses.get(name).into_iter().flatten().filter_map(|row| function(&row.operation)).collect();
    let mut algorithm = json!({
        "primitive": known.map_or("unknown", |known| known.primitive.as_str()),
        "cryptoFunctions": if functions.is_empty() { vec!["unknown"] } else { functions.into_iter().collect() },
    });
    if row.size > 0 {
        algorithm["parameterSetIdentifier"] = row.size.to_string().into();
    }
    if let Some(known) = known {
        algorithm["nistQuantumSecurityLevel"] = known.quantum.into();
    }
    let mut crypto = json!({ "assetType": "algorithm", "algorithmProperties": algorithm });
    if let Some(oid) = known.and_then(|known| known.oid.as_deref()) {
        crypto["oid"] = oid.into();
    }
    json!({
        "type": "cryptographic-asset",
        "bom-ref": name,
        "name": shown(&row.algorithm),
        "cryptoProperties": crypto,
        "evidence": evidence,
    })
}

fn key(name: &str, row: &Entry, evidence: Value) -> Value {
    let mut material = json!({ "type": "key", "id": shown(&row.key), "algorithmRef": algorithm_ref(row) });
    if row.size > 0 {
        material["size"] = row.size.into();
    }
    json!({
        "type": "cryptographic-asset",
        "bom-ref": name,
        "name": shown(&row.key),
        "cryptoProperties": { "assetType": "related-crypto-material", "relatedCryptoMaterialProperties": material },
        "evidence": evidence,
    })
}

fn protocol(name: &str, version: &str, rows: &BTreeSet<&Entry>) -> Value {
    let suites: BTreeMap<_, _> = rows.iter().map(|row| (shown(&row.algorithm), algorithm_ref(row))).collect();
    let suites: Vec<_> =
        suites.into_iter().map(|(name, algorithm)| json!({ "name": name, "algorithms": [algorithm] })).collect();
    let number = version.trim_start_matches("TLSv").replace('_', ".");
    json!({
        "type": "cryptographic-asset",
        "bom-ref": name,
        "name": shown(version),
        "cryptoProperties": {
            "assetType": "protocol",
            "protocolProperties": { "type": "tls", "version": shown(&number), "cipherSuites": suites },
        },
        "evidence": evidence(&rows.iter().copied().collect::<Vec<_>>()),
    })
}

/// Returns the function of an operation in the words of CycloneDX.
fn function(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "HashData" => "digest",
        "EncryptData" | "jwe-seal" | "kek-wrap" => "encrypt",
        "DecryptData" | "jwe-open" | "Unwrap" | "kek-unwrap" => "decrypt",
        "SignData" | "SignDigest" | "SignCertificate" | "tls-signature" | "session-signature" | "jws-sign" => "sign",
        "VerifyData" | "VerifyDigest" | "VerifyMac" | "tls-client-certificate" | "tls-server-certificate" => "verify",
        "Mac" => "tag",
        "Derive" | "hpke-kdf" => "keyderive",
        "Random" => "generate",
        "Encapsulate" => "encapsulate",
        "Decapsulate" | "hpke-kem" => "decapsulate",
        "GenerateKey" | "RotateKey" => "keygen",
        _ => return None,
    })
}
