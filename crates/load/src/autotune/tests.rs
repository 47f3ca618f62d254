//! Searches against servers that are formulas.

use super::figures::RunFigures;
use super::*;

/// Generator of noise with a fixed sequence for each seed.
struct Noise(u64);

impl Noise {
    /// Returns a number from -1.0 to 1.0.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Returns a server with a capacity in requests a second and a response time in seconds, with noise as a share of its rate.
fn saturating(capacity: f64, takes: f64, model: Model) -> impl FnMut(f64, f64) -> RunFigures {
    move |load, noise| {
        let most = match model {
            Model::Closed => load / takes,
            Model::Open => load,
        };
        let rate = most.min(capacity) * (1.0 + noise);
        RunFigures { rate, succeeded: rate as u64 + 1, ..RunFigures::default() }
    }
}

fn search(settings: &Settings, seed: u64, noise: f64, mut server: impl FnMut(f64, f64) -> RunFigures) -> SearchResult {
    let (mut search, mut dice) = (Search::new(settings.clone()), Noise(seed));
    let mut step = search.next(None);
    for _ in 0..=settings.points_max {
        let load = match step {
            Step::Done(found) => {
                assert!(found.points.len() as u32 <= settings.points_max);
                return *found;
            }
            Step::Measure(load) => load,
        };
        assert!(load > 0.0 && load <= settings.max, "{load}");
        assert!(!search.points.iter().any(|point| point.load == load), "{load} is measured twice");
        let runs = (0..settings.repeats).map(|_| server(load, noise * dice.next())).collect();
        step = search.next(Some(LoadPoint { load, runs }));
    }
    panic!("it goes on after its last point");
}

#[test]
fn the_capacity_of_a_saturating_server_is_found_within_five_per_cent() {
    for model in [Model::Closed, Model::Open] {
        for capacity in [37.0, 250.0, 1000.0, 4321.0, 20_000.0, 150_000.0] {
            for takes in [0.0005, 0.004, 0.05] {
                for seed in 0..20 {
                    let found = search(&Settings::new(model), seed, 0.02, saturating(capacity, takes, model));
                    let knee = found.knee.expect("there is a knee");
                    let off = knee.rate() / capacity - 1.0;
                    let tried: Vec<_> = found.points.iter().map(|point| (point.load, point.rate() as u64)).collect();
                    let case =
                        format!("{model:?} {capacity} {takes} {seed}: {} {:?} of {tried:?}", knee.load, found.why);
                    assert!(off.abs() <= 0.05, "{case}");
                    assert_eq!(found.why, Why::Plateau, "{case}");
                    if model == Model::Closed {
                        // A knee below one worker is found at one worker.
                        let workers = (capacity * takes).max(1.0);
                        let (low, high) = ((workers * 0.88).floor(), (workers * 1.08).ceil().max(3.0));
                        assert!((low..=high).contains(&knee.load), "{workers} workers: {case}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_same_measurements_give_the_same_answer() {
    let settings = Settings::new(Model::Closed);
    let of = |_| search(&settings, 7, 0.05, saturating(900.0, 0.01, Model::Closed));
    assert!([0, 1, 2].map(of).windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn much_noise_neither_ends_the_search_early_nor_hides_the_plateau() {
    for seed in 0..50 {
        let found = search(&Settings::new(Model::Closed), seed, 0.10, saturating(2000.0, 0.01, Model::Closed));
        let knee = found.knee.expect("there is a knee");
        assert!((knee.rate() / 2000.0 - 1.0).abs() < 0.12, "{seed}: {knee:?}");
    }
}

#[test]
fn the_best_load_of_a_server_that_collapses_beyond_its_knee_is_found() {
    for (model, knee) in [(Model::Closed, 100.0), (Model::Open, 1000.0)] {
        for seed in 0..20 {
            // Each request takes 10 ms; beyond the knee, response times grow without bound.
            let collapsing = |load: f64, noise: f64| {
                let per_load = if model == Model::Closed { 100.0 } else { 1.0 };
                let rate = if load <= knee { load } else { knee * (knee / load).powf(1.5) };
                let rate = rate * per_load / if model == Model::Closed { 10.0 } else { 1.0 } * (1.0 + noise);
                RunFigures { rate, succeeded: 1, ..RunFigures::default() }
            };
            let found = search(&Settings::new(model), seed, 0.01, collapsing);
            let at = found.knee.expect("there is a knee").load;
            assert!((0.9 * knee..=1.06 * knee).contains(&at), "{model:?} {seed}: {at}");
            assert_eq!(found.why, Why::Plateau);
        }
    }
}

#[test]
fn a_latency_goal_is_kept_below_the_plateau() {
    for seed in 0..20 {
        // The rule is kept up to 300 workers; the plateau begins at 1000.
        let mut server = saturating(100_000.0, 0.01, Model::Closed);
        let found = search(&Settings::new(Model::Closed), seed, 0.01, |load, noise| RunFigures {
            missed: (load > 300.0).then(|| "p99<50ms: 61 ms".to_owned()),
            ..server(load, noise)
        });
        let at = found.knee.as_ref().expect("there is a knee").load;
        assert!((270.0..=300.0).contains(&at), "{seed}: {at}");
        assert_eq!(found.why, Why::Rule("p99<50ms: 61 ms".into()));
    }
}

#[test]
fn a_rate_beyond_which_a_goal_is_missed_is_found_before_the_plateau() {
    let mut server = saturating(100_000.0, 0.01, Model::Open);
    let found = search(&Settings::new(Model::Open), 1, 0.01, |load, noise| RunFigures {
        missed: (load > 3000.0).then(|| "p99<50ms: 61 ms".to_owned()),
        ..server(load, noise)
    });
    let at = found.knee.as_ref().expect("there is a knee").load;
    assert!((2800.0..=3000.0).contains(&at), "{at}");
    assert_eq!(found.why, Why::Rule("p99<50ms: 61 ms".into()));
}

#[test]
fn errors_beyond_a_load_bound_it() {
    let mut server = saturating(100_000.0, 0.01, Model::Closed);
    let found = search(&Settings::new(Model::Closed), 3, 0.01, |load, noise| RunFigures {
        failed_share: if load > 70.0 { 0.2 } else { 0.001 },
        failure: (load > 70.0).then(|| "timeout: no complete response within 30 s".to_owned()),
        ..server(load, noise)
    });
    let at = found.knee.as_ref().expect("there is a knee").load;
    assert!((64.0..=70.0).contains(&at), "{at}");
    assert!(matches!(&found.why, Why::Errors(failure) if failure.contains("timeout")), "{:?}", found.why);
}

#[test]
fn a_search_limited_by_the_generator_says_so() {
    for model in [Model::Closed, Model::Open] {
        let mut server = saturating(50_000.0, 0.001, model);
        let found = search(&Settings::new(model), 1, 0.02, |load, noise| {
            let run = server(load, noise);
            let generator = (run.rate > 48_000.0).then(|| "its threads were busy".to_owned());
            RunFigures { generator, ..run }
        });
        assert_eq!(found.why, Why::Generator("its threads were busy".into()), "{model:?}");
        assert!(matches!(found.summary("x", model).limit, Some(Limit::Generator(_))));
    }
}

#[test]
fn a_server_that_never_saturates_ends_the_search_at_the_highest_load() {
    let settings = Settings { max: 1000.0, ..Settings::new(Model::Closed) };
    let found = search(&settings, 1, 0.01, saturating(1e12, 0.01, Model::Closed));
    assert_eq!(found.why, Why::Ceiling);
    assert_eq!(found.knee.map(|knee| knee.load), Some(1000.0));
}

#[test]
fn a_server_that_answers_nothing_is_given_up_after_one_load_point() {
    let found = search(&Settings::new(Model::Closed), 1, 0.0, |_, _| RunFigures {
        failed_share: 1.0,
        failure: Some("refused: nothing listens".into()),
        ..RunFigures::default()
    });
    assert_eq!((found.points.len(), found.knee.is_none()), (1, true));
    assert_eq!(found.why, Why::Failed("refused: nothing listens".into()));
    let cell = found.summary("x", Model::Closed);
    assert_eq!(cell.missing.as_deref(), Some("failed: refused: nothing listens"));
}

#[test]
fn a_first_load_that_is_too_much_is_followed_by_lower_ones() {
    let settings = Settings { min: 256.0, ..Settings::new(Model::Closed) };
    let mut server = saturating(1000.0, 0.05, Model::Closed);
    let found = search(&settings, 1, 0.01, |load, noise| RunFigures {
        missed: (load > 60.0).then(|| "p99<50ms: 61 ms".to_owned()),
        ..server(load, noise)
    });
    let at = found.knee.as_ref().expect("there is a knee").load;
    assert!((45.0..=60.0).contains(&at), "{at}");
}

#[test]
fn a_search_without_a_good_load_reports_the_failure() {
    let found = search(&Settings::new(Model::Closed), 1, 0.01, |_, _| RunFigures {
        rate: 10.0,
        succeeded: 10,
        failed_share: 0.5,
        failure: Some("status: 500".into()),
        ..RunFigures::default()
    });
    assert_eq!(found.why, Why::Failed("status: 500".into()));
}

#[test]
fn without_points_between_the_load_grows_to_its_end_and_no_other_is_tried() {
    let settings = Settings {
        min: 256.0,
        max: 8192.0,
        points_max: 6,
        points_between: 0,
        repeats: 1,
        ..Settings::new(Model::Closed)
    };
    let loads = |capacity: f64| -> Vec<f64> {
        let found = search(&settings, 1, 0.0, saturating(capacity, 0.01, Model::Closed));
        found.points.iter().map(|point| point.load).collect()
    };
    assert_eq!(loads(1e9), [256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0]);
    assert_eq!(loads(100_000.0), [256.0, 512.0, 1024.0, 2048.0], "the plateau begins at 1000 workers");
}
