//! The fixed form of ECDSA signatures: r and s concatenated, each as long as the curve's field (IEEE P1363). Converts
//! from and to the DER form of RFC 3279 section 2.2.3, which the library signs and verifies.

use crate::certificate::der::{self, DerError, Reader};

/// Converts a signature of the library to the fixed form.
pub(super) fn from_der(signature: &[u8], field_len: usize) -> Option<Vec<u8>> {
    let numbers = || -> Result<[&[u8]; 2], DerError> {
        let mut whole = Reader::new(signature, "malformed signature");
        let mut pair = whole.inside(der::SEQUENCE)?;
        let numbers = [pair.element(der::INTEGER)?.value, pair.element(der::INTEGER)?.value];
        pair.end().and_then(|()| whole.end()).map(|()| numbers)
    };
    let mut fixed = vec![0; 2 * field_len];
    for (place, number) in fixed.chunks_exact_mut(field_len).zip(numbers().ok()?) {
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        place[field_len.checked_sub(number.len())?..].copy_from_slice(number);
    }
    Some(fixed)
}

/// Converts a caller's signature to the DER form; `None` for another length.
pub(super) fn to_der(fixed: &[u8], field_len: usize) -> Option<Vec<u8>> {
    (fixed.len() == 2 * field_len).then(|| {
        let (r, s) = fixed.split_at(field_len);
        der::sequence(&[&der::unsigned(r), &der::unsigned(s)])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_fixed_signature_form_round_trips(field_len in prop::sample::select(vec![32_usize, 48, 66]), seed: [u8; 132], zeros in 0_usize..66) {
            let mut fixed = seed[..2 * field_len].to_vec();
            // Short numbers: leading zeros in either.
            let zeros = zeros.min(field_len - 1);
            fixed[..zeros].fill(0);
            fixed[field_len..field_len + zeros / 2].fill(0);
            let der = to_der(&fixed, field_len).unwrap();
            prop_assert_eq!(from_der(&der, field_len).unwrap(), fixed);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = from_der(&bytes, 32);
            let _ = to_der(&bytes, 32);
        }
    }

    #[test]
    fn a_signature_of_another_length_is_rejected() {
        for len in [0, 1, 63, 65, 96] {
            assert_eq!(to_der(&vec![1; len], 32), None, "{len}");
        }
        assert_eq!(to_der(&[0; 64], 32).unwrap(), [0x30, 6, 2, 1, 0, 2, 1, 0]);
    }
}
