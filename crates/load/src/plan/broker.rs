//! The broker as a target: what is asked of it.

use std::path::PathBuf;

/// A broker on a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Where it listens.
    pub socket: PathBuf,
    /// What is spoken.
    pub wire: BrokerWire,
    /// What is asked for.
    pub operation: BrokerOperation,
    /// The profile; empty for what needs none.
    pub profile: String,
    /// The key's id; empty for what needs none.
    pub key: String,
    /// Bytes of each input; of each output where it is derived or random.
    pub input_len: u32,
    /// Inputs in a call.
    pub batch: u32,
    /// What a certificate is signed from.
    pub certificate: Option<BrokerCertificate>,
}

/// What is spoken to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerWire {
    /// Sealway's own, `sealway.broker.v1`.
    V1,
    /// The Open Crypto Broker's, W3 and W4.
    Open,
}

/// Files that a certificate is signed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerCertificate {
    /// The request, in PEM.
    pub csr: PathBuf,
    /// The authority's certificate, in PEM.
    pub issuer: PathBuf,
    /// The authority's private key, in PEM: the wire `open` sends it with each call.
    pub issuer_key: Option<PathBuf>,
}

/// What is asked of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerOperation {
    /// Digests.
    Hash,
    /// A certificate, of a request.
    Sign,
    /// Ciphertexts.
    Encrypt,
    /// Plaintexts, of ciphertexts that were made before.
    Decrypt,
    /// Ciphertexts under the current version of their key.
    Rewrap,
    /// Signatures.
    SignData,
    /// Whether signatures that were made before are right.
    Verify,
    /// Authentication tags.
    Mac,
    /// Whether tags that were made before are right.
    VerifyMac,
    /// Keys, of a key.
    Derive,
    /// Random bytes.
    Random,
    /// Shared secrets.
    Encapsulate,
    /// Shared secrets, of what was encapsulated before.
    Decapsulate,
    /// What it says of itself.
    Information,
    /// Whether it serves.
    Health,
}

impl BrokerOperation {
    /// All of them, by the names that flags and reports have for them.
    pub const ALL: [(&'static str, BrokerOperation); 15] = [
        ("hash", BrokerOperation::Hash),
        ("sign", BrokerOperation::Sign),
        ("encrypt", BrokerOperation::Encrypt),
        ("decrypt", BrokerOperation::Decrypt),
        ("rewrap", BrokerOperation::Rewrap),
        ("sign-data", BrokerOperation::SignData),
        ("verify", BrokerOperation::Verify),
        ("mac", BrokerOperation::Mac),
        ("verify-mac", BrokerOperation::VerifyMac),
        ("derive", BrokerOperation::Derive),
        ("random", BrokerOperation::Random),
        ("encapsulate", BrokerOperation::Encapsulate),
        ("decapsulate", BrokerOperation::Decapsulate),
        ("information", BrokerOperation::Information),
        ("health", BrokerOperation::Health),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, operation)| *operation == self).map_or("", |(name, _)| name)
    }

    /// Whether it is done under a profile.
    pub fn has_profile(self) -> bool {
        !matches!(self, BrokerOperation::Information | BrokerOperation::Health)
    }

    /// Whether it is done with a key of the broker's store.
    pub fn has_key(self) -> bool {
        self.has_profile() && !matches!(self, BrokerOperation::Hash | BrokerOperation::Random)
    }

    /// Whether a call has several inputs.
    pub fn has_batch(self) -> bool {
        self.has_profile() && self != BrokerOperation::Sign
    }

    /// Whether inputs or outputs have a length to be chosen.
    pub fn has_length(self) -> bool {
        self.has_batch() && !matches!(self, BrokerOperation::Encapsulate | BrokerOperation::Decapsulate)
    }

    /// Whether the Open Crypto Broker has it.
    pub fn is_open(self) -> bool {
        use BrokerOperation as Is;
        matches!(self, Is::Hash | Is::Sign | Is::Encrypt | Is::Decrypt | Is::Health)
    }
}

impl BrokerWire {
    /// All of them, by their names.
    pub const ALL: [(&'static str, BrokerWire); 2] = [("v1", BrokerWire::V1), ("open", BrokerWire::Open)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, wire)| *wire == self).map_or("", |(name, _)| name)
    }
}
