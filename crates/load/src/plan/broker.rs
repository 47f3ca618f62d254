//! A broker as the target, and the operation to call.

use std::path::PathBuf;

use crate::named::named;

/// Broker on a Unix socket, and the calls to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Path of the socket that the broker listens on.
    pub socket: PathBuf,
    /// Wire protocol of the calls.
    pub wire: BrokerWire,
    /// Operation that each call asks for.
    pub operation: BrokerOperation,
    /// Name of the profile; empty for an operation without one.
    pub profile: String,
    /// Id of the key in the broker's store; empty for an operation without one.
    pub key: String,
    /// Bytes of each input; for `Derive` and `Random`, of each output.
    pub input_len: u32,
    /// Number of inputs in a call.
    pub batch: u32,
    /// Files for the operation `Sign`; `None` for all others.
    pub certificate: Option<BrokerCertificate>,
}

named! {
    /// Wire protocol of calls to a broker.
    pub enum BrokerWire {
        /// Sealway's own wire protocol, `sealway.broker.v1`.
        V1 = "v1",
        /// Protocol of the Open Crypto Broker, W3 and W4.
        Open = "open",
    }
}

/// Files that a certificate is signed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerCertificate {
    /// Certificate request of the subject, in PEM.
    pub csr: PathBuf,
    /// Certificate of the authority, in PEM.
    pub issuer: PathBuf,
    /// Private key of the authority, in PEM: the wire `open` sends it with each call.
    pub issuer_key: Option<PathBuf>,
}

named! {
    /// Operation of a broker's service.
    pub enum BrokerOperation {
        /// Computes digests of the inputs.
        Hash = "hash",
        /// Signs a certificate for a request.
        Sign = "sign",
        /// Encrypts the inputs with a key.
        Encrypt = "encrypt",
        /// Decrypts ciphertexts that were made before the run.
        Decrypt = "decrypt",
        /// Encrypts ciphertexts anew under the current version of their key.
        Rewrap = "rewrap",
        /// Signs the inputs with a key.
        SignData = "sign-data",
        /// Verifies signatures that were made before the run.
        Verify = "verify",
        /// Computes authentication tags of the inputs.
        Mac = "mac",
        /// Verifies tags that were made before the run.
        VerifyMac = "verify-mac",
        /// Derives keys from a key.
        Derive = "derive",
        /// Draws random bytes from the broker.
        Random = "random",
        /// Encapsulates shared secrets to a key.
        Encapsulate = "encapsulate",
        /// Decapsulates shared secrets that were encapsulated before the run.
        Decapsulate = "decapsulate",
        /// Decrypts content keys of JWE that were encrypted before the run.
        Unwrap = "unwrap",
        /// Asks the broker for information about itself.
        Information = "information",
        /// Asks the broker if it serves.
        Health = "health",
    }
}

impl BrokerOperation {
    /// Returns whether the operation needs a profile.
    pub fn has_profile(self) -> bool {
        !matches!(self, BrokerOperation::Information | BrokerOperation::Health)
    }

    /// Returns whether the operation needs a key of the broker's store.
    pub fn has_key(self) -> bool {
        self.has_profile() && !matches!(self, BrokerOperation::Hash | BrokerOperation::Random)
    }

    /// Returns whether a call can have several inputs.
    pub fn has_batch(self) -> bool {
        self.has_profile() && self != BrokerOperation::Sign
    }

    /// Returns whether the length of inputs or outputs can be chosen.
    pub fn has_length(self) -> bool {
        self.has_batch() && !matches!(self, BrokerOperation::Encapsulate | BrokerOperation::Decapsulate)
    }

    /// Returns whether the Open Crypto Broker has the operation.
    pub fn is_open(self) -> bool {
        use BrokerOperation as Is;
        matches!(self, Is::Hash | Is::Sign | Is::Encrypt | Is::Decrypt | Is::Health)
    }
}
