//! Flags of the command line and the environment, and the plan that they mean.
//!
//! Each value stays as it was written until `resolve` checks all of them together, so that one call reports every problem.
//! Presets, JMeter plans and matrix files set the same flags and follow the same rules. This module must not know how a `Job` is
//! run.

mod arrival;
mod broker;
mod channel;
mod connection;
mod mle;
mod one_shot;
mod output;
mod request;
mod resolve;
mod sealed;
mod sweep;
mod target;
mod tls;
pub(crate) mod values;
mod verdict;

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction};
use sealway_runtime::config::{ConfigError, Problems};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::arrival::ArrivalFlags;
pub(crate) use self::broker::BrokerFlags;
pub(crate) use self::channel::{ChannelArgs, ChannelJob};
pub(crate) use self::connection::ConnectionFlags;
pub(crate) use self::mle::MleFlags;
pub(crate) use self::one_shot::OneShotFlags;
pub(crate) use self::output::{Output, OutputFlags};
pub(crate) use self::request::RequestFlags;
pub(crate) use self::resolve::{Extra, Job, Verdict, resolve};
pub(crate) use self::sealed::SealedFlags;
pub(crate) use self::sweep::{AutotuneFlags, MatrixFlags};
pub(crate) use self::target::parse as parse_url;
pub(crate) use self::tls::TlsFlags;
pub(crate) use self::verdict::VerdictFlags;

const ENVIRONMENT: &str = "Every flag is also a variable: --in-flight-max is SEALWAY_LOAD_IN_FLIGHT_MAX. Exit codes: 0 \
    the run succeeded; 1 requests or assertions failed, or a threshold was missed; 2 the command line is wrong.";

/// Gives a flag its environment variable; a flag without a value also accepts words for yes and no in that variable.
fn variable(arg: Arg) -> Arg {
    // The arguments after it belong to another client, which has its own variables.
    let Some(name) = arg.get_long().filter(|name| *name != "litegateway") else { return arg };
    // Clap needs a static name. A process builds the command only a few times, so that the leak is small.
    let variable: &'static str = format!("SEALWAY_LOAD_{}", name.replace('-', "_").to_uppercase()).leak();
    let arg = arg.env(variable).hide_env(true);
    if matches!(arg.get_action(), ArgAction::SetTrue) { arg.value_parser(BoolishValueParser::new()) } else { arg }
}

/// `sealway load`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = ENVIRONMENT, mut_args(variable))]
pub struct LoadArgs {
    /// Subcommand; `None` for a single run.
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    /// Target of the requests: http://, https://, ws:// or wss://; the path may be a template. Or a broker: broker://SOCKET
    #[arg(value_name = "URL", env = "SEALWAY_LOAD_URL", hide_env = true)]
    pub(crate) url: Option<String>,
    /// Source of the plan other than flags.
    #[command(flatten)]
    pub(crate) source: SourceFlags,
    /// All other flags of the run.
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// Subcommand of `sealway load` other than a single run.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Find the knee: the smallest load that yields as much throughput as any
    #[command(after_help = ENVIRONMENT, mut_args(variable))]
    Autotune {
        /// Target of the requests
        #[arg(value_name = "URL", env = "SEALWAY_LOAD_URL", hide_env = true)]
        url: Option<String>,
        /// Flags of the search for a knee.
        #[command(flatten)]
        search: AutotuneFlags,
        /// Flags of the run at each load point.
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Tune or run each of several combinations, and show them in a table
    #[command(after_help = ENVIRONMENT, mut_args(variable))]
    Matrix {
        /// Axes in YAML [default: http, https and mtls, each with and without reuse of connections]
        #[arg(value_name = "FILE")]
        file: Option<String>,
        /// Flags of the cells of the matrix.
        #[command(flatten)]
        matrix: MatrixFlags,
        /// Flags of the search for a knee in each cell.
        #[command(flatten)]
        search: AutotuneFlags,
        /// Flags that all cells have in common.
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Open end-to-end encrypted channels over a relay, keep them open, and measure the ends and the relay
    #[command(after_help = ENVIRONMENT, mut_args(variable))]
    Channel(Box<ChannelArgs>),
    /// Compare two reports in JSON: what changed, and which differences are more than noise
    #[command(mut_args(variable))]
    Compare(CompareArgs),
}

/// `sealway load compare`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Report of the run before the change, in JSON
    #[arg(value_name = "BEFORE")]
    pub(crate) before: String,
    /// Report of the run after the change, in JSON
    #[arg(value_name = "AFTER")]
    pub(crate) after: String,
    /// Exit with code 1 if a figure is significantly worse by more than this, such as 5%
    #[arg(long, value_name = "PER_CENT", allow_hyphen_values = true)]
    pub(crate) regression: Option<String>,
    /// text, markdown or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: String,
}

/// Flags for the source of a plan, if it is not made of flags alone.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Presets and plans of other tools")]
pub(crate) struct SourceFlags {
    /// poc: four bursts of 3,000 new connections, with a verdict; session: the session clients' benchmark
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// With the preset session: number of flows
    #[arg(long, value_name = "FLOWS", allow_hyphen_values = true)]
    pub(crate) benchmark: Option<String>,
    /// With the preset poc: process ID of the server on this machine, to measure its memory and CPU time
    #[arg(long, value_name = "PROCESS", allow_hyphen_values = true)]
    pub(crate) watch_pid: Option<String>,
    /// Take threads, ramp, loops, requests and assertions from a JMeter plan; flags take precedence
    #[arg(long, value_name = "FILE")]
    pub(crate) jmeter: Option<String>,
    /// Replace Lite Gateway's load client: its flags follow, and its environment is LITEGATEWAY_LOADCLIENT_…; --litegateway
    /// --help lists them
    #[arg(long, value_name = "FLAGS", num_args = 0.., allow_hyphen_values = true)]
    pub(crate) litegateway: Option<Vec<String>>,
}

/// Flags of a run: each as it was written, or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Flags {
    /// Flags for the arrival of requests and the end of the run.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) arrival: ArrivalFlags,
    /// Flags for the request that is sent.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) request: RequestFlags,
    /// Flags for connections and timeouts.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) connection: ConnectionFlags,
    /// Flags for TLS towards the target.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) tls: TlsFlags,
    /// Flags for sealed sessions on top.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) sealed: SealedFlags,
    /// Flags for messages of card schemes on top.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) mle: MleFlags,
    /// Flags for requests without a session on top.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) one_shot: OneShotFlags,
    /// Flags for a broker as the target.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) broker: BrokerFlags,
    /// Flags for assertions and thresholds.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) verdict: VerdictFlags,
    /// Flags for displays and reports.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) output: OutputFlags,
}

