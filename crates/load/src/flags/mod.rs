//! What can be said of a run on the command line and in the environment, and what is meant by it.
//!
//! Every value is kept as it was written until `resolve` looks at all of them together, so that one run names
//! everything that is wrong. Presets, JMeter plans and files of matrices write the same flags, and so are held to the
//! same rules. What a run then does with a `Job` it may not know.

mod arrival;
mod broker;
mod channel;
mod connection;
mod output;
mod request;
mod resolve;
mod sealed;
mod sweep;
mod target;
mod template;
mod tls;
pub(crate) mod values;
mod verdict;

use sealway_runtime::config::{ConfigError, Problems};
use serde::{Deserialize, Serialize};

pub(crate) use self::arrival::ArrivalFlags;
pub(crate) use self::broker::BrokerFlags;
pub(crate) use self::channel::{ChannelArgs, ChannelJob};
pub(crate) use self::connection::ConnectionFlags;
pub(crate) use self::output::{Output, OutputFlags};
pub(crate) use self::request::RequestFlags;
pub(crate) use self::resolve::{Extra, Job, Verdict, resolve};
pub(crate) use self::sealed::SealedFlags;
pub(crate) use self::sweep::{AutotuneFlags, MatrixFlags};
pub(crate) use self::target::parse as parse_url;
pub(crate) use self::tls::TlsFlags;
pub(crate) use self::verdict::VerdictFlags;

const ENVIRONMENT: &str = "Every flag is also a variable: --in-flight-max is SEALWAY_LOAD_IN_FLIGHT_MAX. Exit codes: 0 \
    the run went as it must, 1 it did not (failed requests, assertions, thresholds), 2 the command line is wrong.";

/// `sealway load`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = ENVIRONMENT)]
pub struct LoadArgs {
    /// Another thing to do than one run.
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    /// Where requests go: http://, https://, ws:// or wss://; the path may be a template. Or a broker: broker://SOCKET
    #[arg(value_name = "URL", env = "SEALWAY_LOAD_URL", hide_env = true)]
    pub(crate) url: Option<String>,
    /// Where the plan comes from, if not from flags alone.
    #[command(flatten)]
    pub(crate) source: SourceFlags,
    /// Everything else.
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// What else than one run there is to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Find the load where more of it buys no more throughput, only time
    #[command(after_help = ENVIRONMENT)]
    Autotune {
        /// Where requests go
        #[arg(value_name = "URL", env = "SEALWAY_LOAD_URL", hide_env = true)]
        url: Option<String>,
        /// How to search.
        #[command(flatten)]
        search: AutotuneFlags,
        /// What each load point is.
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Tune, or run, each of several combinations, and show a table of them
    #[command(after_help = ENVIRONMENT)]
    Matrix {
        /// The axes, in YAML; without it http, https and mtls, each with and without reuse of connections
        #[arg(value_name = "FILE")]
        file: Option<String>,
        /// What the cells are.
        #[command(flatten)]
        matrix: MatrixFlags,
        /// How to search.
        #[command(flatten)]
        search: AutotuneFlags,
        /// What all cells have in common.
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Make end-to-end encrypted channels over a relay, keep them open, and measure both and the relay
    #[command(after_help = ENVIRONMENT)]
    Channel(Box<ChannelArgs>),
    /// Compare two reports in JSON: what changed, and whether it is more than noise
    Compare(CompareArgs),
}

/// `sealway load compare`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// The report of before, in JSON
    #[arg(value_name = "BEFORE")]
    pub(crate) before: String,
    /// The report of after, in JSON
    #[arg(value_name = "AFTER")]
    pub(crate) after: String,
    /// Exit code 1 when a figure is significantly worse by more than this, such as 5%
    #[arg(long, value_name = "PER_CENT", env = "SEALWAY_LOAD_REGRESSION", hide_env = true, allow_hyphen_values = true)]
    pub(crate) regression: Option<String>,
    /// text, markdown or json
    #[arg(long, value_name = "FORMAT", env = "SEALWAY_LOAD_FORMAT", hide_env = true, default_value = "text")]
    pub(crate) format: String,
}

/// Where a plan comes from, if not from flags alone.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Plans from elsewhere")]
pub(crate) struct SourceFlags {
    /// poc: four bursts of 3,000 new connections, with a verdict; session: the session clients' benchmark
    #[arg(long, value_name = "NAME", env = "SEALWAY_LOAD_PRESET", hide_env = true)]
    pub(crate) preset: Option<String>,
    /// Flows of the preset session
    #[arg(long, value_name = "FLOWS", env = "SEALWAY_LOAD_BENCHMARK", hide_env = true, allow_hyphen_values = true)]
    pub(crate) benchmark: Option<String>,
    /// With the preset poc: the server's process on this machine, to measure its memory and processor time
    #[arg(long, value_name = "PROCESS", env = "SEALWAY_LOAD_WATCH_PID", hide_env = true, allow_hyphen_values = true)]
    pub(crate) watch_pid: Option<String>,
    /// Take threads, ramp, loops, requests and assertions from a JMeter plan; flags go before what it says
    #[arg(long, value_name = "FILE", env = "SEALWAY_LOAD_JMETER", hide_env = true)]
    pub(crate) jmeter: Option<String>,
    /// Take the place of Lite Gateway's load client: what follows is its own flags, and LITEGATEWAY_LOADCLIENT_… its
    /// environment; --litegateway --help lists them
    #[arg(long, value_name = "FLAGS", num_args = 0.., allow_hyphen_values = true)]
    pub(crate) litegateway: Option<Vec<String>>,
}

/// The flags of a run: each as it was written, or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Flags {
    /// When requests start, and when the run ends.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) arrival: ArrivalFlags,
    /// What is sent.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) request: RequestFlags,
    /// Over which connections.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) connection: ConnectionFlags,
    /// TLS.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) tls: TlsFlags,
    /// Sealed sessions.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) sealed: SealedFlags,
    /// A broker.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) broker: BrokerFlags,
    /// When the run has failed.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) verdict: VerdictFlags,
    /// What is shown and left behind.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) output: OutputFlags,
}

