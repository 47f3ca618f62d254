//! `LabeledExtract` and `LabeledExpand` over HKDF-SHA256 (RFC 9180 section 4), and the one-stage `LabeledDerive` over
//! SHAKE256 by which the post-quantum KEMs derive keys (draft-ietf-hpke-pq).

use shake::{ExtendableOutput, Shake256, Update, XofReader};
use zeroize::Zeroizing;

use super::HpkeError;
use crate::crypto::agreement::AgreementProvider;

const VERSION: &[u8] = b"HPKE-v1";
/// Most output of HKDF-Expand, in bytes (RFC 5869 section 2.3).
pub(super) const EXPAND_LEN_MAX: usize = 255 * 32;

/// Labels of derivations, which begin with the id of a suite or KEM.
pub(super) struct Labels<'a> {
    pub(super) provider: &'a dyn AgreementProvider,
    pub(super) suite_id: &'a [u8],
}

impl Labels<'_> {
    pub(super) fn extract(&self, salt: &[u8], label: &str, ikm: &[u8]) -> Zeroizing<[u8; 32]> {
        self.provider.hmac_sha256(salt, &[VERSION, self.suite_id, label.as_bytes(), ikm])
    }

    /// Fills `out`, at most [`EXPAND_LEN_MAX`] bytes.
    pub(super) fn expand(&self, prk: &[u8; 32], label: &str, info: &[&[u8]], out: &mut [u8]) -> Result<(), HpkeError> {
        if out.len() > EXPAND_LEN_MAX {
            return Err(HpkeError::ExportLength);
        }
        let len = (out.len() as u16).to_be_bytes();
        let prk = self.provider.mac_key(prk);
        let mut last = Zeroizing::new([0; 32]);
        for (number, chunk) in (1..=u8::MAX).zip(out.chunks_mut(32)) {
            let before: &[u8] = if number == 1 { &[] } else { last.as_slice() };
            let counter = [number];
            let head = [before, &len, VERSION, self.suite_id, label.as_bytes()];
            let parts = head.into_iter().chain(info.iter().copied()).chain([counter.as_slice()]);
            last = prk.mac(&parts.collect::<alloc::vec::Vec<_>>());
            for (to, from) in chunk.iter_mut().zip(last.iter()) {
                *to = *from;
            }
        }
        Ok(())
    }

    /// Expands to an array; its length is far below the bound.
    pub(super) fn expand_array<const N: usize>(
        &self,
        prk: &[u8; 32],
        label: &str,
        info: &[&[u8]],
    ) -> Result<Zeroizing<[u8; N]>, HpkeError> {
        let mut out = Zeroizing::new([0; N]);
        self.expand(prk, label, info, out.as_mut_slice())?;
        Ok(out)
    }
}

/// `SHAKE256.LabeledDerive(ikm, label, "", out.len())` (draft-ietf-hpke-pq, one-stage key derivation).
pub(super) fn shake256_derive(ikm: &[u8], suite_id: &[u8], label: &str, out: &mut [u8]) {
    let lens = [label.len() as u16, out.len() as u16].map(u16::to_be_bytes);
    let [label_len, out_len] = &lens;
    shake256(&[ikm, VERSION, suite_id, label_len, label.as_bytes(), out_len], out);
}

/// SHAKE256 (FIPS 202) of the concatenation of `parts`. Keys are read with it; no message goes through it.
pub(super) fn shake256(parts: &[&[u8]], out: &mut [u8]) {
    let mut hash = Shake256::default();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize_xof().read(out);
}
