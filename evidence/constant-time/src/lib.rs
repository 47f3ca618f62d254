//! Evidence: constant-time.
