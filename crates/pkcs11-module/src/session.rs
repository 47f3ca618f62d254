//! Sessions: a search, and an operation of each kind.

use std::sync::Arc;

use cryptoki_sys::{
    CK_OBJECT_HANDLE, CKR_DATA_LEN_RANGE, CKR_FUNCTION_FAILED, CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED,
};
use zeroize::Zeroizing;

use crate::failure::{Failure, Result};
use crate::mechanism::Use;
use crate::object::Key;

/// Longest input of an operation, in bytes: the broker's bound.
const INPUT_LEN_MAX: usize = 1024 * 1024;

/// State of one open session.
pub(crate) struct Session {
    /// Place of its slot in the configuration.
    pub(crate) slot: usize,
    pub(crate) is_rw: bool,
    pub(crate) search: Option<std::vec::IntoIter<CK_OBJECT_HANDLE>>,
    pub(crate) sign: Active,
    pub(crate) verify: Active,
    pub(crate) decrypt: Active,
    pub(crate) digest: Active,
}

impl Session {
    pub(crate) fn new(slot: usize, is_rw: bool) -> Session {
        let none = Active::default;
        Session { slot, is_rw, search: None, sign: none(), verify: none(), decrypt: none(), digest: none() }
    }
}

/// Place of an operation that may be active.
#[derive(Default)]
pub(crate) struct Active(Option<Operation>);

/// An operation from its `Init` on.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) purpose: Use,
    /// Key of the operation; `None` for a digest.
    pub(crate) key: Option<Arc<Key>>,
    /// Name of the broker's profile.
    pub(crate) profile: Arc<str>,
    /// Parts of the input so far.
    pub(crate) input: Zeroizing<Vec<u8>>,
    /// True after the first part.
    is_multipart: bool,
}

impl Operation {
    pub(crate) fn new(purpose: Use, key: Option<Key>, profile: &str) -> Operation {
        let (key, input) = (key.map(Arc::new), Zeroizing::default());
        Operation { purpose, key, profile: profile.into(), input, is_multipart: false }
    }

    /// Returns the key of the operation.
    pub(crate) fn key(&self) -> Result<&Key> {
        self.key.as_deref().ok_or(Failure(CKR_FUNCTION_FAILED))
    }
}

impl Active {
    /// Begins an operation, if none is active.
    pub(crate) fn begin(&mut self, operation: Operation) -> Result<()> {
        if self.0.is_some() {
            return Err(Failure(CKR_OPERATION_ACTIVE));
        }
        self.0 = Some(operation);
        Ok(())
    }

    /// Ends the operation, and returns it.
    pub(crate) fn take(&mut self) -> Result<Operation> {
        self.0.take().ok_or(Failure(CKR_OPERATION_NOT_INITIALIZED))
    }

    /// Fails if an operation is active.
    pub(crate) fn check_free(&self) -> Result<()> {
        if self.0.is_some() { Err(Failure(CKR_OPERATION_ACTIVE)) } else { Ok(()) }
    }

    /// Adds a part of the input. A failure ends the operation.
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<()> {
        let operation = self.0.as_mut().ok_or(Failure(CKR_OPERATION_NOT_INITIALIZED))?;
        if operation.input.len() + part.len() > INPUT_LEN_MAX {
            self.0 = None;
            return Err(Failure(CKR_DATA_LEN_RANGE));
        }
        // A vector that grows leaves its former bytes behind: the new one is made, and the former one wiped.
        let before: &[u8] = if operation.is_multipart { &operation.input } else { &[] };
        let whole = Zeroizing::new([before, part].concat());
        operation.input = whole;
        operation.is_multipart = true;
        Ok(())
    }

    /// Returns the operation for its last function. `input` is the input of a function that takes it at once; `None`
    /// ends an operation by parts.
    pub(crate) fn last(&mut self, input: Option<&[u8]>) -> Result<&mut Operation> {
        let operation = self.0.as_mut().ok_or(Failure(CKR_OPERATION_NOT_INITIALIZED))?;
        if let Some(input) = input {
            if operation.is_multipart {
                return Err(Failure(CKR_OPERATION_ACTIVE));
            }
            if input.len() > INPUT_LEN_MAX {
                self.0 = None;
                return Err(Failure(CKR_DATA_LEN_RANGE));
            }
            operation.input = Zeroizing::new(input.to_vec());
        }
        self.0.as_mut().ok_or(Failure(CKR_OPERATION_NOT_INITIALIZED))
    }
}
