//! Flags for messages encrypted as card schemes do.

use std::path::PathBuf;

use sealway_client::mle::{MessageSettings, provider};
use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::given;
use crate::plan::Protocol;

/// Flags for messages encrypted as card schemes do.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Messages of card schemes")]
#[serde(default)]
pub(crate) struct MleFlags {
    /// Seal each request anew as this card scheme does, and open its response: mastercard-jwe, visa, visa-acceptance, generic-jwe
    #[arg(long, value_name = "PROFILE")]
    pub(crate) mle: Option<String>,
    /// Certificate or public key of the service, PEM or DER, to which requests are sealed
    #[arg(long, value_name = "FILE")]
    pub(crate) mle_certificate: Option<String>,
    /// Own private key, PEM or DER, which opens responses
    #[arg(long, value_name = "FILE")]
    pub(crate) mle_key: Option<String>,
    /// Certificate of the own key, for names that are derived from one
    #[arg(long, value_name = "FILE")]
    pub(crate) mle_key_certificate: Option<String>,
    /// Name of the service's key in requests
    #[arg(long, value_name = "KID")]
    pub(crate) mle_kid: Option<String>,
    /// Name of the own key in responses
    #[arg(long, value_name = "KID")]
    pub(crate) mle_key_kid: Option<String>,
    /// Derivation of the names that are not given, as sealway mle keys prints them, such as spki_sha256_hex
    #[arg(long, value_name = "DERIVATION")]
    pub(crate) mle_kid_from: Option<String>,
    /// Algorithm that encrypts the content of requests [default: A256GCM]
    #[arg(long, value_name = "ENC")]
    pub(crate) mle_enc: Option<String>,
}

impl MleFlags {
    /// Resolves the flags, and loads the keys once to find what is wrong with them.
    pub(super) fn resolve(
        &self,
        problems: &mut Problems,
        protocol: Protocol,
        is_sealed: bool,
    ) -> Option<MessageSettings> {
        let Some(profile) = &self.mle else {
            for flag in given(self) {
                problems.add(flag, "applies to messages of card schemes only: add --mle PROFILE");
            }
            return None;
        };
        if is_sealed {
            problems.add("--mle with --sealed", "a request is sealed in one way: remove one of them");
        }
        if !matches!(protocol, Protocol::Http1 | Protocol::Http2) {
            problems.add("--mle", "messages of card schemes need --http-version 1.1 or 2");
        }
        let mut file = |flag: &str, file: &Option<String>| {
            if file.is_none() {
                problems.add(flag, "missing: --mle needs a key for each direction");
            }
            file.as_ref().map(PathBuf::from)
        };
        let (certificate, key) = (file("--mle-certificate", &self.mle_certificate), file("--mle-key", &self.mle_key));
        let settings = MessageSettings {
            profile: profile.clone(),
            certificate: certificate?,
            kid: self.mle_kid.clone(),
            kid_from: self.mle_kid_from.clone(),
            enc: self.mle_enc.clone(),
            key: key?,
            key_certificate: self.mle_key_certificate.as_ref().map(PathBuf::from),
            key_kid: self.mle_key_kid.clone(),
            signatures: None,
        };
        if let Err(err) = settings.load(provider()) {
            let flag =
                if err.setting == "profile" { String::new() } else { format!("-{}", err.setting.replace('_', "-")) };
            problems.add(format!("--mle{flag}"), err.reason);
        }
        Some(settings)
    }
}
