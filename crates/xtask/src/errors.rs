//! Explanations of errors, generated from `spec/registry.toml`: `docs/reference/errors.md` has each error code with its cause, the
//! answer to the client and the remedy, and each SDK a table of the remedies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, ensure};
use toml::{Table, Value};

use crate::shell;

/// The path of the page from the root.
const PAGE: &str = "docs/reference/errors.md";
const REGISTRY: &str = "spec/registry.toml";

/// The parts of a registry entry with the answer to a client, with the protocol and the kind of request.
const PLACES: [(&str, &str); 5] = [
    ("init", "v2 init"),
    ("v1", "v1 init"),
    ("sealed", "v1, v2 request"),
    ("init3", "native init"),
    ("sealed3", "native request"),
];

const HEAD: &str = "\
# Errors and what to do

<!-- Generated from spec/registry.toml by `cargo xtask codegen`. -->

A client receives a coarse error on purpose: a sender of forged requests must not learn from the responses. The server's log and
the metric `sealway_refusals_total` have the precise code. Find the coarse error in the first two tables, the precise code in
the others. Classes of the metric that are not here are in [Metrics](metrics.md#refusals). `blame` says which side can mend it:
`peer` (the one that sent the message), `caller` (the program that uses the SDK), `limit` (a configured bound), `expiry` (time),
`crypto` (the cryptographic module).

";

/// Generates the page and the tables of the SDKs, and returns their texts by their paths.
///
/// # Errors
/// If the registry is missing a member that one of them needs.
pub(crate) fn generate() -> anyhow::Result<BTreeMap<String, String>> {
    let registry = registry()?;
    let remedies = remedies(&registry)?;
    let tables = LANGUAGES.iter().map(|language| (language.path.to_owned(), language.table(&remedies)));
    Ok(tables.chain([(PAGE.to_owned(), page(&sections(&registry)?, |code| format!("`{code}`")))]).collect())
}

/// Returns the page as the docs site shows it, with a link from each code to its own page, and those pages by their paths from
/// the root of the site.
///
/// # Errors
/// If the registry is missing a member that one of them needs.
pub(crate) fn site() -> anyhow::Result<BTreeMap<String, String>> {
    let sections = sections(&registry()?)?;
    let mut pages: BTreeMap<String, String> = BTreeMap::new();
    for code in sections.iter().flat_map(|section| &section.rows).map(|row| &row.code) {
        pages.entry(path(code)).or_insert_with(|| about(&sections, code));
    }
    pages.insert(PAGE.to_owned(), page(&sections, |code| format!("[`{code}`](../../{})", path(code))));
    Ok(pages)
}

/// Returns the path of a code's page. `SESSION_EXPIRED` and `session_expired` share one, because some file systems cannot tell
/// them apart.
fn path(code: &str) -> String {
    format!("errors/{}.md", code.to_lowercase())
}

fn registry() -> anyhow::Result<Table> {
    let text = std::fs::read_to_string(shell::root().join(REGISTRY)).context(REGISTRY)?;
    text.parse().context(REGISTRY)
}

fn page(sections: &[Section], name: impl Fn(&str) -> String) -> String {
    let mut page = HEAD.to_owned();
    for Section { title, text, columns, rows } in sections {
        // Writing to a String cannot fail.
        let _ =
            writeln!(page, "## {title}\n\n{text}\n\n| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()));
        for row in rows {
            let _ = writeln!(page, "| {} | {} |", name(&row.code), row.cells.join(" | "));
        }
        page.push('\n');
    }
    format!("{}\n", page.trim_end())
}

/// Returns the page of a code: a section for each table that has it, in either case.
fn about(sections: &[Section], code: &str) -> String {
    let mut names = Vec::new();
    let mut parts = String::new();
    for Section { title, text, columns, rows } in sections {
        for row in rows.iter().filter(|row| row.code.eq_ignore_ascii_case(code)) {
            let name = format!("`{}`", row.code);
            let _ = writeln!(parts, "## {title}: {name}\n\n{text}\n\n* **what you see**: {}", row.seen);
            for (column, cell) in
                columns.iter().skip(1).zip(&row.cells).filter(|(column, cell)| **column != "status" && !cell.is_empty())
            {
                let _ = writeln!(parts, "* **{column}**: {cell}");
            }
            let precise =
                sections.iter().flat_map(|section| &section.rows).filter(|other| other.answers.contains(&row.code));
            let precise: Vec<_> = precise.map(|other| format!("[`{0}`]({0}.md)", other.code)).collect();
            if columns.contains(&"status") && !precise.is_empty() {
                let _ = writeln!(parts, "* **precise codes in the server's log**: {}", precise.join(", "));
            }
            parts.push('\n');
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    format!("# {}\n\n{parts}[All errors](../{PAGE})\n", names.join(", "))
}

/// Returns the remedy of each code that a client of sessions can meet. If several sections have a code, the text of the answer
/// that the client receives counts.
fn remedies(registry: &Table) -> anyhow::Result<BTreeMap<&str, &str>> {
    let mut remedies = BTreeMap::new();
    for section in ["errors", "public", "problems", "client_errors"] {
        for (code, entry) in table(registry, section)? {
            let remedy = entry.get("remedy").and_then(Value::as_str);
            let remedy = remedy.with_context(|| format!("{REGISTRY}: {section}.{code} has no `remedy`"))?;
            ensure!(!remedy.contains(['"', '\\']), "{REGISTRY}: {section}.{code}: `remedy` has a quote or a backslash");
            remedies.insert(code.as_str(), remedy);
        }
    }
    Ok(remedies)
}

/// The form of one SDK's table of remedies.
struct Language {
    /// Path of the file from the root.
    path: &'static str,
    head: &'static str,
    /// Text of one entry, with `CODE` and `REMEDY` in it.
    entry: &'static str,
    tail: &'static str,
}

const LANGUAGES: [Language; 5] = [
    Language {
        path: "sdk/typescript/src/errors/remedies.ts",
        head: "// Generated from spec/registry.toml by `cargo xtask codegen`.\n\n/** The remedy of each error code. */\n\
               export const REMEDIES: Readonly<Record<string, string>> = {\n",
        entry: "  CODE: \"REMEDY\",\n",
        tail: "};\n",
    },
    Language {
        path: "sdk/go/remedies.go",
        head: "// Code generated from spec/registry.toml by cargo xtask codegen. DO NOT EDIT.\n\npackage sealway\n\n\
               // remedyOf returns the remedy of an error code, or an empty string.\n\
               func remedyOf(code string) string {\n\tswitch code {\n",
        entry: "\tcase \"CODE\":\n\t\treturn \"REMEDY\"\n",
        tail: "\t}\n\treturn \"\"\n}\n",
    },
    Language {
        path: "sdk/java/sealway-session/src/main/java/dev/sealway/wire/Remedies.java",
        head: "// Generated from spec/registry.toml by `cargo xtask codegen`.\npackage dev.sealway.wire;\n\n\
               /** The remedy of each error code. */\npublic final class Remedies {\n    private Remedies() {}\n\n    \
               /** Returns the remedy of a code, or an empty string. */\n    public static String of(String code) {\n        \
               return switch (code) {\n",
        entry: "            case \"CODE\" -> \"REMEDY\";\n",
        tail: "            default -> \"\";\n        };\n    }\n}\n",
    },
    Language {
        path: "sdk/python/src/sealway/remedies.py",
        head: "\"\"\"The remedy of each error code. Generated from spec/registry.toml by `cargo xtask codegen`.\"\"\"\n\
               # ruff: noqa: E501\n\nfrom typing import Final\n\nREMEDIES: Final[dict[str, str]] = {\n",
        entry: "    \"CODE\": \"REMEDY\",\n",
        tail: "}\n",
    },
    Language {
        path: "crates/client/src/remedies.rs",
        head: "//! The remedy of each error code. Generated from `spec/registry.toml` by `cargo xtask codegen`.\n\n\
               #[rustfmt::skip]\npub(crate) const REMEDIES: &[(&str, &str)] = &[\n",
        entry: "    (\"CODE\", \"REMEDY\"),\n",
        tail: "];\n",
    },
];

impl Language {
    fn table(&self, remedies: &BTreeMap<&str, &str>) -> String {
        let entries = remedies.iter().map(|(code, remedy)| self.entry.replace("CODE", code).replace("REMEDY", remedy));
        std::iter::once(self.head.to_owned()).chain(entries).chain([self.tail.to_owned()]).collect()
    }
}

fn table<'a>(registry: &'a Table, name: &str) -> anyhow::Result<&'a Table> {
    registry.get(name).and_then(Value::as_table).with_context(|| format!("{REGISTRY} has no [{name}]"))
}

/// Returns a member of an entry, for a cell of a table.
fn cell(entry: &Value, code: &str, member: &str) -> anyhow::Result<String> {
    let text = entry.get(member).and_then(Value::as_str);
    Ok(text.with_context(|| format!("{REGISTRY}: {code} has no `{member}`"))?.replace('|', "\\|"))
}

/// A table of the page: the codes of one part of the registry.
struct Section {
    title: &'static str,
    text: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Row>,
}

struct Row {
    code: String,
    /// The cells after the one with the code.
    cells: Vec<String>,
    /// The form in which a person meets the code, for its own page.
    seen: String,
    /// The codes of the answers to a client.
    answers: Vec<String>,
}

const STAGED: &[&str] = &["code", "stage", "cause", "blame", "what to do"];
const STAGED_TEXT: &str =
    "The peer sees only that the connection closes. `stage` is how far the channel had come when it failed.";

fn sections(registry: &Table) -> anyhow::Result<Vec<Section>> {
    let section = |name, title, text, columns, row: fn(&str, &Value) -> anyhow::Result<Row>| {
        let rows = table(registry, name)?.iter().map(|(code, entry)| row(code, entry)).collect::<Result<_, _>>()?;
        anyhow::Ok(Section { title, text, columns, rows })
    };
    Ok(vec![
        section(
            "public",
            "Public errors",
            "The member `error` of the JSON body, for the protocols v1 and v2 and for every path that is not sealed.",
            &["error", "status", "cause", "what to do"],
            |code, entry| {
                let statuses = entry.get("statuses").and_then(Value::as_array).context("statuses")?;
                let statuses = statuses.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
                let seen = format!("HTTP {statuses} with `\"error\": \"{code}\"` in the JSON body");
                Ok(Row::new(code, vec![statuses, cell(entry, code, "meaning")?, cell(entry, code, "remedy")?], seen))
            },
        )?,
        section(
            "problems",
            "Problems",
            "The native protocol answers with `application/problem+json` (RFC 9457), whose `type` is \
             `urn:sealway:problem:` and the name.",
            &["problem", "status", "title", "what to do"],
            |code, entry| {
                let status = entry.get("status").map(Value::to_string).with_context(|| format!("{code}: status"))?;
                let seen = format!("HTTP {status} with `\"type\": \"urn:sealway:problem:{code}\"` in the JSON body");
                Ok(Row::new(code, vec![status, cell(entry, code, "title")?, cell(entry, code, "remedy")?], seen))
            },
        )?,
        section(
            "errors",
            "Sealed sessions",
            "Codes of sealed sessions, in logs, metrics and the errors of SDKs. A code without an answer is found by a client.",
            &["code", "cause", "blame", "the client receives", "what to do"],
            session,
        )?,
        section(
            "client_errors",
            "Clients of sessions",
            "Failures that an SDK names and no message on the wire has: the same codes in each language.",
            &["code", "cause", "what to do"],
            |code, entry| meaning(code, entry, "an error of the SDK with this code"),
        )?,
        section("channel_errors", "Channels", STAGED_TEXT, STAGED, staged)?,
        section("channel_client_errors", "Clients of channels", STAGED_TEXT, STAGED, staged)?,
        section(
            "rpc_errors",
            "Remote calls",
            "Codes of a call without a response.",
            &["code", "cause", "what to do"],
            |code, entry| meaning(code, entry, "the call ends with an error of this code"),
        )?,
    ])
}

impl Row {
    fn new(code: &str, cells: Vec<String>, seen: impl Into<String>) -> Self {
        Self { code: code.to_owned(), cells, seen: seen.into(), answers: Vec::new() }
    }
}

fn session(code: &str, entry: &Value) -> anyhow::Result<Row> {
    let (mut received, mut answers) = (Vec::new(), Vec::new());
    for (place, name) in PLACES {
        if let Some(answer) = entry.get(place) {
            let status = answer.get("status").map(Value::to_string).with_context(|| format!("{code}.{place}"))?;
            let public = cell(answer, code, "error")?;
            received.push(format!("{name}: {status} `{public}`"));
            answers.push(public);
        }
    }
    let seen = match received.is_empty() {
        true => "an error of the SDK with this code",
        false => "the answer below at the client; this code in the server's log and in `sealway_refusals_total`",
    };
    let cells = [cell(entry, code, "meaning")?, cell(entry, code, "blame")?, received.join("; ")];
    let cells = cells.into_iter().chain([cell(entry, code, "remedy")?]).collect();
    Ok(Row { answers, ..Row::new(code, cells, seen) })
}

fn staged(code: &str, entry: &Value) -> anyhow::Result<Row> {
    let cells = ["stage", "meaning", "blame", "remedy"].map(|member| cell(entry, code, member));
    let cells = cells.into_iter().collect::<Result<_, _>>()?;
    Ok(Row::new(code, cells, "an error with this code and its stage, at the end that found it"))
}

fn meaning(code: &str, entry: &Value, seen: &str) -> anyhow::Result<Row> {
    Ok(Row::new(code, vec![cell(entry, code, "meaning")?, cell(entry, code, "remedy")?], seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_of_the_registry_has_a_row() {
        let files = generate().unwrap();
        let page = &files[PAGE];
        for row in [
            "| `unsealable` | The authentication",
            "| `clock_skew` | 400 |",
            "| `CRYPTO_ERROR` | 400 |",
            "| `record_missing` | record |",
            "| `unreachable` | No connection",
        ] {
            assert!(page.contains(row), "{row}");
        }
        for language in LANGUAGES {
            let table = &files[language.path];
            for code in ["unsealable", "CRYPTO_ERROR", "suite_required", "unreachable"] {
                assert!(table.contains(code), "{}: {code}", language.path);
            }
            assert!(!table.contains("CODE") && !table.contains("REMEDY:"), "{}", language.path);
        }
    }

    #[test]
    fn each_code_has_a_page_with_cause_answer_and_remedy() {
        let pages = site().unwrap();
        assert!(pages[PAGE].contains("| [`CRYPTO_ERROR`](../../errors/crypto_error.md) | 400 |"));
        let both = &pages["errors/session_expired.md"];
        assert!(both.starts_with("# `SESSION_EXPIRED`, `session_expired`\n"), "{both}");
        assert!(both.contains("[`session_unknown`](session_unknown.md)"), "{both}");
        let codes = registry().unwrap();
        for part in
            ["errors", "public", "problems", "client_errors", "channel_errors", "channel_client_errors", "rpc_errors"]
        {
            for (code, entry) in table(&codes, part).unwrap() {
                let page = &pages[&path(code)];
                for member in ["meaning", "title", "remedy"].iter().filter_map(|member| entry.get(*member)) {
                    assert!(page.contains(&member.as_str().unwrap().replace('|', "\\|")), "{code}: {member}");
                }
            }
        }
    }

    #[test]
    fn a_missing_member_is_named() {
        let entry: Value = "meaning = 'a'".parse::<Table>().unwrap().into();
        assert_eq!(
            cell(&entry, "replayed", "remedy").unwrap_err().to_string(),
            "spec/registry.toml: replayed has no `remedy`"
        );
    }
}
