//! Reads a file of axes, in YAML: every combination of their values is a cell.
//!
//! ```yaml
//! label: gateway
//! tune: true                     # false: each cell at the load that its flags say
//! flags: { timeout: 5s }         # for all cells; names are the flags' with _ for -
//! search: { run_time: 5s }       # as autotune's flags
//! axes:
//!   target:
//!     - { name: http, url: "http://localhost:8080/" }
//!     - { name: mtls, url: "https://localhost:9443/", ca: ca.pem, cert: client.pem }
//!   http_version: ["1.1", 2]
//!   reuse: [true, false]
//!   body_size: [0, 1024]
//! ```
//!
//! A value of an axis is a flag's value, or several flags with a name. A combination that makes no sense is skipped and
//! A value of an axis is the value of a flag, or several flags with a name. A combination that is rejected becomes a skipped cell
//! with the reason; a value that is rejected in all its combinations is an error.

use std::fmt;
use std::path::Path;

use sealway_runtime::config::{ConfigError, Problems, load_yaml, read_bounded};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::cells::{Cell, Cells, without_tls};
use crate::flags::values::within;
use crate::flags::{AutotuneFlags, Extra, Flags, resolve};

/// Upper bound of a file, in bytes.
const FILE_LEN_MAX: u64 = 1024 * 1024;
/// Upper bound of the number of cells.
const CELLS_MAX: usize = 500;
/// Largest body that `body_size` makes, in bytes.
const BODY_SIZE_MAX: usize = 16 * 1024 * 1024;

/// Contents of a matrix file.
#[derive(Clone, Debug)]
pub(crate) struct MatrixFile {
    /// Cells of all combinations of values.
    pub(crate) cells: Cells,
    /// True if each cell is tuned; false if it runs at the load of its flags.
    pub(crate) tune: bool,
    /// Flags of the search, for those that the command line does not give.
    pub(crate) search: AutotuneFlags,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    label: Option<String>,
    #[serde(default = "yes")]
    tune: bool,
    #[serde(default)]
    flags: OrderedMap<Value>,
    #[serde(default)]
    search: OrderedMap<Value>,
    axes: OrderedMap<Vec<Value>>,
}

fn yes() -> bool {
    true
}

/// Map that keeps the order of its file.
#[derive(Debug)]
struct OrderedMap<T>(Vec<(String, T)>);

impl<T> Default for OrderedMap<T> {
    fn default() -> Self {
        OrderedMap(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = OrderedMap<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(OrderedMap(entries))
            }
        }
        deserializer.deserialize_map(Entries(std::marker::PhantomData))
    }
}

/// One value of an axis: its name, and the flags that it sets.
struct Choice {
    path: String,
    name: String,
    sets: Vec<(String, Vec<String>)>,
    fits: bool,
    refusal: String,
}

/// Reads a file. Flags of the command line hold for all cells and take precedence over the file's `flags`.
///
/// # Errors
/// All problems, each with its path in the file.
pub(crate) fn read(path: &Path, flags: &Flags) -> Result<MatrixFile, ConfigError> {
    let text = read_bounded(path, FILE_LEN_MAX)?;
    parse(&text, flags).map_err(|err| within(path.display(), &err))
}

/// Parses the text of a file, as [`read`] does.
///
/// # Errors
/// As [`read`].
pub(crate) fn parse(text: &str, flags: &Flags) -> Result<MatrixFile, ConfigError> {
    let raw: Raw = load_yaml(text)?;
    let mut problems = Problems::default();
    let mut common = Flags::default();
    for (name, value) in &raw.flags.0 {
        let path = format!("flags.{name}");
        let given = problems.take(&path, texts(value));
        given.and_then(|given| problems.take(&path, common.set(name, &given)));
    }
    let search = search(&mut problems, &raw.search);
    let mut axes: Vec<Vec<Choice>> = Vec::new();
    for (name, values) in &raw.axes.0 {
        let choices = values.iter().enumerate();
        let choices = choices.filter_map(|(index, value)| choice(&mut problems, name, index, value));
        axes.push(choices.collect());
        if values.is_empty() {
            problems.add(format!("axes.{name}"), "expected at least one value");
        }
    }
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.len()));
    if raw.axes.0.is_empty() || count.is_none_or(|count| count > CELLS_MAX) {
        problems.add("axes", format!("expected at least one axis, and at most {CELLS_MAX} combinations"));
    }
    problems.into_result()?;
    let mut all = flags.clone();
    all.fill(&common).map_err(ConfigError)?;
    let cells = product(&all, &mut axes);
    let mut problems = Problems::default();
    for choice in axes.iter().flatten().filter(|choice| !choice.fits) {
        problems.add(&choice.path, &choice.refusal);
    }
    problems.into_result()?;
    let label = raw.label.unwrap_or_else(|| "matrix".into());
    Ok(MatrixFile { cells: Cells { label, cells }, tune: raw.tune, search })
}

