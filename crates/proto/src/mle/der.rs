//! The few forms of DER (X.690) that keys and certificates need: values behind a tag of one byte, with lengths below 64 KiB in
//! their shortest encoding. Nothing here knows what a value means.

/// A reader of the values in a piece of DER, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// UTF8String, PrintableString and IA5String, whose bytes are UTF-8.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];

impl<'a> Der<'a> {
    /// Returns the content of a sequence that fills the whole input.
    pub(super) fn sequence(der: &'a [u8]) -> Option<Der<'a>> {
        let mut reader = Der(der);
        let content = reader.take(SEQUENCE)?;
        reader.is_empty().then_some(Der(content))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next value: its tag and its content.
    pub(super) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (len, rest) = match rest {
            [len @ 0..=0x7f, rest @ ..] => (usize::from(*len), rest),
            [0x81, len @ 0x80..=0xff, rest @ ..] => (usize::from(*len), rest),
            [0x82, high @ 1..=0xff, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// Takes the next value, which must have this tag, and returns its content.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// Takes the next value, which must have this tag, and returns it with tag and length.
    pub(super) fn take_whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.take(tag)?;
        before.get(..before.len() - self.0.len())
    }

    /// Takes an integer that is not negative, without its leading zeros.
    pub(super) fn unsigned(&mut self) -> Option<&'a [u8]> {
        let number = self.take(INTEGER)?;
        let is_minimal = match number {
            [] | [0x80..=0xff, ..] => false,
            [0, next, ..] => *next >= 0x80,
            _ => true,
        };
        is_minimal.then(|| unsigned(number))
    }

    /// Takes a text; `None` for a string of a type that is not UTF-8, or another value.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let (tag, content) = self.next()?;
        if TEXTS.contains(&tag) { core::str::from_utf8(content).ok() } else { None }
    }

    /// Takes a time of a certificate (RFC 5280 section 4.1.2.5), in seconds since the epoch.
    pub(super) fn time(&mut self) -> Option<i64> {
        let (tag, content) = self.next()?;
        let text = core::str::from_utf8(content).ok()?.strip_suffix('Z')?;
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (year, rest) = match tag {
            UTC_TIME if text.len() == 12 => {
                let (year, rest) = text.split_at_checked(2)?;
                let year: i64 = year.parse().ok()?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME if text.len() == 14 => {
                let (year, rest) = text.split_at_checked(4)?;
                (year.parse().ok()?, rest)
            }
            _ => return None,
        };
        let two = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
        let [month, day, hour, minute, second] = [two(0)?, two(2)?, two(4)?, two(6)?, two(8)?];
        let is_real = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
        is_real.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

/// Drops the leading zeros of a number.
pub(super) fn unsigned(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// Returns the days from the epoch to a date of the Gregorian calendar. Years are counted from March, so that the leap day is last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_one_encoding() {
        assert_eq!(Der(&[4, 2, 7, 8, 9]).next(), Some((4, &[7, 8][..])));
        let long = [&[4, 0x81, 0x80][..], &[1; 128]].concat();
        assert_eq!(Der(&long).next().map(|(_, content)| content.len()), Some(128));
        let longer = [&[4, 0x82, 1, 0][..], &[1; 256]].concat();
        assert_eq!(Der(&longer).next().map(|(_, content)| content.len()), Some(256));
        for der in [
            &[][..],
            &[4],
            &[4, 3, 1, 2],
            &[4, 0x80, 0, 0],
            &[4, 0x81, 1, 7],
            &[4, 0x82, 0, 1, 7],
            &[4, 0x83, 0, 0, 1, 7],
            &[4, 0xff],
        ] {
            assert_eq!(Der(der).next(), None, "{der:?}");
        }
        assert!(Der::sequence(&[0x30, 1, 5, 0]).is_none(), "a byte behind it");
    }

    #[test]
    fn integers_are_positive_and_minimal() {
        for (der, expected) in [
            (&[2, 1, 5][..], Some(&[5][..])),
            (&[2, 2, 0, 0x80], Some(&[0x80])),
            (&[2, 1, 0], Some(&[])),
            (&[2, 1, 0x80], None),
            (&[2, 2, 0, 5], None),
            (&[2, 0], None),
            (&[4, 1, 5], None),
        ] {
            assert_eq!(Der(der).unsigned(), expected, "{der:?}");
        }
    }

    #[test]
    fn times_are_seconds_of_the_epoch() {
        let time = |tag: u8, text: &str| Der(&[&[tag, text.len() as u8], text.as_bytes()].concat()).time();
        assert_eq!(time(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(time(UTC_TIME, "240229120000Z"), Some(1_709_208_000));
        assert_eq!(time(GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
        assert_eq!(time(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        assert_eq!(time(GENERALIZED_TIME, "19500101000000Z"), Some(-631_152_000));
        for (tag, text) in [
            (UTC_TIME, "20240229120000Z"),
            (UTC_TIME, "240229120000"),
            (UTC_TIME, "240229120000+0100"),
            (UTC_TIME, "241329120000Z"),
            (UTC_TIME, "240229240000Z"),
            (UTC_TIME, "2402291200 0Z"),
            (UTC_TIME, "-40229120000Z"),
            (GENERALIZED_TIME, "20240229120000.5Z"),
            (OCTET_STRING, "240229120000Z"),
        ] {
            assert_eq!(time(tag, text), None, "{text}");
        }
    }
}
