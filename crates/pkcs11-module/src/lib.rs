//! A PKCS#11 module (OASIS PKCS#11 v2.40) over the Unix socket of Sealway's broker: programs that speak PKCS#11 use the
//! broker's keys under its profiles, its policy of callers and its audit log.
//!
//! A slot is a profile of the configuration. Its objects are the keys that the caller may use under that profile, and
//! certificates from PEM files. No private key is in this process: each operation is a call of the broker.
//!
//! This crate has unsafe code (docs/adr/0032-a-pkcs11-module-over-the-socket.md): in `abi`, `pointer`, `process`, `signal`,
//! and the check of a parameter in `mechanism`. It follows these rules:
//!
//! * Every pointer of the caller is checked for NULL and alignment before its use, and is not kept after the call.
//! * No panic crosses the interface: it becomes `CKR_GENERAL_ERROR`.
//! * A child of `fork` has to initialise again. It leaves its parent's connection and runtime alone.
//! * The module starts no thread, and changes no signal's action.
//!
//! This crate does not know profiles, policies or algorithms beyond their names: the broker decides.

mod abi;
mod broker;
mod config;
mod der;
mod failure;
mod mechanism;
mod module;
mod object;
mod operation;
mod pointer;
mod process;
mod session;
mod signal;
mod token;
