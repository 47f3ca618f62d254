//! A key's file: JSON, public except for the wrapped material. The wrapping covers all members, so that a changed file
//! does not open. No file can show that it is an older copy of itself.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::kek::is_kek_id;
use super::key::State;
use super::{Algorithm, Rules, VERSIONS_MAX, WrappedKey, is_key_id};

const FORMAT: u32 = 1;

/// Content of a key's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) id: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) rules: Rules,
    /// Versions without gaps, version 1 first.
    pub(crate) versions: Vec<StoredVersion>,
}

/// Public data of a version. Its wrapping is bound to all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionData {
    pub(crate) number: u32,
    pub(crate) state: State,
    pub(crate) created_ms: u64,
    pub(crate) is_imported: bool,
    /// Upper bound of the messages encrypted under it with random nonces.
    pub(crate) reserved: u64,
    /// SHA-256 of the CA's certificate that is kept with it, if any.
    pub(crate) certificate: Option<[u8; 32]>,
}

/// A version in its key's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredVersion {
    pub(crate) data: VersionData,
    pub(crate) wrapped: WrappedKey,
    /// The CA's certificate in DER, if one is kept with it.
    pub(crate) certificate: Option<Arc<[u8]>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: u32,
    id: String,
    algorithm: String,
    #[serde(default, skip_serializing_if = "is_default")]
    min_decryption_version: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    min_encryption_version: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    deletion_allowed: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    issuer: bool,
    versions: Vec<TextVersion>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextVersion {
    version: u32,
    disabled: bool,
    imported: bool,
    created_ms: u64,
    reserved: u64,
    kek: String,
    wrapped: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
}

impl VersionData {
    /// Additional authenticated data of the wrapping, for the key of this id, algorithm and rules.
    pub(crate) fn aad(&self, id: &str, algorithm: Algorithm, rules: Rules) -> Vec<u8> {
        let mut aad = b"sealway broker key 1\0".to_vec();
        for text in [id, &algorithm.to_string()] {
            // Ids and names are short; their lengths separate them.
            aad.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            aad.extend_from_slice(text.as_bytes());
        }
        aad.extend_from_slice(&self.number.to_be_bytes());
        aad.push(u8::from(self.state == State::Disabled));
        aad.push(u8::from(self.is_imported));
        aad.extend_from_slice(&self.created_ms.to_be_bytes());
        aad.extend_from_slice(&self.reserved.to_be_bytes());
        // Keys without rules are bound as they were before keys had rules.
        if !is_default(&rules) {
            aad.extend_from_slice(&rules.min_decryption.to_be_bytes());
            aad.extend_from_slice(&rules.min_encryption.to_be_bytes());
            aad.push(u8::from(rules.is_deletion_allowed) | u8::from(rules.is_issuer) << 1);
        }
        // No other part is as long: a version without a certificate has none of it.
        aad.extend_from_slice(self.certificate.as_ref().map_or(&[], |digest| &digest[..]));
        aad
    }
}

impl Document {
    /// Encodes the document as JSON.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let version = |StoredVersion { data, wrapped, certificate }: &StoredVersion| TextVersion {
            version: data.number,
            disabled: data.state == State::Disabled,
            imported: data.is_imported,
            created_ms: data.created_ms,
            reserved: data.reserved,
            kek: wrapped.kek_id.clone(),
            wrapped: STANDARD.encode(&wrapped.bytes),
            certificate: certificate.as_ref().map(|der| STANDARD.encode(der)),
        };
        let text = Text {
            format: FORMAT,
            id: self.id.clone(),
            algorithm: self.algorithm.to_string(),
            min_decryption_version: self.rules.min_decryption,
            min_encryption_version: self.rules.min_encryption,
            deletion_allowed: self.rules.is_deletion_allowed,
            issuer: self.rules.is_issuer,
            versions: self.versions.iter().map(version).collect(),
        };
        // Serializing fails only for keys that are not text, which the structure does not have.
        serde_json::to_vec_pretty(&text).unwrap_or_default()
    }

    /// Parses the output of [`Document::encode`]; the error contains none of its text.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Document, String> {
        // The parser's error would cite the text.
        let text: Text = serde_json::from_slice(bytes)
            .map_err(|err| format!("not a key's file, line {} column {}", err.line(), err.column()))?;
        if text.format != FORMAT {
            return Err(format!("its format is {}, this program knows {FORMAT}", text.format));
        }
        if !is_key_id(&text.id) {
            return Err("its id is none".into());
        }
        let algorithm = Algorithm::parse(&text.algorithm).ok_or("its algorithm is unknown")?;
        if text.versions.is_empty() || text.versions.len() > VERSIONS_MAX {
            return Err(format!("expected 1 to {VERSIONS_MAX} versions"));
        }
        let mut versions = Vec::with_capacity(text.versions.len());
        for (index, version) in text.versions.into_iter().enumerate() {
            if version.version != number(index) {
                return Err(format!("version {} is not there", number(index)));
            }
            // The id appears in errors: a user who changed the file must not choose a log's text.
            if !is_kek_id(&version.kek) {
                return Err(format!("version {} has no id of a key-encryption key", number(index)));
            }
            let bytes =
                STANDARD.decode(&version.wrapped).map_err(|_| format!("version {} is damaged", number(index)))?;
            let certificate = version.certificate.map(|text| STANDARD.decode(text).map(Arc::from)).transpose();
            let certificate: Option<Arc<[u8]>> =
                certificate.map_err(|_| format!("the certificate of version {} is damaged", number(index)))?;
            let data = VersionData {
                certificate: certificate.as_deref().map(fingerprint),
                number: version.version,
                state: if version.disabled { State::Disabled } else { State::Enabled },
                created_ms: version.created_ms,
                is_imported: version.imported,
                reserved: version.reserved,
            };
            versions.push(StoredVersion { data, wrapped: WrappedKey { kek_id: version.kek, bytes }, certificate });
        }
        let rules = Rules {
            min_decryption: text.min_decryption_version,
            min_encryption: text.min_encryption_version,
            is_deletion_allowed: text.deletion_allowed,
            is_issuer: text.issuer,
        };
        Ok(Document { id: text.id, algorithm, rules, versions })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// SHA-256 digest of a certificate in DER.
