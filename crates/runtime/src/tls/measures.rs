//! Metrics of certificates in use: their ends, and the results of reloads.

use std::collections::BTreeMap;

use metrics::{Counter, Gauge, counter, gauge};

use super::{CertificateStatus, TlsError};

/// The series of `sealway_certificate_expiry_seconds` that one owner of certificates has set.
#[derive(Debug, Default)]
pub struct ExpiryGauges(BTreeMap<(String, &'static str), u64>);

impl ExpiryGauges {
    /// Sets a series for each file and role, to the earliest end in it. A series whose file is no longer in use becomes NaN, so
    /// that no alert fires for it.
    pub fn set(&mut self, certificates: impl IntoIterator<Item = CertificateStatus>) {
        let mut ends = BTreeMap::new();
        for status in certificates.into_iter().filter(|status| status.not_after_ms > 0) {
            let end = ends.entry((status.file, status.role)).or_insert(status.not_after_ms);
            *end = status.not_after_ms.min(*end);
        }
        for ((file, role), _) in self.0.iter().filter(|(series, _)| !ends.contains_key(*series)) {
            expiry(file, role).set(f64::NAN);
        }
        for ((file, role), end_ms) in &ends {
            expiry(file, role).set((end_ms / 1000) as f64);
        }
        self.0 = ends;
    }
}

fn expiry(file: &str, role: &'static str) -> Gauge {
    gauge!("sealway_certificate_expiry_seconds", "file" => file.to_owned(), "role" => role)
}

fn reloads(result: &'static str) -> Counter {
    counter!("sealway_certificate_reloads_total", "result" => result)
}

/// Creates the counters of reloads at 0: a scraper sees no increment of a counter that begins with it.
pub(super) fn register() {
    let _ = [reloads("ok"), reloads("failed")];
}

/// Counts a reload of changed files. A reload that found the same content is not counted.
pub fn count_reload(reloaded: &Result<bool, TlsError>) {
    match reloaded {
        Ok(false) => {}
        Ok(true) => reloads("ok").increment(1),
        Err(_) => reloads("failed").increment(1),
    }
}
