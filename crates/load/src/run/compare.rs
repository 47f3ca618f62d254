//! `sealway load compare`: two reports beside each other.

use std::path::Path;

use sealway_runtime::config::Problems;

use super::{Failure, print};
use crate::flags::CompareArgs;
use crate::report::{Format, compare, read};

/// A change for the worse that is called a regression where nothing else is said.
const REGRESSION: f64 = 0.05;

/// Compares, prints, and judges where a bound was given.
pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let mut problems = Problems::default();
    let bound = args.regression.as_deref().map(per_cent);
    if let (Some(None), Some(text)) = (bound, &args.regression) {
        problems.add(format!("--regression {text}"), "expected a share such as 5%, 0% to 1,000%");
    }
    let format = match args.format.as_str() {
        "text" => Some(Format::Text),
        "markdown" => Some(Format::Markdown),
        "json" => Some(Format::Json),
        other => {
            problems.add(format!("--format {other}"), "expected one of text, markdown, json");
            None
        }
    };
    let before = problems.take("BEFORE", read(Path::new(&args.before)));
    let after = problems.take("AFTER", read(Path::new(&args.after)));
    problems.into_result().map_err(Failure::usage)?;
    let (Some(before), Some(after), Some(format)) = (before, after, format) else { return Ok(()) };
    let bound = bound.flatten();
    let comparison = compare(&before, &after);
    print(&comparison.render(format, bound.unwrap_or(REGRESSION)).map_err(Failure::failed)?);
    match bound {
        Some(bound) if !comparison.regressions(bound).is_empty() => Err(Failure::Failed(None)),
        // Whoever asks for a verdict and gets none must not take it for a good one.
        Some(_) if comparison.refused.is_some() => Err(Failure::Failed(comparison.refused)),
        _ => Ok(()),
    }
}

fn per_cent(text: &str) -> Option<f64> {
    let number: f64 = text.trim().trim_end_matches('%').trim_end().parse().ok()?;
    (0.0..=1000.0).contains(&number).then_some(number / 100.0)
}
