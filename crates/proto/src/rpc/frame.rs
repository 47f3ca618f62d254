//! A frame: its length as 32 bits, big-endian, and then its JSON. SPEC rpc.md#frames

use alloc::vec::Vec;

use super::FrameError;

/// Bytes of a frame's length.
pub const HEADER_LEN: usize = 4;
/// Default of the longest JSON of a frame after the prologue, in bytes.
pub const FRAME_LEN_MAX: usize = 1 << 20;
/// The longest JSON of a prologue, in bytes.
pub const HELLO_LEN_MAX: usize = 8 * 1024;

/// Reads the number of bytes that follow a frame's header.
///
/// # Errors
/// [`FrameError::TooLong`] if the number is more than `len_max`: a caller must not allocate what an unauthenticated peer claims.
pub fn body_len(header: [u8; HEADER_LEN], len_max: usize) -> Result<usize, FrameError> {
    let len = u32::from_be_bytes(header) as usize;
    if len > len_max { Err(FrameError::TooLong(len_max)) } else { Ok(len) }
}

/// Appends a frame whose JSON `write` appends. Nothing is appended if it fails.
///
/// # Errors
/// [`FrameError::TooLong`] if the JSON is longer than `len_max`.
pub fn append(out: &mut Vec<u8>, len_max: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    write(out);
    let len = out.len().saturating_sub(start + HEADER_LEN);
    let header = u32::try_from(len).ok().filter(|_| len <= len_max);
    match (header, out.get_mut(start..start + HEADER_LEN)) {
        (Some(len), Some(place)) => {
            place.copy_from_slice(&len.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(FrameError::TooLong(len_max))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_length_and_its_text() {
        let mut out = alloc::vec![7];
        append(&mut out, 5, |out| out.extend_from_slice(b"{\"a\"}")).unwrap();
        assert_eq!(out, b"\x07\0\0\0\x05{\"a\"}");
        assert_eq!(body_len([0, 0, 0, 5], 5), Ok(5));
    }

    #[test]
    fn a_frame_over_its_bound_is_neither_written_nor_read() {
        let mut out = alloc::vec![7];
        assert_eq!(append(&mut out, 4, |out| out.extend_from_slice(b"{\"a\"}")), Err(FrameError::TooLong(4)));
        assert_eq!(out, [7], "what was begun is taken back");
        assert_eq!(body_len([0, 0, 0, 5], 4), Err(FrameError::TooLong(4)));
        assert_eq!(body_len([0xff; 4], FRAME_LEN_MAX), Err(FrameError::TooLong(FRAME_LEN_MAX)));
    }
}
