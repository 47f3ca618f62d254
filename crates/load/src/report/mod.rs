//! What is left of a run: a [`Report`] of plain values, and the forms it is written in.
//!
//! It knows an [`Outcome`](crate::engine::Outcome) and nothing of how it was measured. Nothing secret is in a report: no
//! password, no token, no header's value. Whatever a server said (the examples of faults) is a stranger's text and is
//! escaped by each form in its own way.

mod asked;
mod compare;
mod csv;
mod document;
pub(crate) mod escape;
mod file;
mod format;
#[cfg(test)]
mod format_tests;
mod histogram;
mod hlog;
mod html;
mod junit;
mod machine;
mod made;
mod markdown;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod schema_tests;
mod text;
mod tuned;
mod tuned_forms;
pub(crate) mod units;
mod words;
pub(crate) mod wrap;

pub(crate) use self::compare::compare;
pub(crate) use self::document::{LimitTold, Report};
pub(crate) use self::file::{check, read};
pub(crate) use self::format::{Document, Format, render, write};
pub(crate) use self::machine::Machine;
pub(crate) use self::tuned::{AutotuneReport, Interval, Knee, MatrixReport, Point};

/// The version of the documents, in each of them. It grows when a field changes its meaning or goes; a new field alone
/// does not change it.
pub(crate) const VERSION: u32 = 1;
