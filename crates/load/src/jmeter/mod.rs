//! Reads a JMeter plan with a load that this generator can offer: one thread group with one HTTP request.
//!
//! A part that is not supported is reported with its place. It is a warning if the load is the same without it. Otherwise it is
//! an error: a second sampler, a loop, a timer, or a function whose value would be sent as it is written.

mod element;
mod sampler;
#[cfg(test)]
mod tests;
mod text;
mod variables;

use std::path::Path;

use roxmltree::{Document, ParsingOptions};
use sealway_runtime::config::{ConfigError, Problems, read_bounded};

use self::element::{Element, top};
use self::variables::{with_properties, with_variables};
use crate::flags::Flags;
use crate::flags::values::{HOUR, time_text, within};

/// Upper bound of a plan's file, in bytes.
const FILE_LEN_MAX: u64 = 16 * 1024 * 1024;
/// Upper bound of the nodes of a plan's document.
const NODES_MAX: u32 = 1_000_000;
/// Upper bound of the depth of elements.
const DEPTH_MAX: usize = 100;
/// Upper bound of the threads of a plan.
const THREADS_MAX: u64 = 1_000_000;

/// Flags that a JMeter plan stands for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jmeter {
    /// URL that requests go to.
    pub(crate) url: Option<String>,
    /// All other flags of the run.
    pub(crate) flags: Flags,
    /// Parts that are not supported and do not change the load, a sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Reads a plan from a file.
///
/// # Errors
/// All parts of the plan that would be a different load here, each with its place.
pub(crate) fn read(path: &Path) -> Result<Jmeter, ConfigError> {
    let text = read_bounded(path, FILE_LEN_MAX).map_err(|err| ConfigError(format!("--jmeter: {err}")))?;
    parse(&text).map_err(|err| within(format_args!("--jmeter {}", path.display()), &err))
}

/// Parses the text of a plan, as [`read`] does.
///
/// # Errors
/// As [`read`].
pub(crate) fn parse(text: &str) -> Result<Jmeter, ConfigError> {
    // Checked before parsing, because the parser and the functions that walk its tree recurse to this depth.
    if depth(text) > DEPTH_MAX {
        return Err(ConfigError(format!("its elements lie deeper than {DEPTH_MAX} in each other")));
    }
    let mut reading = Reading::default();
    let properties = with_properties(text).map_err(ConfigError)?;
    if properties.is_some() {
        reading.warn("${__P(name,default)}", "the default is taken: properties are not given here");
    }
    let text = properties.as_deref().unwrap_or(text);
    let named = with_variables(text, &document(text)?).map_err(ConfigError)?;
    let document = document(named.as_deref().unwrap_or(text))?;
    let mut places = Places::default();
    match top(&document) {
        Some(elements) => elements.iter().for_each(|element| places.find(element, &mut reading)),
        None => reading.problems.add("jmeterTestPlan", "the document is none"),
    }
    places.resolve(&mut reading);
    reading.problems.into_result()?;
    Ok(reading.plan)
}

fn document(text: &str) -> Result<Document<'_>, ConfigError> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
        .map_err(|err| ConfigError(format!("is no JMeter plan, which is XML: {err}")))
}

/// Returns an upper bound of the depth of tags, without parsing the document.
fn depth(text: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for part in text.split('<').skip(1) {
        let end = part.find('>').map_or(part, |end| &part[..end]);
        if part.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !part.starts_with(['?', '!']) && !end.ends_with('/') {
            depth += 1;
            most = most.max(depth);
        }
    }
    most
}

/// Result of reading a plan so far.
#[derive(Default)]
struct Reading {
    plan: Jmeter,
    problems: Problems,
}

impl Reading {
    /// Adds a warning about a part that does not change the load.
    fn warn(&mut self, place: &str, what: &str) {
        self.plan.warnings.push(format!("{place}: {what}"));
    }
}

/// Elements of a plan that make its load.
#[derive(Default)]
struct Places<'a> {
    groups: Vec<Element<'a>>,
    samplers: Vec<Element<'a>>,
    /// Headers, assertions, defaults and counters, of the sampler, its group or the whole plan.
    settings: Vec<Element<'a>>,
}