pub(super) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate).as_ref());
    digest
}

/// Number of the version at an index: they count from 1.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let stored = |state, number: u8| StoredVersion {
            data: VersionData {
                number: number.into(),
                state,
                created_ms: 5,
                is_imported: true,
                reserved: 7,
                certificate: Some(fingerprint(b"a certificate")),
            },
            wrapped: WrappedKey { kek_id: "one".into(), bytes: vec![number; 60] },
            certificate: Some(Arc::from(&b"a certificate"[..])),
        };
        Document {
            id: "payments.v1".into(),
            algorithm: Algorithm::parse("aes-256-gcm").unwrap(),
            rules: Rules { min_decryption: 1, min_encryption: 2, is_deletion_allowed: true, is_issuer: true },
            versions: vec![stored(State::Disabled, 1), stored(State::Enabled, 2)],
        }
    }

    #[test]
    fn a_document_round_trips_and_a_truncated_one_is_rejected() {
        let bytes = document().encode();
        assert_eq!(Document::decode(&bytes).unwrap(), document());
        for len in 0..bytes.len() {
            assert!(Document::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn unknown_members_are_rejected_without_quoting_them() {
        let text = String::from_utf8(document().encode()).unwrap();
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("payments.v1", "pay/ments"),
            ("aes-256-gcm", "aes-257-gcm"),
            ("\"version\": 2", "\"version\": 3"),
            ("\"imported\"", "\"secretword\""),
            ("\"kek\": \"one\"", "\"kek\": \"one\", \"secretword\": 1"),
            ("\"kek\": \"one\"", "\"kek\": \"secretword and more than an id\""),
            ("\"kek\": \"one\"", "\"kek\": \"secretwordsecretwordsecretwordsecretword\""),
            ("\"kek\": \"one\"", "\"kek\": \"\""),
            ("AQEB", "!!!!"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let err = Document::decode(changed.as_bytes()).unwrap_err();
            assert!(!err.contains("secretword") && !err.contains("pay/ments"), "{err}");
        }
    }

    #[test]
    fn the_aad_of_wrapped_material_depends_on_every_field() {
        let aes = |name| Algorithm::parse(name).unwrap();
        let one = VersionData {
            number: 1,
            state: State::Enabled,
            created_ms: 5,
            is_imported: false,
            reserved: 7,
            certificate: None,
        };
        let none = Rules::default();
        let mut all = vec![
            one.aad("payments.v1", aes("aes-256-gcm"), none),
            one.aad("payments.v2", aes("aes-256-gcm"), none),
            one.aad("payments.v1", aes("aes-128-gcm"), none),
        ];
        for rules in [
            Rules { min_decryption: 1, ..none },
            Rules { min_encryption: 1, ..none },
            Rules { is_deletion_allowed: true, ..none },
            Rules { is_issuer: true, ..none },
        ] {
            all.push(one.aad("payments.v1", aes("aes-256-gcm"), rules));
        }
        let others = [
            VersionData { number: 2, ..one },
            VersionData { state: State::Disabled, ..one },
            VersionData { created_ms: 6, ..one },
            VersionData { is_imported: true, ..one },
            VersionData { reserved: 8, ..one },
            VersionData { certificate: Some([1; 32]), ..one },
            VersionData { certificate: Some([2; 32]), ..one },
        ];
        all.extend(others.map(|other| other.aad("payments.v1", aes("aes-256-gcm"), none)));
        let different: std::collections::HashSet<&Vec<u8>> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
