//! Evidence: simulation.
