//! Functions that sign, verify, decrypt, digest and draw random bytes.

use cryptoki_sys::*;
use zeroize::Zeroizing;

use super::with_module;
use crate::broker::{Broker, only};
use crate::failure::{Failure, Result};
use crate::mechanism::{self, Use};
use crate::module::Module;
use crate::operation;
use crate::pointer::{Output, Room, slice, slice_mut, value};
use crate::session::{Active, Operation, Session};

/// Most random bytes of one call of the broker.
const RANDOM_LEN_MAX: usize = 64 * 1024;

/// Kind of an operation, as its `Init` names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sign,
    Verify,
    Decrypt,
    Digest,
}

impl Kind {
    fn place(self, session: &mut Session) -> &mut Active {
        match self {
            Kind::Sign => &mut session.sign,
            Kind::Verify => &mut session.verify,
            Kind::Decrypt => &mut session.decrypt,
            Kind::Digest => &mut session.digest,
        }
    }
}

/// Begins an operation of a session.
///
/// # Safety
/// `mechanism` is NULL, or points to a mechanism whose parameter has the length that it says.
unsafe fn begin(
    module: &Module,
    session: CK_SESSION_HANDLE,
    kind: Kind,
    mechanism: *mut CK_MECHANISM,
    key: Option<CK_OBJECT_HANDLE>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let mechanism = unsafe { value(mechanism) }?;
    module.with(session, |session| {
        kind.place(session).check_free()?;
        let (_, slot) = module.slot(session.slot as CK_SLOT_ID)?;
        // SAFETY: the caller's promise.
        let offer = unsafe { mechanism::find(&module.offers(slot)?, mechanism) }?;
        let fits = match offer.purpose {
            Use::Sign { .. } => matches!(kind, Kind::Sign | Kind::Verify),
            Use::Decrypt { .. } => kind == Kind::Decrypt,
            Use::Digest { .. } => kind == Kind::Digest,
        };
        if !fits {
            return Err(Failure(CKR_MECHANISM_INVALID));
        }
        let key = match key {
            None => None,
            Some(handle) => {
                let object = module.object(session.slot, handle).map_err(|_| Failure(CKR_KEY_HANDLE_INVALID))?;
                let key = object.key.clone().ok_or(Failure(CKR_KEY_HANDLE_INVALID))?;
                if key.is_private != (kind != Kind::Verify) || key.is_unwrap != (kind == Kind::Decrypt) {
                    return Err(Failure(CKR_KEY_FUNCTION_NOT_PERMITTED));
                }
                Some(key)
            }
        };
        kind.place(session).begin(Operation::new(offer.purpose, key, &slot.profile))
    })
}

/// Adds a part of an operation's input.
///
/// # Safety
/// `part` is NULL, or points to `len` bytes.
unsafe fn add(session: CK_SESSION_HANDLE, kind: Kind, part: *const u8, len: CK_ULONG) -> CK_RV {
    with_module(|module| {
        // SAFETY: the caller's promise.
        let part = unsafe { slice(part, len) }?;
        module.with(session, |session| kind.place(session).add(part))
    })
}

/// Ends an operation with an output. `input` is NULL for one that had its input in parts.
///
/// # Safety
/// Input and output point to as many bytes as their lengths say, or are NULL.
unsafe fn end<T: AsRef<[u8]>>(
    session: CK_SESSION_HANDLE,
    kind: Kind,
    input: Option<(*const u8, CK_ULONG)>,
    (output, output_len): (*mut u8, *mut CK_ULONG),
    work: impl FnOnce(&Broker, &Operation) -> Result<T>,
) -> CK_RV {
    with_module(|module| {
        // SAFETY: the caller's promise.
        let input = input.map(|(pointer, len)| unsafe { slice(pointer, len) }).transpose()?;
        // SAFETY: the caller's promise.
        let mut output = unsafe { Output::new(output, output_len) }?;
        module.with(session, |session| {
            let place = kind.place(session);
            let len = operation::output_len(place.last(input)?)?;
            if let Room::LengthOnly = output.prepare(len)? {
                return Ok(());
            }
            output.write(work(&module.broker, &place.take()?)?.as_ref())
        })
    })
}

pub(super) unsafe extern "C" fn sign_init(
    session: CK_SESSION_HANDLE,
    mechanism: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the standard's promise.
    with_module(|module| unsafe { begin(module, session, Kind::Sign, mechanism, Some(key)) })
}

pub(super) unsafe extern "C" fn sign(
    session: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { end(session, Kind::Sign, Some((data, len)), (signature, signature_len), operation::sign) }
}

pub(super) unsafe extern "C" fn sign_update(session: CK_SESSION_HANDLE, part: *mut CK_BYTE, len: CK_ULONG) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { add(session, Kind::Sign, part, len) }
}

