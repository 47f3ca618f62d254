use std::sync::LazyLock;

use super::super::{Format, Report};
use super::*;
use crate::engine::{EndReason, Limit, Outcome};
use crate::report::tests::sample::{self, Shape};

fn report(outcome: &Outcome) -> Report {
    Report::new(outcome, &[], sample::machine())
}

fn run(seed: u64, slower: f64) -> Report {
    report(&sample::outcome(seed, Shape::Usual, 30, slower))
}

/// First run, the baseline of most tests.
static FIRST: LazyLock<Report> = LazyLock::new(|| run(1, 1.0));

fn figure<'a>(comparison: &'a Comparison, name: &str) -> &'a Change {
    comparison.figures.iter().find(|change| change.figure == name).unwrap()
}

#[test]
fn two_runs_of_the_same_kind_are_not_told_apart() {
    let mut shown = 0;
    for seed in 0..4 {
        let comparison = compare(&FIRST, &run(seed + 100, 1.0));
        shown += comparison.figures.iter().filter(|change| change.significant == Some(true)).count();
    }
    // Of forty figures chance may make one.
    assert!(shown <= 1, "{shown}");
}

#[test]
fn a_tenth_slower_is_a_regression_by_five_per_cent_and_not_by_twenty() {
    let comparison = compare(&FIRST, &run(2, 1.1));
    let names = |share| comparison.regressions(share).iter().map(|change| change.figure.clone()).collect::<Vec<_>>();
    for name in ["response_mean", "response_p50", "response_p90", "service_p50"] {
        assert!(names(0.05).contains(&name.to_owned()), "{name}: {:?}", comparison.figures);
    }
    assert_eq!(names(0.2), [""; 0]);
    let change = figure(&comparison, "response_p50").change.unwrap();
    assert!((change - 0.1).abs() < 0.02, "{change}");
    assert_eq!(compare(&run(2, 1.1), &FIRST).regressions(0.05).len(), 0, "faster is no regression");
    assert!(comparison.verdict(0.05).starts_with("Significantly worse by more than 5.00 %: response_mean"));
}

#[test]
fn runs_that_stall_now_and_then_widen_the_interval_of_their_percentiles() {
    let width = |shape| {
        let run = report(&sample::outcome(1, shape, 30, 1.0));
        let comparison = compare(&run, &run);
        let (low, high) = figure(&comparison, "response_p90").base_interval.unwrap();
        (high.unwrap_or(f64::INFINITY) - low) / figure(&comparison, "response_p90").old.unwrap()
    };
    assert!(width(Shape::Stalled) > 5.0 * width(Shape::Usual));
}

#[test]
fn a_run_that_was_limited_by_its_generator_or_too_short_or_given_up_gets_no_verdict() {
    let short = sample::outcome(1, Shape::Usual, 5, 1.0);
    let (mut limited, mut failed) = (short.clone(), short.clone());
    limited.limit = Limit::Generator("both cores were busy".to_owned());
    failed.ended = EndReason::Failed("the target is gone".to_owned());
    for (outcome, part) in
        [(limited, "the generator was the bottleneck"), (failed, "was aborted"), (short, "a comparison needs at least")]
    {
        for comparison in [compare(&FIRST, &report(&outcome)), compare(&report(&outcome), &FIRST)] {
            assert!(comparison.verdict(0.05).starts_with("No verdict. "), "{part}");
            assert!(comparison.refused.as_ref().unwrap().contains(part), "{comparison:?}");
            assert!(comparison.regressions(0.0).is_empty());
        }
    }
}

#[test]
fn another_plan_machine_or_limit_is_reported_before_the_figures() {
    let mut other = sample::outcome(2, Shape::Usual, 60, 1.0);
    other.plan.connections.reuse = false;
    other.limit = Limit::Target;
    let mut other = report(&other);
    other.machine.cores = 2;
    let comparison = compare(&FIRST, &other);
    for part in [
        "reuse was true and is false",
        "cores was 8 and is 2",
        "Different bottleneck. Before: none",
        "30 s were measured, now 60 s",
    ] {
        assert!(
            comparison.differences.iter().any(|shown| shown.contains(part)),
            "{part}: {:?}",
            comparison.differences
        );
    }
    for format in [Format::Text, Format::Markdown] {
        let text = comparison.render(format, 0.05).unwrap();
        assert!(text.find("reuse was true").unwrap() < text.find("response_p99").unwrap());
    }
    assert!(comparison.render(Format::Html, 0.05).unwrap_err().to_string().contains("json, markdown or text"));
}

#[test]
fn a_run_in_which_all_failed_is_worse_than_one_in_which_none_did() {
    let comparison = compare(&FIRST, &report(&sample::outcome(2, Shape::AllFailed, 30, 1.0)));
    let worse: Vec<_> = comparison.regressions(0.05).iter().map(|change| change.figure.as_str()).collect();
    assert_eq!(worse, ["succeeded_per_s", "failed_share"]);
    assert_eq!(figure(&comparison, "response_p99").new, None);
    let json = comparison.render(Format::Json, 0.05).unwrap();
    assert!(!json.contains("NaN"));
    assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap().figures.len(), comparison.figures.len());
    let empty = report(&sample::outcome(2, Shape::Empty, 30, 1.0));
    assert!(compare(&empty, &empty).render(Format::Text, 0.05).unwrap().contains("none"));
}
