//! TODO(issue 3)
