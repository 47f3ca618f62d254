//! Numbers that look random and are the same for the same seed. Nothing secret may be made of them.

/// A well-spread image of a number; no two numbers have the same. The finalizer of SplitMix64.
pub(super) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A stream of such numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub(super) fn new(seed: u64) -> Self {
        Random(mix(seed))
    }

    /// 0.0 or more, less than 1.0.
    pub(super) fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        // The highest 53 bits: as many as a double tells apart.
        (mix(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }
}
