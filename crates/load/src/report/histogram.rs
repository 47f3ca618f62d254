//! Histograms as text: HdrHistogram's V2 format, compressed, in base64, as in its interval logs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::file::ReportError;

/// Maximum length of a histogram's text: 4 MiB.
const TEXT_LEN_MAX: usize = 4 * 1024 * 1024;

/// Encodes a histogram as text.
pub(crate) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail, and a counter fits the format: both have 63 bits.
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

/// Decodes a histogram from its text.
///
/// # Errors
/// [`ReportError::Content`] if [`encode`] cannot have produced the text.
pub(crate) fn decode(text: &str) -> Result<Histogram<u64>, ReportError> {
    let failure = |why: String| ReportError::Content(format!("a histogram cannot be read: {why}"));
    if text.len() > TEXT_LEN_MAX {
        return Err(failure(format!("it is longer than {TEXT_LEN_MAX} characters")));
    }
    let bytes = STANDARD.decode(text).map_err(|err| failure(err.to_string()))?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|err| failure(format!("{err:?}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Times;

    #[test]
    fn a_histogram_comes_back_as_it_was_and_stays_small() {
        let mut times = Times::default();
        for step in 1..50_000_u64 {
            times.record(Duration::from_nanos(step * step));
        }
        let text = encode(times.histogram());
        assert!(text.len() < 20_000, "{}", text.len());
        assert_eq!(&decode(&text).unwrap(), times.histogram());
    }

    #[test]
    fn a_text_that_is_not_a_histogram_is_rejected() {
        for text in ["", "????", "AAAA", "HISTFAAAACB4nJNpmSzMwMCgyAABTBAKSDIzMDDYf4AI"] {
            assert!(decode(text).unwrap_err().to_string().contains("a histogram cannot be read"), "{text}");
        }
    }
}
