//! The fixed form of ECDSA signatures: r and s concatenated, each as long as the curve's field (IEEE P1363). Converts
//! from and to the DER form of RFC 3279 section 2.2.3, which the library signs and verifies.

/// Converts a signature of the library to the fixed form.
pub(super) fn from_der(der: &[u8], field_len: usize) -> Option<Vec<u8>> {
    let (body, rest) = element(der, 0x30)?;
    let (r, s) = element(body, 0x02)?;
    let (s, after) = element(s, 0x02)?;
    if !rest.is_empty() || !after.is_empty() {
        return None;
    }
    let mut fixed = vec![0; 2 * field_len];
    let (left, right) = fixed.split_at_mut(field_len);
    for (place, number) in [(left, r), (right, s)] {
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        let start = field_len.checked_sub(number.len())?;
        place[start..].copy_from_slice(number);
    }
    Some(fixed)
}

/// Converts a caller's signature to the DER form; `None` for another length.
pub(super) fn to_der(fixed: &[u8], field_len: usize) -> Option<Vec<u8>> {
    if fixed.len() != 2 * field_len {
        return None;
    }
    let (r, s) = fixed.split_at(field_len);
    let mut body = Vec::with_capacity(2 * field_len + 6);
    for number in [r, s] {
        // Minimal, with a leading zero if it would otherwise be negative.
        let zeros = number.iter().take_while(|byte| **byte == 0).count().min(field_len - 1);
        let number = &number[zeros..];
        let pad = usize::from(number.first().is_some_and(|byte| byte & 0x80 != 0));
        body.push(0x02);
        body.push(u8::try_from(number.len() + pad).ok()?);
        body.resize(body.len() + pad, 0);
        body.extend_from_slice(number);
    }
    let mut der = vec![0x30];
    if body.len() > 127 {
        der.push(0x81);
    }
    der.push(u8::try_from(body.len()).ok()?);
    der.extend_from_slice(&body);
    Some(der)
}

/// Splits off a DER element of less than 256 bytes with this tag: its content, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (len, rest) = match der {
        [found, 0x81, len, rest @ ..] if *found == tag => (*len, rest),
        [found, len, rest @ ..] if *found == tag && *len < 128 => (*len, rest),
        _ => return None,
    };
    rest.split_at_checked(usize::from(len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_fixed_form_comes_back(field_len in prop::sample::select(vec![32_usize, 48, 66]), seed: [u8; 132], zeros in 0_usize..66) {
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
    fn another_length_has_no_form() {
        for len in [0, 1, 63, 65, 96] {
            assert_eq!(to_der(&vec![1; len], 32), None, "{len}");
        }
        assert_eq!(to_der(&[0; 64], 32).unwrap(), [0x30, 6, 2, 1, 0, 2, 1, 0]);
    }
}
