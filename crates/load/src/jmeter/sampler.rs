//! Reads the one request of a plan: its target, its contents and its assertions.

use super::Reading;
use super::element::Element;
use super::text::{Translation, fill};

/// Bits of `Assertion.test_type`, which say how a `ResponseAssertion` compares.
const MATCH: u32 = 1;
const CONTAINS: u32 = 2;
const NOT: u32 = 4;
const EQUALS: u32 = 8;
const SUBSTRING: u32 = 16;
/// Bit for alternatives: one text of several suffices.
const OR: u32 = 32;

/// Adds the request and its assertions to the plan's flags.
pub(super) fn resolve(sampler: &Element<'_>, settings: &[Element<'_>], reading: &mut Reading) {
    let of = |kind: &str| settings.iter().filter(|setting| setting.kind == kind).collect::<Vec<_>>();
    let counter = counter(&of("CounterConfig"), reading);
    let request = Request { sampler, defaults: of("ConfigTestElement"), counter };
    request.url(reading);
    request.body(reading);
    for manager in of("HeaderManager") {
        request.headers(manager, reading);
    }
    for assertion in of("ResponseAssertion") {
        request.assertion(assertion, reading);
    }
    for assertion in of("JSONPathAssertion") {
        request.json_path(assertion, reading);
    }
}