impl Flags {
    /// Sets a flag by its name with `_` for `-`. What is given as a list is repeated.
    ///
    /// # Errors
    /// What is wrong, without the name: there is no such flag, or it is of another kind.
    pub(crate) fn set(&mut self, name: &str, given: &[String]) -> Result<(), String> {
        use serde_json::Value;
        let mut all = self.as_map()?;
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
        *self = serde_json::from_value(Value::Object(all)).map_err(|err| err.to_string())?;
        Ok(())
    }

    /// Takes from `defaults` what is not given.
    ///
    /// # Errors
    /// None in practice: both are flags.
    pub(crate) fn fill(&mut self, defaults: &Flags) -> Result<(), String> {
        use serde_json::Value;
        let (mut all, defaults) = (self.as_map()?, defaults.as_map()?);
        for (name, default) in defaults {
            let slot = all.entry(name).or_insert(Value::Null);
            let is_absent = match slot {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if is_absent {
                *slot = default;
            }
        }
        *self = serde_json::from_value(Value::Object(all)).map_err(|err| err.to_string())?;
        Ok(())
    }

    /// What is shown and left behind.
    ///
    /// # Errors
    /// Everything that is wrong with these flags.
    pub(crate) fn output(&self) -> Result<Output, ConfigError> {
        let mut problems = Problems::default();
        let output = self.output.resolve(&mut problems);
        problems.into_result().map(|()| output)
    }

    /// Names of flags that are given, as they are written on the command line.
    pub(crate) fn given(&self) -> Vec<String> {
        use serde_json::Value;
        let all = self.as_map().unwrap_or_default();
        let is_given = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        let given = all.iter().filter(|(_, value)| is_given(value));
        given.map(|(name, _)| format!("--{}", name.replace('_', "-"))).collect()
    }

    fn as_map(&self) -> Result<serde_json::Map<String, serde_json::Value>, String> {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(map)) => Ok(map),
            Ok(_) => Err("flags have names".into()),
            Err(err) => Err(err.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
