//! Flags for the request that is sent.

use std::io::Read;
use std::path::Path;

use http::{HeaderName, HeaderValue, Method, Uri};
use sealway_runtime::config::{Problems, read_bounded};
use serde::{Deserialize, Serialize};

use super::values;
use crate::plan::{Request, Text};
use crate::request::Template;

/// Upper bound of the body, in bytes.
const BODY_LEN_MAX: u64 = 64 * 1024 * 1024;
/// Upper bound of the number of headers; the next constant is the largest file of headers, in bytes.
const HEADERS_MAX: usize = 200;
const HEADERS_LEN_MAX: u64 = 256 * 1024;

/// Flags for the request that is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Request")]
#[serde(default)]
pub(crate) struct RequestFlags {
    /// Method [default: GET, with a body POST]
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// `Name: value`, or @FILE with one header per line, for secrets; may be a template; repeatable
    #[arg(long, short = 'H', value_name = "HEADER", value_delimiter = '\n')]
    pub(crate) header: Vec<String>,
    /// Body
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) body: Option<String>,
    /// File with the body, up to 64 MiB; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) body_file: Option<String>,
    /// Treat the body as a template: {{uuid}} {{counter}} {{timestamp}} {{random}} differ in each request
    #[arg(long)]
    pub(crate) template: bool,
    /// Add NAME=VALUE to the URL's query; may be a template; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = '\n')]
    pub(crate) query: Vec<String>,
    /// First value of {{counter}} [default: 0]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) counter_start: Option<String>,
}

impl RequestFlags {
    pub(super) fn resolve(&self, problems: &mut Problems, url: Option<&Uri>) -> Request {
        let body = self.body(problems);
        let default = if body.is_some() { Method::POST } else { Method::GET };
        let method = values::parsed(problems, "--method", &self.method, "a method such as GET");
        let method = method.unwrap_or(default);
        if method == Method::CONNECT {
            problems.add("--method CONNECT", "cannot be measured: CONNECT opens a tunnel");
        }
        Request {
            method,
            path: self.path(problems, url),
            headers: self.headers(problems),
            body,
            counter_start: values::whole(problems, "--counter-start", &self.counter_start, 0..=u64::MAX).unwrap_or(0),
        }
    }

    fn path(&self, problems: &mut Problems, url: Option<&Uri>) -> String {
        let written = url.and_then(Uri::path_and_query).map_or("/", |path| path.as_str());
        let mut path = written.to_owned();
        for value in &self.query {
            let Some((name, value)) = value.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                values::wrong(problems, "--query", value, "NAME=VALUE");
                continue;
            };
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&escaped(name));
            path.push('=');
            path.push_str(&escaped(value));
        }
        if path.contains("{{") {
            problems.take("the URL's path and query", Template::parse(&path));
        }
        path
    }

    fn headers(&self, problems: &mut Problems) -> Vec<(HeaderName, Text)> {
        let mut headers = Vec::new();
        for given in &self.header {
            match given.strip_prefix('@') {
                None => headers.extend(header(problems, given, given.split(':').next().unwrap_or_default())),
                Some(file) => {
                    let Some(text) = problems.take("--header", read_bounded(Path::new(file), HEADERS_LEN_MAX)) else {
                        continue;
                    };
                    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                        // A line of the file may hold a secret and is not shown.
                        headers.extend(header(problems, line, &format!("@{file}, line {}", number + 1)));
                    }
                }
            }
        }
        if headers.len() > HEADERS_MAX {
            problems.add("--header", format!("expected at most {HEADERS_MAX}"));
        }
        headers
    }

    fn body(&self, problems: &mut Problems) -> Option<Text> {
        let bytes = match (&self.body, &self.body_file) {
            (Some(_), Some(_)) => {
                problems.add("--body with --body-file", "give only one of them");
                return None;
            }
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(file)) => problems.take(format!("--body-file {file}"), read_body(file))?,
            (None, None) => {
                if self.template {
                    problems.add("--template", "there is no body: give --body or --body-file");
                }
                return None;
            }
        };
        if !self.template {
            return Some(Text::Fixed(bytes));
        }
        let Ok(text) = String::from_utf8(bytes) else {
            problems.add("--template", "the body is not UTF-8");
            return None;
        };
        problems.take("--template", Template::parse(&text))?;
        Some(Text::Template(text))
    }
}

