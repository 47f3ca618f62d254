//! Deterministic simulation of stores, servers and clients.
