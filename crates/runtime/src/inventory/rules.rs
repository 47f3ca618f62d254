//! Properties of algorithms by name, and the standards under which their use must end: the table `algorithms.json`.

use std::sync::OnceLock;

use serde::Deserialize;

/// The table, the one place where names of algorithms have properties.
const TABLE: &str = include_str!("algorithms.json");

/// A standard that bans algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ban {
    /// The suite of the NSA for national security systems, version 2.0: ML-KEM-1024, ML-DSA-87, AES-256, SHA-384 and SHA-512.
    Cnsa2,
    /// Approved security functions of FIPS 140-3.
    Fips140,
    /// The recommendations of BSI TR-02102-1.
    BsiTr02102,
    /// No signature or key establishment that a quantum computer breaks.
    NoClassical,
}

impl Ban {
    /// Each standard with its name on the command line.
    pub const NAMES: [(&'static str, Ban); 4] = [
        ("cnsa-2.0", Ban::Cnsa2),
        ("fips-140-3", Ban::Fips140),
        ("bsi-tr-02102", Ban::BsiTr02102),
        ("no-classical", Ban::NoClassical),
    ];

    /// Returns the standard's name on the command line.
    pub fn name(self) -> &'static str {
        Ban::NAMES.iter().find(|(_, ban)| *ban == self).map_or("", |(name, _)| name)
    }

    /// Judges an algorithm with a key of `size` bits, or of the parameter set `size`; 0 for neither.
    pub fn verdict(self, algorithm: &str, size: u32) -> Verdict {
        match properties(algorithm, size) {
            None => Verdict::Unknown,
            Some(found) if found.breaks.iter().any(|name| name == self.name()) => Verdict::Breaks,
            Some(_) => Verdict::Allowed,
        }
    }
}

/// The judgement of a standard on a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The use may go on.
    Allowed,
    /// The use must come to an end.
    Breaks,
    /// The table has no such algorithm: a person must decide.
    Unknown,
}

/// Properties of an algorithm, from the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Properties {
    pattern: String,
    #[serde(default)]
    size_min: u32,
    /// Its primitive, in the words of CycloneDX 1.6.
    pub primitive: String,
    /// Its object identifier, if it has one.
    pub oid: Option<String>,
    /// Security category of NIST against quantum computers, 1 to 5; 0 for none.
    pub quantum: u8,
    breaks: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "about")]
    _about: String,
    #[serde(rename = "standards")]
    _standards: serde_json::Map<String, serde_json::Value>,
    algorithms: Vec<Properties>,
}

/// Returns the properties of an algorithm by its name, in any letter case; `None` for an unknown one.
pub fn properties(algorithm: &str, size: u32) -> Option<&'static Properties> {
    static ROWS: OnceLock<Vec<Properties>> = OnceLock::new();
    // A test reads the table, which is a part of the program.
    let rows =
        ROWS.get_or_init(|| serde_json::from_str::<Table>(TABLE).map_or_else(|_| Vec::new(), |table| table.algorithms));
    let name = algorithm.to_ascii_lowercase();
    rows.iter().find(|row| size >= row.size_min && fits(&row.pattern, &name))
}

/// True if a name fits a pattern in which `*` is any text.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut is_open = false;
    for part in parts {
        is_open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    is_open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read_and_names_known_standards() {
        let table: Table = serde_json::from_str(TABLE).unwrap();
        assert!(table.algorithms.len() > 90);
        let known: Vec<_> = Ban::NAMES.iter().map(|(name, _)| *name).collect();
        assert_eq!(table._standards.keys().map(String::as_str).collect::<Vec<_>>().len(), known.len());
        for row in &table.algorithms {
            assert!(row.breaks.iter().all(|name| known.contains(&name.as_str())), "{row:?}");
            assert_eq!(row.pattern, row.pattern.to_ascii_lowercase());
            assert!(row.quantum <= 5 && (row.quantum > 0 || !row.breaks.is_empty()), "{row:?}");
        }
    }

    #[test]
    fn a_use_is_judged_by_its_algorithm_and_the_size_of_its_key() {
        use Verdict::{Allowed, Breaks, Unknown};
        let all = |algorithm: &str, size| Ban::NAMES.map(|(_, ban)| ban.verdict(algorithm, size));
        assert_eq!(all("ml-dsa-87", 87), [Allowed; 4]);
        assert_eq!(all("aes-256-gcm", 256), [Allowed; 4]);
        assert_eq!(all("X25519MLKEM768", 0), [Breaks, Allowed, Allowed, Allowed]);
        assert_eq!(all("X25519", 0), [Breaks; 4]);
        assert_eq!(all("ecdsa-p256-sha-256", 256), [Breaks, Allowed, Allowed, Breaks]);
        assert_eq!(all("rsa-pss-sha-256", 3072), [Breaks, Allowed, Allowed, Breaks]);
        assert_eq!(all("rsa-pss-sha-256", 2048), [Breaks, Allowed, Breaks, Breaks]);
        assert_eq!(all("rsa-pkcs1-sha-256", 1024), [Breaks; 4]);
        assert_eq!(all("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", 0), [Breaks; 4]);
        assert_eq!(all("rot13", 0), [Unknown; 4]);
    }

    #[test]
    fn a_pattern_fits_whole_names_alone() {
        for (pattern, name, is_fit) in [
            ("rsa", "rsa", true),
            ("rsa", "rsa-", false),
            ("rsa-*", "rsa-pss", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1b2c3", false),
            ("a*", "b", false),
        ] {
            assert_eq!(fits(pattern, name), is_fit, "{pattern} {name}");
        }
    }
}
