//! The function list, with a function for every place: those that the module lacks say so.

use cryptoki_sys::*;

use super::{call, objects, operations};
use crate::pointer::value;

/// Functions that the module lacks.
macro_rules! lacking {
    ($($answer:ident { $($name:ident($($argument:ty),*),)* })*) => {
        $($(unsafe extern "C" fn $name($(_: $argument),*) -> CK_RV {
            $answer
        })*)*
    };
}

lacking! {
    CKR_FUNCTION_NOT_SUPPORTED {
        init_token(CK_SLOT_ID, *mut CK_UTF8CHAR, CK_ULONG, *mut CK_UTF8CHAR),
        init_pin(CK_SESSION_HANDLE, *mut CK_UTF8CHAR, CK_ULONG),
        set_pin(CK_SESSION_HANDLE, *mut CK_UTF8CHAR, CK_ULONG, *mut CK_UTF8CHAR, CK_ULONG),
        get_operation_state(CK_SESSION_HANDLE, *mut CK_BYTE, *mut CK_ULONG),
        set_operation_state(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, CK_OBJECT_HANDLE, CK_OBJECT_HANDLE),
        create_object(CK_SESSION_HANDLE, *mut CK_ATTRIBUTE, CK_ULONG, *mut CK_OBJECT_HANDLE),
        copy_object(CK_SESSION_HANDLE, CK_OBJECT_HANDLE, *mut CK_ATTRIBUTE, CK_ULONG, *mut CK_OBJECT_HANDLE),
        destroy_object(CK_SESSION_HANDLE, CK_OBJECT_HANDLE),
        get_object_size(CK_SESSION_HANDLE, CK_OBJECT_HANDLE, *mut CK_ULONG),
        set_attribute_value(CK_SESSION_HANDLE, CK_OBJECT_HANDLE, *mut CK_ATTRIBUTE, CK_ULONG),
        encrypt_init(CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE),
        encrypt(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        encrypt_update(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        encrypt_final(CK_SESSION_HANDLE, *mut CK_BYTE, *mut CK_ULONG),
        decrypt_update(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        decrypt_final(CK_SESSION_HANDLE, *mut CK_BYTE, *mut CK_ULONG),
        digest_key(CK_SESSION_HANDLE, CK_OBJECT_HANDLE),
        sign_recover_init(CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE),
        sign_recover(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        verify_recover_init(CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE),
        verify_recover(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        digest_encrypt_update(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        decrypt_digest_update(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        sign_encrypt_update(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        decrypt_verify_update(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG),
        generate_key(CK_SESSION_HANDLE, *mut CK_MECHANISM, *mut CK_ATTRIBUTE, CK_ULONG, *mut CK_OBJECT_HANDLE),
        generate_key_pair(CK_SESSION_HANDLE, *mut CK_MECHANISM, *mut CK_ATTRIBUTE, CK_ULONG, *mut CK_ATTRIBUTE, CK_ULONG, *mut CK_OBJECT_HANDLE, *mut CK_OBJECT_HANDLE),
        wrap_key(CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE, CK_OBJECT_HANDLE, *mut CK_BYTE, *mut CK_ULONG),
        unwrap_key(CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_ATTRIBUTE, CK_ULONG, *mut CK_OBJECT_HANDLE),
        derive_key(CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE, *mut CK_ATTRIBUTE, CK_ULONG, *mut CK_OBJECT_HANDLE),
    }
    CKR_FUNCTION_NOT_PARALLEL {
        get_function_status(CK_SESSION_HANDLE),
        cancel_function(CK_SESSION_HANDLE),
    }
    CKR_RANDOM_SEED_NOT_SUPPORTED {
        seed_random(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG),
    }
}

static LIST: CK_FUNCTION_LIST = CK_FUNCTION_LIST {
    version: CK_VERSION { major: 2, minor: 40 },
    C_Initialize: Some(super::initialize),
    C_Finalize: Some(super::finalize),
    C_GetInfo: Some(super::get_info),
    C_GetFunctionList: Some(C_GetFunctionList),
    C_GetSlotList: Some(super::get_slot_list),
    C_GetSlotInfo: Some(super::get_slot_info),
    C_GetTokenInfo: Some(super::get_token_info),
    C_GetMechanismList: Some(super::get_mechanism_list),
    C_GetMechanismInfo: Some(super::get_mechanism_info),
    C_InitToken: Some(init_token),
    C_InitPIN: Some(init_pin),
    C_SetPIN: Some(set_pin),
    C_OpenSession: Some(super::open_session),
    C_CloseSession: Some(super::close_session),
    C_CloseAllSessions: Some(super::close_all_sessions),
    C_GetSessionInfo: Some(super::get_session_info),
    C_GetOperationState: Some(get_operation_state),
    C_SetOperationState: Some(set_operation_state),
    C_Login: Some(super::login),
    C_Logout: Some(super::logout),
    C_CreateObject: Some(create_object),
    C_CopyObject: Some(copy_object),
    C_DestroyObject: Some(destroy_object),
    C_GetObjectSize: Some(get_object_size),
    C_GetAttributeValue: Some(objects::get_attribute_value),
    C_SetAttributeValue: Some(set_attribute_value),
    C_FindObjectsInit: Some(objects::find_objects_init),
    C_FindObjects: Some(objects::find_objects),
    C_FindObjectsFinal: Some(objects::find_objects_final),
    C_EncryptInit: Some(encrypt_init),
    C_Encrypt: Some(encrypt),
    C_EncryptUpdate: Some(encrypt_update),
    C_EncryptFinal: Some(encrypt_final),
    C_DecryptInit: Some(operations::decrypt_init),
    C_Decrypt: Some(operations::decrypt),
    C_DecryptUpdate: Some(decrypt_update),
    C_DecryptFinal: Some(decrypt_final),
    C_DigestInit: Some(operations::digest_init),
    C_Digest: Some(operations::digest),
    C_DigestUpdate: Some(operations::digest_update),
    C_DigestKey: Some(digest_key),
    C_DigestFinal: Some(operations::digest_final),
    C_SignInit: Some(operations::sign_init),
    C_Sign: Some(operations::sign),
    C_SignUpdate: Some(operations::sign_update),
    C_SignFinal: Some(operations::sign_final),
    C_SignRecoverInit: Some(sign_recover_init),
    C_SignRecover: Some(sign_recover),
    C_VerifyInit: Some(operations::verify_init),
    C_Verify: Some(operations::verify),
    C_VerifyUpdate: Some(operations::verify_update),
    C_VerifyFinal: Some(operations::verify_final),
    C_VerifyRecoverInit: Some(verify_recover_init),
    C_VerifyRecover: Some(verify_recover),
    C_DigestEncryptUpdate: Some(digest_encrypt_update),
    C_DecryptDigestUpdate: Some(decrypt_digest_update),
    C_SignEncryptUpdate: Some(sign_encrypt_update),
    C_DecryptVerifyUpdate: Some(decrypt_verify_update),
    C_GenerateKey: Some(generate_key),
    C_GenerateKeyPair: Some(generate_key_pair),
    C_WrapKey: Some(wrap_key),
    C_UnwrapKey: Some(unwrap_key),
    C_DeriveKey: Some(derive_key),
    C_SeedRandom: Some(seed_random),
    C_GenerateRandom: Some(operations::generate_random),
    C_GetFunctionStatus: Some(get_function_status),
    C_CancelFunction: Some(cancel_function),
    C_WaitForSlotEvent: Some(super::wait_for_slot_event),
};

/// Returns the functions of the module: the one symbol that programs look up.
///
/// # Safety
/// `list` is NULL, or points to a pointer.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn C_GetFunctionList(list: *mut *mut CK_FUNCTION_LIST) -> CK_RV {
    call(|| {
        // SAFETY: the caller's promise. Programs only read the list: the pointer is mutable in the C header alone.
        *unsafe { value(list) }? = (&raw const LIST).cast_mut();
        Ok(())
    })
}
