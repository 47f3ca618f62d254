//! Runs `sealway load compare`: reads two reports, compares them, and prints the comparison and its verdict.

use std::path::Path;

use sealway_runtime::config::Problems;

use super::{JobError, print};
use crate::flags::{CompareArgs, values};
use crate::report::{Format, compare, read};

/// Default share by which a figure must be worse to be called a regression.
const REGRESSION: f64 = 0.05;

/// Compares two reports. With `--regression`, a figure that is significantly worse by more than that share fails the command. Two
/// reports that cannot be compared fail it too, because nothing shows that there is no regression.
pub(super) fn run(args: &CompareArgs) -> Result<(), JobError> {
    let mut problems = Problems::default();
    let words = [("text", Format::Text), ("markdown", Format::Markdown), ("json", Format::Json)];
    let format = values::word(&mut problems, "--format", Some(&args.format), &words);
    let number = args.regression.as_ref().map(|text| text.trim().trim_end_matches('%').trim_end().to_owned());
    let gate =
        values::number(&mut problems, "--regression", number.as_ref(), 0.0..=1000.0).map(|percent| percent / 100.0);
    problems.into_result().map_err(JobError::usage)?;
    let file = |path: &str| read(Path::new(path)).map_err(JobError::failed);
    let comparison = compare(&file(&args.before)?, &file(&args.after)?);
    let more_than = gate.unwrap_or(REGRESSION);
    let text = comparison.render(format.unwrap_or(Format::Text), more_than).map_err(JobError::failed)?;
    print(&text);
    let fails = comparison.refused.is_some() || !comparison.regressions(more_than).is_empty();
    if gate.is_some() && fails { Err(JobError::failed(comparison.verdict(more_than))) } else { Ok(()) }
}
