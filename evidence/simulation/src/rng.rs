//! The one source of randomness of a run: SplitMix64, by the seed.

/// A generator. Equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Creates the generator of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5ea1_3a70)
    }

    /// Returns the next 64 bits of the sequence.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from `low` up to and including `high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// Returns an index below `len`, which is not 0.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.bits() % (len as u64)).unwrap_or(0)
    }

    /// Returns true in `per_mille` of 1000 cases.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.bits() % 1000 < per_mille
    }

    /// Fills a buffer with the next bytes of the sequence.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.bits().to_le_bytes();
            chunk.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        }
    }
}
