//! Flags of a search, and of the cells of a matrix.

use std::ops::RangeInclusive;
use std::time::Duration;

use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::arrival::{CONCURRENCY_MAX, RATE_MAX};
use super::values::{self, HOUR, MILLISECOND};
use crate::autotune::{Model, Settings};

/// Flags of a search for the knee.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Search")]
#[serde(default)]
pub(crate) struct AutotuneFlags {
    /// Searched quantity: concurrency (workers) or rate (requests per second) [default: concurrency]
    #[arg(long, value_name = "WHAT")]
    pub(crate) search: Option<String>,
    /// First load [default: 8 workers, or 100 per second]
    #[arg(long, value_name = "LOAD", allow_hyphen_values = true)]
    pub(crate) search_min: Option<String>,
    /// Highest load [default: 65536 workers, or 1000000 per second]
    #[arg(long, value_name = "LOAD", allow_hyphen_values = true)]
    pub(crate) search_max: Option<String>,
    /// Factor by which the load grows while throughput still grows [default: 2]
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true)]
    pub(crate) growth: Option<String>,
    /// Runs of each load point [default: 3]
    #[arg(long, value_name = "RUNS", allow_hyphen_values = true)]
    pub(crate) repeats: Option<String>,
    /// Maximum of load points [default: 12]
    #[arg(long, value_name = "POINTS", allow_hyphen_values = true)]
    pub(crate) points: Option<String>,
    /// Measured time of each run [default: 3s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) run_time: Option<String>,
    /// Failed requests that a load point may have, in percent [default: 1]
    #[arg(long, value_name = "PER_CENT", allow_hyphen_values = true)]
    pub(crate) errors_max: Option<String>,
    /// Precision of the knee at which the search stops, in percent [default: 5]
    #[arg(long, value_name = "PER_CENT", allow_hyphen_values = true)]
    pub(crate) precision: Option<String>,
    /// Number of load points reserved for those between two loads; only Lite Gateway's flag sets it.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) between: Option<u32>,
}

impl AutotuneFlags {
    /// Resolves the flags of a search, and the measured time of each run.
    pub(crate) fn resolve(&self, problems: &mut Problems) -> (Settings, Duration) {
        let model = values::named(problems, "--search", &self.search).unwrap_or(Model::Closed);
        let mut settings = Settings::new(model);
        let range: RangeInclusive<f64> = match model {
            Model::Closed => 1.0..=CONCURRENCY_MAX as f64,
            Model::Open => 1.0..=RATE_MAX,
        };
        let mut number = |flag: &str, value: &Option<String>, range, into: &mut f64| {
            if let Some(read) = values::number(problems, flag, value, range) {
                *into = read;
            }
        };
        number("--search-min", &self.search_min, range.clone(), &mut settings.min);
        number("--search-max", &self.search_max, range, &mut settings.max);
        number("--growth", &self.growth, 1.1..=10.0, &mut settings.growth);
        let (mut errors, mut precision) = (settings.errors_max * 100.0, settings.precision * 100.0);
        number("--errors-max", &self.errors_max, 0.0..=100.0, &mut errors);
        number("--precision", &self.precision, 0.5..=50.0, &mut precision);
        (settings.errors_max, settings.precision) = (errors / 100.0, precision / 100.0);
        if settings.min > settings.max {
            let (min, max) = (settings.min, settings.max);
            problems.add("--search-min", format!("{min} is above --search-max, which is {max}"));
        }
        if let Some(repeats) = values::whole(problems, "--repeats", &self.repeats, 1..=20) {
            settings.repeats = repeats as u32;
        }
        if let Some(points) = values::whole(problems, "--points", &self.points, 1..=100) {
            settings.points_max = points as u32;
        }
        if let Some(between) = self.between {
            settings.points_between = between.min(settings.points_between);
        }
        let time = values::time(problems, "--run-time", &self.run_time, MILLISECOND * 200..=HOUR);
        (settings, time.unwrap_or(Duration::from_secs(3)))
    }
}

/// Flags of the six cells of a matrix without a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Cells")]
#[serde(default)]
pub(crate) struct MatrixFlags {
    /// URL of the cells http-reuse and http-no-reuse [default: http://localhost:8080/]
    #[arg(long, value_name = "URL")]
    pub(crate) http_url: Option<String>,
    /// URL of the cells https-reuse and https-no-reuse [default: https://localhost:8443/]
    #[arg(long, value_name = "URL")]
    pub(crate) https_url: Option<String>,
    /// URL of the cells mtls-reuse and mtls-no-reuse, which send --cert [default: https://localhost:9443/]
    #[arg(long, value_name = "URL")]
    pub(crate) mtls_url: Option<String>,
    /// Run each cell at the load that flags give, without tuning
    #[arg(long)]
    pub(crate) fixed: bool,
}