/// Returns a cell for every combination, the last axis changing fastest, and marks the choices that fit in at least one.
fn product(all: &Flags, axes: &mut [Vec<Choice>]) -> Vec<Cell> {
    let count: usize = axes.iter().map(Vec::len).product();
    let mut cells = Vec::with_capacity(count);
    for number in 0..count {
        let mut rest = number;
        let mut chosen = vec![0; axes.len()];
        for (axis, at) in axes.iter().zip(&mut chosen).rev() {
            *at = rest % axis.len();
            rest /= axis.len();
        }
        let choices = || axes.iter().zip(&chosen).map(|(axis, at)| &axis[*at]);
        let name = choices().map(|choice| choice.name.as_str()).collect::<Vec<_>>().join(" ");
        let job = cell(all, &name, choices().flat_map(|choice| &choice.sets));
        for (axis, at) in axes.iter_mut().zip(&chosen) {
            match &job {
                Ok(_) => axis[*at].fits = true,
                Err(reason) => axis[*at].refusal.clone_from(reason),
            }
        }
        cells.push(Cell { name, job });
    }
    cells
}

fn cell<'a>(
    all: &Flags,
    name: &str,
    sets: impl Iterator<Item = &'a (String, Vec<String>)>,
) -> Result<crate::flags::Job, String> {
    let (mut flags, mut url) = (all.clone(), None);
    let sets: Vec<_> = sets.collect();
    if let Some((_, given)) = sets.iter().find(|(name, _)| name == "url") {
        url = given.first().cloned();
    }
    without_tls(&mut flags, url.as_deref().unwrap_or_default());
    for (name, given) in sets.iter().filter(|(name, _)| name != "url") {
        flags.set(name, given).map_err(|err| format!("{name}: {err}"))?;
    }
    flags.output.label = Some(name.chars().take(200).collect());
    let extra = Extra { url_name: Some("url".into()), ..Extra::default() };
    resolve(url.as_deref(), &flags, extra).map_err(|err| err.0.lines().collect::<Vec<_>>().join("; "))
}

fn search(problems: &mut Problems, raw: &OrderedMap<Value>) -> AutotuneFlags {
    let mut map = serde_json::Map::new();
    let known = serde_json::to_value(AutotuneFlags::default()).unwrap_or_default();
    for (name, value) in &raw.0 {
        let path = format!("search.{name}");
        if known.get(name).is_none() {
            problems.add(path, "autotune has no such flag");
        } else if let Some(given) = problems.take(path, texts(value)) {
            map.insert(name.clone(), Value::String(given.concat()));
        }
    }
    problems.take("search", serde_json::from_value(Value::Object(map))).unwrap_or_default()
}

fn choice(problems: &mut Problems, axis: &str, index: usize, value: &Value) -> Option<Choice> {
    let path = format!("axes.{axis}[{index}]");
    let made = |name, sets| Choice { path: path.clone(), name, sets, fits: false, refusal: String::new() };
    let Value::Object(map) = value else {
        let given = problems.take(&path, texts(value))?;
        let shown = given.join(",");
        let name = match (axis, shown.as_str()) {
            ("reuse", "true") => "reuse".to_owned(),
            ("reuse", _) => "no-reuse".to_owned(),
            ("url", url) => url.to_owned(),
            _ => format!("{}={shown}", axis.replace('_', "-")),
        };
        return Some(made(name, vec![problems.take(&path, set(axis, given))?]));
    };
    let mut sets = Vec::new();
    let mut name = None;
    for (flag, value) in map {
        let path = format!("{path}.{flag}");
        let Some(given) = problems.take(&path, texts(value)) else { continue };
        if flag == "name" {
            name = Some(given.concat());
        } else {
            sets.extend(problems.take(&path, set(flag, given)));
        }
    }
    if name.is_none() {
        problems.add(&path, "a value of several flags needs a name: { name: …, flag: value }");
    }
    Some(made(name?, sets))
}

