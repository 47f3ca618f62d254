//! Parts of the differential test: a plan, both sides that carry it out, and the comparison.

pub(crate) mod client;
pub(crate) mod nghttp2;
pub(crate) mod plan;
pub(crate) mod server;
pub(crate) mod transport;
pub(crate) mod verdict;