/// Returns the names of the flags that are given, of one group or of all, as on the command line: `--in-flight-max`.
pub(crate) fn given(flags: &impl Serialize) -> Vec<String> {
    let all = serde_json::to_value(flags).unwrap_or_default();
    let given = all.as_object().into_iter().flatten().filter(|(_, value)| is_given(value));
    given.map(|(name, _)| format!("--{}", name.replace('_', "-"))).collect()
}

fn is_given(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// Returns the flags with each absent one taken from `defaults`.
pub(crate) fn filled<F: Serialize + DeserializeOwned>(flags: &F, defaults: &F) -> Result<F, serde_json::Error> {
    let mut all = serde_json::to_value(defaults)?;
    if let (Some(all), Value::Object(flags)) = (all.as_object_mut(), serde_json::to_value(flags)?) {
        all.extend(flags.into_iter().filter(|(_, value)| is_given(value)));
    }
    serde_json::from_value(all)
}

impl Flags {
    /// Sets a flag by its name, with `_` in place of `-`. A flag that is a list takes all values, any other flag exactly one.
    ///
    /// # Errors
    /// States the problem without the name: an unknown flag, a wrong number of values, or a value that is not a boolean.
    pub(crate) fn set(&mut self, name: &str, given: &[String]) -> Result<(), String> {
        // Earlier names of these flags, for files that still use them.
        let name = match name {
            "pins" => "pin",
            "suites" => "suite",
            name => name,
        };
        let mut all = serde_json::to_value(&*self).map_err(|err| err.to_string())?;
        let slot = all.get_mut(name).ok_or("there is no such flag")?;
        let one = || match given {
            [one] => Ok(one.clone()),
            _ => Err("expected one value".to_owned()),
        };
        *slot = match slot {
            Value::Array(_) => given.iter().cloned().map(Value::String).collect(),
            Value::Bool(_) => match one()?.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                other => return Err(format!("expected true or false, not {other}")),
            },
            _ => Value::String(one()?),
        };
        *self = serde_json::from_value(all).map_err(|err| err.to_string())?;
        Ok(())
    }

    /// Takes each flag that is not given from `defaults`.
    ///
    /// # Errors
    /// None in practice: both are flags.
    pub(crate) fn fill(&mut self, defaults: &Flags) -> Result<(), String> {
        *self = filled(self, defaults).map_err(|err| err.to_string())?;
        Ok(())
    }

    /// Resolves the flags for displays and reports.
    ///
    /// # Errors
    /// All problems with these flags.
    pub(crate) fn output(&self) -> Result<Output, ConfigError> {
        let mut problems = Problems::default();
        let output = self.output.resolve(&mut problems);
        problems.into_result().map(|()| output)
    }
}

#[cfg(test)]
mod tests;
