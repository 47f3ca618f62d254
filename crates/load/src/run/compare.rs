//! `sealway load compare`: two reports read, compared, shown, judged.

use std::path::Path;

use sealway_runtime::config::Problems;

use super::{Failure, print};
use crate::flags::{CompareArgs, values};
use crate::report::{Format, compare, read};

/// What is called a regression in words, where no flag says what is one.
const REGRESSION: f64 = 0.05;

/// Compares two reports. With `--regression` a figure that is significantly worse by more than that is a failure, and so is
/// a pair of reports of which nothing can be said: a gate that cannot judge lets nothing through.
pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let mut problems = Problems::default();
    let words = [("text", Format::Text), ("markdown", Format::Markdown), ("json", Format::Json)];
    let format = values::word(&mut problems, "--format", Some(&args.format), &words);
    let number = args.regression.as_ref().map(|text| text.trim().trim_end_matches('%').trim_end().to_owned());
    let gate =
        values::number(&mut problems, "--regression", number.as_ref(), 0.0..=1000.0).map(|percent| percent / 100.0);
    problems.into_result().map_err(Failure::usage)?;
    let file = |path: &str| read(Path::new(path)).map_err(Failure::failed);
    let comparison = compare(&file(&args.before)?, &file(&args.after)?);
    let more_than = gate.unwrap_or(REGRESSION);
    let text = comparison.render(format.unwrap_or(Format::Text), more_than).map_err(Failure::failed)?;
    print(&text);
    let fails = comparison.refused.is_some() || !comparison.regressions(more_than).is_empty();
    if gate.is_some() && fails { Err(Failure::failed(comparison.verdict(more_than))) } else { Ok(()) }
}
