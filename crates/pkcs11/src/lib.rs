//! Keys on PKCS#11 tokens: hardware security modules, smart cards, and SoftHSM.
//!
//! A vendor's module can hang, crash, or read the memory of its process. It runs in a host process of its own: a hidden
//! command of the same binary, which answers requests on a socket pair ([`run_host`]). [`Token`] starts the host, gives
//! each operation a deadline, and kills and restarts a host that hangs, dies or loses its token.
//!
//! The crate does not know key stores, configuration files or sessions.

mod child;
mod error;
mod host;
mod message;
mod module;
mod pin;
mod queue;
mod spki;
mod supervisor;
mod token;
mod uri;

pub use error::{Error, Fault};
pub use host::run as run_host;
pub use message::{Generate, KeyName, Scheme, SecretKind};
pub use pin::PinSource;
pub use queue::Caller;
pub use token::{Gcm, Hash, Options, Signing, Token};
pub use uri::{ObjectKind, Uri, UriError};

/// Help texts of this crate's metrics, by name.
pub const METRICS: &[(&str, &str)] = &[
    ("sealway_pkcs11_up", "1 while a token is ready for operations, by token"),
    ("sealway_pkcs11_operations_total", "Operations on a token, by token and result"),
    ("sealway_pkcs11_starts_total", "Starts of the process that hosts a token's module, by token"),
];