pub(super) unsafe extern "C" fn sign_final(
    session: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { end(session, Kind::Sign, None, (signature, signature_len), operation::sign) }
}

pub(super) unsafe extern "C" fn verify_init(
    session: CK_SESSION_HANDLE,
    mechanism: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the standard's promise.
    with_module(|module| unsafe { begin(module, session, Kind::Verify, mechanism, Some(key)) })
}

/// Ends an operation that verifies.
///
/// # Safety
/// Input and signature point to as many bytes as their lengths say, or are NULL.
unsafe fn verify_last(
    session: CK_SESSION_HANDLE,
    input: Option<(*const u8, CK_ULONG)>,
    (signature, len): (*const u8, CK_ULONG),
) -> CK_RV {
    with_module(|module| {
        // SAFETY: the caller's promise.
        let input = input.map(|(pointer, len)| unsafe { slice(pointer, len) }).transpose()?;
        // SAFETY: the caller's promise.
        let signature = unsafe { slice(signature, len) }?;
        module.with(session, |session| {
            session.verify.last(input)?;
            operation::verify(&module.broker, &session.verify.take()?, signature)
        })
    })
}

pub(super) unsafe extern "C" fn verify(
    session: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { verify_last(session, Some((data, len)), (signature, signature_len)) }
}

pub(super) unsafe extern "C" fn verify_update(session: CK_SESSION_HANDLE, part: *mut CK_BYTE, len: CK_ULONG) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { add(session, Kind::Verify, part, len) }
}

pub(super) unsafe extern "C" fn verify_final(
    session: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { verify_last(session, None, (signature, signature_len)) }
}

pub(super) unsafe extern "C" fn decrypt_init(
    session: CK_SESSION_HANDLE,
    mechanism: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the standard's promise.
    with_module(|module| unsafe { begin(module, session, Kind::Decrypt, mechanism, Some(key)) })
}

pub(super) unsafe extern "C" fn decrypt(
    session: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    len: CK_ULONG,
    plain: *mut CK_BYTE,
    plain_len: *mut CK_ULONG,
) -> CK_RV {
    let work = |broker: &Broker, operation: &Operation| {
        operation::decrypt(broker, operation).map(|plain: Zeroizing<Vec<u8>>| Plaintext(plain))
    };
    // SAFETY: the standard's promise.
    unsafe { end(session, Kind::Decrypt, Some((data, len)), (plain, plain_len), work) }
}

/// A plaintext, wiped on drop.
struct Plaintext(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for Plaintext {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

pub(super) unsafe extern "C" fn digest_init(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM) -> CK_RV {
    // SAFETY: the standard's promise.
    with_module(|module| unsafe { begin(module, session, Kind::Digest, mechanism, None) })
}

pub(super) unsafe extern "C" fn digest(
    session: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    len: CK_ULONG,
    digest: *mut CK_BYTE,
    digest_len: *mut CK_ULONG,
) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { end(session, Kind::Digest, Some((data, len)), (digest, digest_len), operation::digest) }
}

pub(super) unsafe extern "C" fn digest_update(session: CK_SESSION_HANDLE, part: *mut CK_BYTE, len: CK_ULONG) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { add(session, Kind::Digest, part, len) }
}

pub(super) unsafe extern "C" fn digest_final(
    session: CK_SESSION_HANDLE,
    digest: *mut CK_BYTE,
    digest_len: *mut CK_ULONG,
) -> CK_RV {
    // SAFETY: the standard's promise.
    unsafe { end(session, Kind::Digest, None, (digest, digest_len), operation::digest) }
}

pub(super) unsafe extern "C" fn generate_random(
    session: CK_SESSION_HANDLE,
    random: *mut CK_BYTE,
    len: CK_ULONG,
) -> CK_RV {
    with_module(|module| {
        let slot = module.with(session, |session| Ok(session.slot))?;
        let (_, slot) = module.slot(slot as CK_SLOT_ID)?;
        // SAFETY: the standard's promise.
        let random = unsafe { slice_mut(random, len) }?;
        if !module.broker.operations(&slot.profile)?.random {
            return Err(Failure(CKR_RANDOM_NO_RNG));
        }
        for chunk in random.chunks_mut(RANDOM_LEN_MAX) {
            let len = u32::try_from(chunk.len()).map_err(|_| Failure(CKR_ARGUMENTS_BAD))?;
            let drawn = module.broker.run(false, async |client| client.random(&slot.profile, len, 1).await)?;
            let drawn = only(drawn.outputs)?;
            if drawn.len() != chunk.len() {
                return Err(Failure(CKR_FUNCTION_FAILED));
            }
            chunk.copy_from_slice(&drawn);
        }
        Ok(())
    })
}
