//! Answers as wires write them: a refusal as a status, bytes as hexadecimal.

use tonic::Status;

use crate::Refusal;

/// As our own wire answers it.
pub(super) fn status(refusal: Refusal) -> Status {
    Status::new(tonic::Code::from_i32(refusal.code.number().into()), refusal.text)
}

/// In lower case.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}
