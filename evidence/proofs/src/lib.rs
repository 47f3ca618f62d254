//! Evidence: properties that hold for every input within a bound. The harnesses are the tests of this package, `tests/bounded`.