/// Returns a flag and its value. `reuse` and `body_size` are short for other flags.
fn set(name: &str, given: Vec<String>) -> Result<(String, Vec<String>), String> {
    match name {
        "url" => Ok((name.to_owned(), given)),
        "reuse" => match given.concat().as_str() {
            "true" => Ok(("no_reuse".into(), vec!["false".into()])),
            "false" => Ok(("no_reuse".into(), vec!["true".into()])),
            other => Err(format!("expected true or false, not {other}")),
        },
        "body_size" => {
            let size = given.concat().parse().ok().filter(|size| *size <= BODY_SIZE_MAX);
            let size: usize = size.ok_or(format!("expected bytes, 0 to {BODY_SIZE_MAX}"))?;
            Ok(("body".into(), vec!["x".repeat(size)]))
        }
        // Checks that the flag exists and takes such a value.
        _ => Flags::default().set(name, &given).map(|()| (name.to_owned(), given)),
    }
}

/// Returns a scalar or a list of scalars as texts, as on a command line.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Number(number) => Ok(vec![number.to_string()]),
        Value::Bool(is_so) => Ok(vec![is_so.to_string()]),
        Value::Array(items) => {
            let all: Result<Vec<_>, _> = items.iter().map(texts).collect();
            Ok(all?.concat())
        }
        Value::Null | Value::Object(_) => Err("expected a value or a list of them".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_a_cell_and_what_makes_no_sense_says_why() {
        let text = "label: two\nflags: { timeout: 5s }\nsearch: { repeats: 2 }\naxes:\n  \
                    target: [{ name: http, url: 'http://localhost/' }, { name: tls, url: 'https://localhost/', insecure: true }]\n  \
                    http_version: ['1.1', 2]\n  streams: [1, 10]\n  reuse: [true]\n";
        let swept = parse(text, &Flags::default()).unwrap();
        let names: Vec<_> = swept.cells.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[0], "http http-version=1.1 streams=1 reuse");
        assert_eq!(names[7], "tls http-version=2 streams=10 reuse");
        let skipped: Vec<_> = swept.cells.cells.iter().filter(|cell| cell.job.is_err()).collect();
        assert_eq!(skipped.len(), 2);
        assert!(skipped[0].job.as_ref().unwrap_err().contains("HTTP/1.1 carries one request at a time"));
        let plan = &swept.cells.cells[7].job.as_ref().unwrap().plan;
        assert_eq!((plan.connections.streams, plan.timeouts.request.as_secs()), (10, 5));
        assert_eq!((swept.tune, swept.search.repeats.as_deref()), (true, Some("2")));
    }

    #[test]
    fn flags_of_the_command_line_go_before_those_of_the_file_and_axes_before_both() {
        let mut flags = Flags::default();
        flags.connection.timeout = Some("1s".into());
        flags.tls.insecure = true;
        let text = "flags: { timeout: 5s, threads: 3 }\naxes: { url: ['http://a/', 'https://a/'], threads: [2, 4] }\n";
        let swept = parse(text, &flags).unwrap();
        let plan = &swept.cells.cells[3].job.as_ref().unwrap().plan;
        assert_eq!((plan.timeouts.request.as_secs(), plan.threads), (1, 4));
        assert!(!plan.target.tls.as_ref().unwrap().verify);
    }

    #[test]
    fn everything_wrong_in_a_file_is_named_by_its_path() {
        let text = "flags: { timeot: 5s }\nsearch: { x: 1 }\naxes:\n  reuse: [maybe]\n  body_size: [-1]\n  \
                    target: [{ url: 'http://a/' }]\n  empty: []\n";
        let err = parse(text, &Flags::default()).unwrap_err().0;
        for path in [
            "flags.timeot: ",
            "search.x: ",
            "axes.reuse[0]: ",
            "axes.body_size[0]: ",
            "axes.target[0]: ",
            "axes.empty: ",
        ] {
            assert!(err.lines().any(|line| line.starts_with(path)), "{path} is not in\n{err}");
        }
        let err = parse("axes: { url: ['http://a/'], concurrency: [0, 1] }", &Flags::default()).unwrap_err().0;
        assert!(err.starts_with("axes.concurrency[0]: --concurrency 0: expected") && err.lines().count() == 1, "{err}");
        let many = format!("axes: {{ url: ['http://a/'], concurrency: {:?} }}", (1..600).collect::<Vec<_>>());
        assert!(parse(&many, &Flags::default()).unwrap_err().0.starts_with("axes: "));
        assert!(parse("axes: {}\nunknown: 1", &Flags::default()).is_err());
    }
}
