//! Evidence: proofs.