fn header(problems: &mut Problems, line: &str, shown: &str) -> Option<(HeaderName, Text)> {
    let flag = format!("--header {shown}");
    let Some((name, value)) = line.split_once(':') else {
        problems.add(flag, "expected Name: value");
        return None;
    };
    let name: HeaderName =
        problems.take(&flag, name.trim().parse().map_err(|_| "the name has characters that HTTP does not allow"))?;
    if ["content-length", "transfer-encoding", "connection"].contains(&name.as_str()) {
        problems.add(flag, "the client sets this header itself; see --body and --connection-close");
        return None;
    }
    let value = value.trim();
    if value.contains("{{") {
        problems.take(&flag, Template::parse(value))?;
        return Some((name, Text::Template(value.to_owned())));
    }
    let value = problems
        .take(&flag, HeaderValue::from_str(value).map_err(|_| "the value has characters that HTTP does not allow"))?;
    Some((name, Text::from(&value)))
}

fn read_body(file: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = if file == "-" {
        std::io::stdin().lock().take(BODY_LEN_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(BODY_LEN_MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(|err| format!("cannot be read: {err}"))?;
    if bytes.len() as u64 > BODY_LEN_MAX {
        return Err("is longer than 64 MiB".into());
    }
    Ok(bytes)
}

/// Percent-encodes a text for a query; a `{{name}}` stays as it is, for the template.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        if rest.starts_with("{{")
            && let Some(end) = rest.find("}}")
        {
            out.push_str(&rest[..end + 2]);
            rest = &rest[end + 2..];
            continue;
        }
        let Some(first) = rest.chars().next() else { break };
        let (one, after) = rest.split_at(first.len_utf8());
        if first.is_ascii_alphanumeric() || "-._~:/@,".contains(first) {
            out.push(first);
        } else {
            for byte in one.bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(flags: &RequestFlags) -> Result<Request, String> {
        let mut problems = Problems::default();
        let url: Uri = "http://localhost/a?b=c".parse().unwrap();
        let request = flags.resolve(&mut problems, Some(&url));
        problems.into_result().map(|()| request).map_err(|err| err.0)
    }

    #[test]
    fn a_query_is_escaped_and_keeps_its_templates() {
        let query = vec!["q=a b&c".to_owned(), "id=pre-{{counter}}".to_owned(), "ü=1".to_owned()];
        let request = resolved(&RequestFlags { query, ..RequestFlags::default() }).unwrap();
        assert_eq!(request.path, "/a?b=c&q=a%20b%26c&id=pre-{{counter}}&%C3%BC=1");
        assert_eq!(request.method, Method::GET);
    }

    #[test]
    fn a_header_of_a_file_is_sent_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("headers");
        std::fs::write(&file, "Authorization: Bearer geheim\n\nX-Id: {{uuid}}\n").unwrap();
        let header = vec![format!("@{}", file.display()), "Accept: */*".to_owned()];
        let request = resolved(&RequestFlags { header: header.clone(), ..RequestFlags::default() }).unwrap();
        let names: Vec<_> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["authorization", "x-id", "accept"]);
        assert_eq!(request.headers[1].1, Text::Template("{{uuid}}".into()));
        std::fs::write(&file, "geheim\nAuthorization: gehe\u{1}im\n").unwrap();
        let err = resolved(&RequestFlags { header, ..RequestFlags::default() }).unwrap_err();
        assert!(err.contains("line 1") && err.contains("line 2") && !err.contains("gehe"), "{err}");
    }

    #[test]
    fn a_body_makes_it_a_post_and_a_template_must_be_one() {
        let flags = RequestFlags { body: Some("{{counter}}".into()), ..RequestFlags::default() };
        let request = resolved(&flags).unwrap();
        assert_eq!((request.method, request.body), (Method::POST, Some(Text::Fixed(b"{{counter}}".to_vec()))));
        let request = resolved(&RequestFlags { template: true, ..flags.clone() }).unwrap();
        assert_eq!(request.body, Some(Text::Template("{{counter}}".into())));
        let err = resolved(&RequestFlags { template: true, body: Some("x {{conter}}".into()), ..flags }).unwrap_err();
        assert!(err.starts_with("--template: ") && err.contains("conter"), "{err}");
    }
}
