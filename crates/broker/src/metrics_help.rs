//! The help text of each metric of the broker. docs/reference/broker.md has labels and values.

/// Metric names with their help texts.
pub const METRICS: &[(&str, &str)] = &[
    ("crypto_requests_total", "Calls answered, refused ones included, by method, profile and status"),
    ("crypto_request_duration_seconds", "Time from a call's arrival to its answer, by method and status"),
    ("crypto_operations_errors_total", "Calls refused, by method and code"),
    ("crypto_operation_bytes_processed_total", "Bytes of inputs, by method"),
    ("crypto_hash_data_operations_total", "Digests made, by algorithm"),
    ("crypto_sign_certificate_operations_total", "Certificates issued, by profile"),
    ("crypto_memory_usage_bytes", "Resident memory, in bytes"),
    ("sealway_broker_audit_lines_total", "Lines written to the audit log"),
    ("sealway_broker_audit_failures_total", "Lines of the audit log that could not be written"),
    ("sealway_broker_reloads_total", "Files read again, by file and result"),
];
