//! Evidence: tests of proto that `cargo xtask evidence memory` runs under AddressSanitizer. Those that need a fixture of the testkit
//! are left out, since it depends on the services.
