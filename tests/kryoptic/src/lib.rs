//! The functions that a module of PKCS#11 exports.

use kryoptic_lib::fns::general::{fn_get_function_list, fn_get_interface, fn_get_interface_list};
use kryoptic_lib::pkcs11::{
    CK_FLAGS, CK_FUNCTION_LIST_PTR_PTR, CK_INTERFACE_PTR, CK_INTERFACE_PTR_PTR, CK_RV, CK_ULONG_PTR, CK_UTF8CHAR_PTR,
    CK_VERSION_PTR,
};

/// Returns the functions of version 2.40.
#[unsafe(no_mangle)]
pub extern "C" fn C_GetFunctionList(list: CK_FUNCTION_LIST_PTR_PTR) -> CK_RV {
    fn_get_function_list(list)
}

/// Returns the functions of a version.
#[unsafe(no_mangle)]
pub extern "C" fn C_GetInterface(
    name: CK_UTF8CHAR_PTR,
    version: CK_VERSION_PTR,
    interface: CK_INTERFACE_PTR_PTR,
    flags: CK_FLAGS,
) -> CK_RV {
    fn_get_interface(name, version, interface, flags)
}

/// Returns the versions with their functions.
#[unsafe(no_mangle)]
pub extern "C" fn C_GetInterfaceList(list: CK_INTERFACE_PTR, count: CK_ULONG_PTR) -> CK_RV {
    fn_get_interface_list(list, count)
}