impl<'a> Places<'a> {
    fn find(&mut self, element: &Element<'a>, reading: &mut Reading) {
        if !element.enabled {
            return;
        }
        let (path, inner) = (&element.path, &element.children);
        match element.kind.as_str() {
            // The values of variables are in the text already.
            "TestPlan" | "Arguments" => {}
            "ThreadGroup" => self.groups.push(element.clone()),
            "HTTPSamplerProxy" | "HTTPSampler" | "HTTPSampler2" => self.samplers.push(element.clone()),
            "HeaderManager" | "ConfigTestElement" | "CounterConfig" | "ResponseAssertion" | "JSONPathAssertion" => {
                self.settings.push(element.clone());
            }
            // Listeners show and store results, which is the task of this program's reports.
            "ResultCollector"
            | "Summariser"
            | "BackendListener"
            | "ViewResultsFullVisualizer"
            | "DebugPostProcessor" => {
                reading.warn(path, "listeners are left out: the report is the one of --out");
            }
            "CookieManager" | "CacheManager" | "DNSCacheManager" | "AuthManager" | "KeystoreConfig" => {
                reading.problems.add(path, format!("a {} changes the requests, and is not supported", element.kind));
            }
            "GenericController" | "TransactionController" => {}
            other => reading.problems.add(path, format!("a {other} would change the load, and is not supported")),
        }
        inner.iter().for_each(|child| self.find(child, reading));
    }

    fn resolve(&self, reading: &mut Reading) {
        let one = |what: &str, found: usize| format!("expected one {what}, and there are {found} that are enabled");
        match self.groups.as_slice() {
            [group] => thread_group(group, reading),
            several => reading.problems.add("ThreadGroup", one("thread group", several.len())),
        }
        match self.samplers.as_slice() {
            [sampler] => sampler::resolve(sampler, &self.settings, reading),
            several => reading.problems.add("HTTPSamplerProxy", one("HTTP request", several.len())),
        }
    }
}

/// Takes threads, ramp, loops and duration from a thread group.
fn thread_group(group: &Element<'_>, reading: &mut Reading) {
    let path = &group.path;
    let mut number = |name: &str, default: u64| {
        let Some(text) = group.property(name).filter(|text| !text.trim().is_empty()) else { return default };
        match text.trim().parse() {
            Ok(number) => number,
            Err(_) => {
                reading.problems.add(format!("{path}/{name}"), format!("expected a whole number, not {text}"));
                default
            }
        }
    };
    let threads = number("ThreadGroup.num_threads", 1);
    let ramp = number("ThreadGroup.ramp_time", 0);
    let duration = number("ThreadGroup.duration", 0);
    let delay = number("ThreadGroup.delay", 0);
    if threads == 0 || threads > THREADS_MAX {
        reading.problems.add(format!("{path}/ThreadGroup.num_threads"), format!("expected 1 to {THREADS_MAX}"));
    }
    let is_on = |name: &str| group.property(name).is_some_and(|value| value == "true");
    let loops = group.property("LoopController.loops").unwrap_or_default();
    let forever = is_on("LoopController.continue_forever") || loops.trim() == "-1";
    let arrival = &mut reading.plan.flags.arrival;
    arrival.concurrency = Some(threads.to_string());
    if ramp > 0 && threads > 1 {
        if u128::from(ramp) > HOUR.as_millis() {
            reading.problems.add(format!("{path}/ThreadGroup.ramp_time"), "is longer than can be meant");
        }
        // The last worker starts at the end of the ramp, as in JMeter.
        arrival.ramp_percent_per_second = Some(format!("{}", (100.0 / ramp as f64).min(100.0)));
    }
    if !forever {
        match loops.trim().parse::<u64>() {
            Ok(count) if count > 0 => arrival.loops = Some(count.to_string()),
            _ => reading.problems.add(format!("{path}/LoopController.loops"), "expected a whole number from 1, or -1"),
        }
    }
    if is_on("ThreadGroup.scheduler") && duration > 0 {
        arrival.duration = Some(time_text(std::time::Duration::from_secs(duration)));
    } else if forever {
        reading.warn(path, "the plan never ends by itself; here it ends after --duration, 30 s by default");
    }
    if delay > 0 && is_on("ThreadGroup.scheduler") {
        reading.warn(path, "the delay before the start is ignored");
    }
    let on_error = group.property("ThreadGroup.on_sample_error").unwrap_or_else(|| "continue".into());
    if on_error != "continue" {
        reading.warn(path, "a thread goes on after an error here");
    }
}
