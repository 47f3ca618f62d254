//! Reports of runs: a [`Report`] of plain values, and the forms it is written in.
//!
//! This module depends on an [`Outcome`](crate::engine::Outcome) and not on the measurement. A report contains no secret: no
//! password, no token, no header's value. Text of a server (the examples of failures) is untrusted, and each form escapes it
//! in its own way.

mod build;
mod compare;
mod csv;
mod document;
pub(crate) mod escape;
mod file;
mod format;
mod histogram;
mod hlog;
mod html;
mod junit;
mod machine;
mod markdown;
mod plan;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod tuned;
mod tuned_forms;
pub(crate) mod units;
mod words;
pub(crate) mod wrap;

pub(crate) use self::compare::{compare, student};
pub(crate) use self::document::Report;
pub(crate) use self::file::{check, read};
pub(crate) use self::format::{Document, Format, write};
pub(crate) use self::machine::Machine;
pub(crate) use self::tuned::{AutotuneReport, Knee, MatrixReport, Point};

/// Version of the documents, contained in each of them. It grows when a field is removed or changes its meaning; a new field
/// does not change it.
pub(crate) const VERSION: u32 = 1;