/// Returns the name of the counter's variable, and sets the counter's first value.
fn counter(counters: &[&Element<'_>], reading: &mut Reading) -> Option<String> {
    let counter = *counters.first()?;
    let path = &counter.path;
    if counters.len() > 1 {
        reading.problems.add(path, "expected one counter");
    }
    let number = |name: &str| counter.property(name).filter(|text| !text.is_empty());
    if number("CounterConfig.incr").is_some_and(|step| step != "1") {
        reading.problems.add(path, "only counters with increment 1 are supported");
    }
    if number("CounterConfig.end").is_some_and(|end| end != "0") {
        reading.warn(path, "a maximum of the counter is not supported");
    }
    if counter.property("CounterConfig.per_user").is_some_and(|value| value == "true") {
        reading.warn(path, "a counter per thread is not supported");
    }
    if number("CounterConfig.format").is_some_and(|format| format.contains('0')) {
        reading.problems.add(path, "a format of the counter is not supported");
    }
    if let Some(start) = number("CounterConfig.start") {
        reading.plan.flags.request.counter_start = Some(start);
    }
    number("CounterConfig.name")
}

struct Request<'a, 'e> {
    sampler: &'a Element<'e>,
    defaults: Vec<&'a Element<'e>>,
    counter: Option<String>,
}

impl Request<'_, '_> {
    /// Returns a property of the sampler, or else of the defaults; `None` if it is empty.
    fn property(&self, name: &str) -> Option<String> {
        let all = std::iter::once(self.sampler).chain(self.defaults.iter().copied());
        all.filter_map(|element| element.property(name)).find(|text| !text.trim().is_empty())
    }

    fn fill(&self, place: &str, text: &str, reading: &mut Reading) -> Translation {
        let filled = reading.problems.take(place, fill(text, self.counter.as_deref()));
        filled.unwrap_or(Translation { text: String::new(), is_template: false })
    }

    fn url(&self, reading: &mut Reading) {
        let path = &self.sampler.path;
        let protocol = self.property("HTTPSampler.protocol").unwrap_or_else(|| "http".into()).to_lowercase();
        let Some(domain) = self.property("HTTPSampler.domain") else {
            return reading.problems.add(path, "HTTPSampler.domain: expected a server's name");
        };
        let port = self.property("HTTPSampler.port").map_or_else(String::new, |port| format!(":{}", port.trim()));
        let target = self.property("HTTPSampler.path").unwrap_or_else(|| "/".into());
        let target = self.fill(path, &target, reading).text;
        for (what, text) in [("domain", &domain), ("port", &port)] {
            if text.contains("${") {
                reading.problems.add(path, format!("HTTPSampler.{what}: {text} is not supported"));
            }
        }
        if protocol == "https" {
            reading.warn(path, "JMeter trusts every server certificate; sealway load trusts the system's authorities, those of --ca, or all with --insecure");
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        reading.plan.url = Some(format!("{protocol}://{}{port}{slash}{target}", domain.trim()));
        reading.plan.flags.request.method = self.property("HTTPSampler.method");
        let mut time = |name: &str| {
            let text = self.property(name)?;
            let millis: Option<u64> = text.trim().parse().ok();
            if millis.is_none() {
                reading.problems.add(path, format!("{name}: expected milliseconds, not {text}"));
            }
            millis.filter(|millis| *millis > 0).map(|millis| format!("{millis}ms"))
        };
        let (connect, response) = (time("HTTPSampler.connect_timeout"), time("HTTPSampler.response_timeout"));
        let connection = &mut reading.plan.flags.connection;
        (connection.connect_timeout, connection.timeout) = (connect, response);
        let is = |name: &str, value: &str| self.property(name).is_some_and(|given| given == value);
        connection.no_reuse = is("HTTPSampler.use_keepalive", "false");
        if is("HTTPSampler.follow_redirects", "true") || is("HTTPSampler.auto_redirects", "true") {
            reading.warn(path, "redirects are not followed: a 3xx response is a failed request");
        }
        if is("HTTPSampler.image_parser", "true") || is("HTTPSampler.DO_MULTIPART_POST", "true") {
            reading.problems.add(path, "embedded resources and multipart bodies are not supported");
        }
        if self.sampler.list("HTTPFileArgs.files").next().is_some() {
            reading.problems.add(path, "file uploads are not supported: give --body-file");
        }
    }

    /// Takes a raw body, or arguments of the query. Arguments of any other method than GET, DELETE, HEAD and OPTIONS are
    /// rejected.
    fn body(&self, reading: &mut Reading) {
        let path = &self.sampler.path;
        let arguments: Vec<_> = self.sampler.list("Arguments.arguments").collect();
        let value = |entry: &super::element::Entry<'_>| entry.property("Argument.value").unwrap_or_default();
        if self.sampler.property("HTTPSampler.postBodyRaw").is_some_and(|raw| raw == "true") {
            let text: String = arguments.iter().map(value).collect();
            let filled = self.fill(path, &text, reading);
            reading.plan.flags.request.template = filled.is_template;
            reading.plan.flags.request.body = Some(filled.text);
            return;
        }
        let method = self.property("HTTPSampler.method").unwrap_or_else(|| "GET".into());
        if !arguments.is_empty() && !["GET", "DELETE", "HEAD", "OPTIONS"].contains(&method.as_str()) {
            return reading.problems.add(path, "a form as body is not supported: use a raw body");
        }
        for entry in &arguments {
            let filled = self.fill(path, &value(entry), reading).text;
            let name = entry.property("Argument.name").unwrap_or_default();
            reading.plan.flags.request.query.push(format!("{name}={filled}"));
        }
    }

    fn headers(&self, manager: &Element<'_>, reading: &mut Reading) {
        for entry in manager.list("HeaderManager.headers") {
            let name = entry.property("Header.name").unwrap_or_default();
            let value = entry.property("Header.value").unwrap_or_default();
            let lower = name.to_ascii_lowercase();
            if ["connection", "content-length", "host"].contains(&lower.as_str()) {
                reading.warn(&manager.path, &format!("the header {name} is ignored: the client sets it itself"));
                continue;
            }
            let value = self.fill(&manager.path, &value, reading).text;
            reading.plan.flags.request.header.push(format!("{name}: {value}"));
        }
    }

    fn assertion(&self, assertion: &Element<'_>, reading: &mut Reading) {
        let path = &assertion.path;
        let field = assertion.property("Assertion.test_field").unwrap_or_default();
        let kind: u32 = assertion.property("Assertion.test_type").and_then(|text| text.parse().ok()).unwrap_or(0);
        // The misspelling is JMeter's own.
        let texts: Vec<_> = assertion.list("Asserion.test_strings").map(|entry| entry.text()).collect();
        if kind & NOT != 0 || kind & !(MATCH | CONTAINS | EQUALS | SUBSTRING | OR) != 0 {
            return reading.problems.add(path, "negated assertions are not supported");
        }
        let is_plain = texts.iter().all(|text| !text.contains(['\\', '*', '+', '?', '[', '(', '|', '^', '$', '{']));
        if kind & (MATCH | CONTAINS) != 0 && !is_plain {
            return reading.problems.add(path, "patterns are not supported: compare with a text");
        }
        let verdict = &mut reading.plan.flags.verdict;
        match field.as_str() {
            "Assertion.response_code" => verdict.assert_status.extend(texts),
            "Assertion.response_data" if kind & (EQUALS | MATCH) != 0 => {
                if texts.len() != 1 {
                    return reading.problems.add(path, "a body is compared with one text");
                }
                verdict.assert_body_is = texts.into_iter().next();
            }
            "Assertion.response_data" => verdict.assert_body_holds.extend(texts),
            other => reading.problems.add(path, format!("an assertion on {other} is not supported")),
        }
    }

    fn json_path(&self, assertion: &Element<'_>, reading: &mut Reading) {
        let path = &assertion.path;
        let is = |name: &str| assertion.property(name).is_some_and(|value| value == "true");
        if is("INVERT") || is("EXPECT_NULL") || (is("JSONVALIDATION") && is("ISREGEX")) {
            return reading.problems.add(path, "only equality with a value is supported");
        }
        if !is("JSONVALIDATION") {
            return reading.problems.add(path, "a check that only the path exists is not supported: give its value");
        }
        let json_path = assertion.property("JSON_PATH").unwrap_or_default();
        let expected = assertion.property("EXPECTED_VALUE").unwrap_or_default();
        let expected = self.fill(path, &expected, reading).text;
        reading.plan.flags.verdict.assert_json.push(format!("{json_path}={expected}"));
    }
}
