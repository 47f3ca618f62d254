//! The error type of all operations on tokens.

use std::fmt;

use cryptoki::error::{Error as ModuleError, RvError};

/// Kind of an error. The numbers cross the socket to the host process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Fault {
    /// The module cannot be loaded or initialised.
    Module = 1,
    /// No token fits the URI: it is removed, or its module does not see it.
    TokenAbsent = 2,
    /// Several tokens fit the URI.
    SeveralTokens = 3,
    /// The source of the PIN cannot be read.
    PinSource = 4,
    /// The token rejected the PIN. It is not tried again.
    PinWrong = 5,
    /// The token's PIN is locked.
    PinLocked = 6,
    /// One try is left before the token locks its PIN. It is left to a person.
    PinFinalTry = 7,
    /// The token has no session left.
    SessionCount = 8,
    /// The token or its module failed.
    Device = 9,
    /// No key on the token fits the URI.
    KeyNotFound = 10,
    /// Several keys on the token fit the URI.
    SeveralKeys = 11,
    /// The token has a key of this label already.
    KeyExists = 12,
    /// The token does not have the mechanism.
    Mechanism = 13,
    /// The key does not permit the operation, or is of another type.
    KeyUnfit = 14,
    /// The input does not decrypt.
    Data = 15,
    /// The operation did not end within its deadline; the host process was killed.
    Timeout = 16,
    /// The host process ended during the operation.
    HostDied = 17,
    /// No turn came within the deadline; nothing was sent to the token.
    Busy = 18,
    /// The token is stopped, or has not started yet.
    NotReady = 19,
    /// The caller has its share of the calls that wait for the token; nothing was sent to it.
    Share = 20,
    /// The login failed, and not because of its PIN.
    Login = 21,
}

impl Fault {
    /// Name of the kind in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Module => "module",
            Fault::TokenAbsent => "token_absent",
            Fault::SeveralTokens => "several_tokens",
            Fault::PinSource => "pin_source",
            Fault::PinWrong => "pin_wrong",
            Fault::PinLocked => "pin_locked",
            Fault::PinFinalTry => "pin_final_try",
            Fault::SessionCount => "session_count",
            Fault::Device => "device_error",
            Fault::KeyNotFound => "key_not_found",
            Fault::SeveralKeys => "several_keys",
            Fault::KeyExists => "key_exists",
            Fault::Mechanism => "mechanism",
            Fault::KeyUnfit => "key_unfit",
            Fault::Data => "data",
            Fault::Timeout => "timeout",
            Fault::HostDied => "host_died",
            Fault::Busy => "busy",
            Fault::NotReady => "not_ready",
            Fault::Share => "share",
            Fault::Login => "login",
        }
    }

    /// True if another session or process may repair it: the host ends, and starts anew.
    pub(crate) fn ends_host(self) -> bool {
        matches!(self, Fault::TokenAbsent | Fault::Device)
    }

    /// True if the token as a whole cannot serve now: the same call may succeed later.
    pub fn is_unavailable(self) -> bool {
        !matches!(
            self,
            Fault::KeyNotFound
                | Fault::SeveralKeys
                | Fault::KeyExists
                | Fault::Mechanism
                | Fault::KeyUnfit
                | Fault::Data
        )
    }

    fn text(self) -> &'static str {
        match self {
            Fault::Module => "the module cannot be loaded",
            Fault::TokenAbsent => "the token is absent",
            Fault::SeveralTokens => "several tokens fit; name the serial number too",
            Fault::PinSource => "the PIN cannot be read",
            Fault::PinWrong => "the token rejected the PIN; it is not tried again until the PIN's source changes",
            Fault::PinLocked => "the PIN is locked; the token's security officer can unlock it",
            Fault::PinFinalTry => "one try of the PIN is left; log in once by hand to reset the count",
            Fault::SessionCount => "the token has no session left",
            Fault::Device => "the token failed",
            Fault::KeyNotFound => "no key on the token fits",
            Fault::SeveralKeys => "several keys on the token fit; name the id too",
            Fault::KeyExists => "the token has a key of this label already",
            Fault::Mechanism => "the token does not have the mechanism",
            Fault::KeyUnfit => "the token's key does not permit this",
            Fault::Data => "the token rejected the input",
            Fault::Timeout => "the token did not answer in time; its host process is restarted",
            Fault::HostDied => "the token's host process ended during the operation",
            Fault::Busy => "the token is busy; nothing was sent to it",
            Fault::NotReady => "the token is not ready",
            Fault::Share => "this caller has its share of the calls that wait for the token",
            Fault::Login => "the login failed, and not because of the PIN; it is tried again less and less often",
        }
    }
}

/// A failed operation on a token. Its text never contains a PIN, a key or an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Kind of the error, for callers.
    pub fault: Fault,
    /// Name of the module's return value, or another detail; may be empty.
    pub detail: String,
}

impl Error {
    /// Creates an error with a detail.
    pub(crate) fn new(fault: Fault, detail: impl Into<String>) -> Error {
        Error { fault, detail: detail.into() }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::new(fault, "")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.text())?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Maps the module's return values.
impl From<ModuleError> for Error {
    fn from(err: ModuleError) -> Error {
        let value = match err {
            ModuleError::Pkcs11(value, _) => value,
            ModuleError::LibraryLoading(err) => return Error::new(Fault::Module, err.to_string()),
            ModuleError::MissingSymbol(name) => return Error::new(Fault::Module, format!("it has no {name}")),
            ModuleError::NullFunctionPointer | ModuleError::NotSupported => return Fault::Mechanism.into(),
            _ => return Error::new(Fault::Device, "unexpected value"),
        };
        let fault = match value {
            RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange | RvError::PinExpired => Fault::PinWrong,
            RvError::PinLocked => Fault::PinLocked,
            RvError::TokenNotPresent
            | RvError::TokenNotRecognized
            | RvError::DeviceRemoved
            | RvError::SlotIdInvalid => Fault::TokenAbsent,
            RvError::SessionCount => Fault::SessionCount,
            RvError::KeyHandleInvalid | RvError::ObjectHandleInvalid => Fault::KeyNotFound,
            RvError::MechanismInvalid | RvError::MechanismParamInvalid | RvError::FunctionNotSupported => {
                Fault::Mechanism
            }
            RvError::KeyTypeInconsistent
            | RvError::KeyFunctionNotPermitted
            | RvError::KeySizeRange
            | RvError::AttributeSensitive
            | RvError::AttributeTypeInvalid
            | RvError::TemplateInconsistent
            | RvError::CurveNotSupported => Fault::KeyUnfit,
            RvError::EncryptedDataInvalid
            | RvError::EncryptedDataLenRange
            | RvError::DataInvalid
            | RvError::DataLenRange => Fault::Data,
            _ => Fault::Device,
        };
        Error::new(fault, format!("{value:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_number_a_name_and_a_text_of_its_own() {
        let all: Vec<Fault> = (1..=21).map(|number| Fault::try_from(number).unwrap()).collect();
        let names: std::collections::HashSet<_> = all.iter().map(|fault| (fault.name(), fault.text())).collect();
        assert_eq!(names.len(), all.len());
        assert!(Fault::try_from(22).is_err());
    }
}
