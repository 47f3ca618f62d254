//! The number of a direction's next record: begins at 1, rises by 1, never repeats.

use crate::channel::ChannelError;

/// The next sequence number of a direction.
pub(crate) struct Sequence(u64);

impl Sequence {
    pub(crate) fn new() -> Self {
        Sequence(1)
    }

    /// Returns the next number and uses it up. The last number of all is never used, so that a next one to reject by always
    /// exists.
    pub(crate) fn take(&mut self) -> Result<u64, ChannelError> {
        let taken = self.0;
        self.0 = taken.checked_add(1).ok_or(ChannelError::RecordsExhausted)?;
        Ok(taken)
    }

    /// Checks that a received number is the expected one.
    pub(crate) fn expect(&self, found: u64) -> Result<(), ChannelError> {
        match found.cmp(&self.0) {
            _ if self.0 == u64::MAX => Err(ChannelError::RecordsExhausted),
            core::cmp::Ordering::Less => Err(ChannelError::RecordReplayed),
            core::cmp::Ordering::Equal => Ok(()),
            core::cmp::Ordering::Greater => Err(ChannelError::RecordMissing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_handed_out_once_and_the_last_one_never() {
        let mut sequence = Sequence::new();
        assert_eq!((sequence.take(), sequence.take()), (Ok(1), Ok(2)));
        assert_eq!(sequence.expect(2), Err(ChannelError::RecordReplayed));
        assert_eq!(sequence.expect(3), Ok(()));
        assert_eq!(sequence.expect(4), Err(ChannelError::RecordMissing));

        let mut sequence = Sequence(u64::MAX - 1);
        assert_eq!(sequence.take(), Ok(u64::MAX - 1));
        for _ in 0..2 {
            assert_eq!(sequence.take(), Err(ChannelError::RecordsExhausted));
            assert_eq!(sequence.expect(u64::MAX), Err(ChannelError::RecordsExhausted));
        }
    }
}
