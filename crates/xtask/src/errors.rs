//! Explanations of errors, generated from `spec/registry.toml`: `docs/reference/errors.md` has each error code with its cause, the
//! answer to the client and the remedy, and each SDK a table of the remedies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, ensure};
use toml::{Table, Value};

use crate::shell;

/// The path of the page from the root.
const PAGE: &str = "docs/reference/errors.md";

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
    let text = std::fs::read_to_string(shell::root().join("spec/registry.toml")).context("spec/registry.toml")?;
    let registry: Table = text.parse().context("spec/registry.toml")?;
    let remedies = remedies(&registry)?;
    let tables = LANGUAGES.iter().map(|language| (language.path.to_owned(), language.table(&remedies)));
    Ok(tables.chain([(PAGE.to_owned(), page(&registry)?)]).collect())
}

fn page(registry: &Table) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    public(&mut page, table(registry, "public")?)?;
    problems(&mut page, table(registry, "problems")?)?;
    sessions(&mut page, table(registry, "errors")?)?;
    let text = "Failures that an SDK names and no message on the wire has: the same codes in each language.";
    section(&mut page, "Clients of sessions", text, &["code", "cause", "what to do"]);
    meanings(&mut page, table(registry, "client_errors")?)?;
    staged(&mut page, "Channels", table(registry, "channel_errors")?)?;
    staged(&mut page, "Clients of channels", table(registry, "channel_client_errors")?)?;
    section(&mut page, "Remote calls", "Codes of a call without a response.", &["code", "cause", "what to do"]);
    meanings(&mut page, table(registry, "rpc_errors")?)?;
    Ok(format!("{}\n", page.trim_end()))
}

/// Returns the remedy of each code that a client of sessions can meet. If several sections have a code, the text of the answer
/// that the client receives counts.
fn remedies(registry: &Table) -> anyhow::Result<BTreeMap<&str, &str>> {
    let mut remedies = BTreeMap::new();
    for section in ["errors", "public", "problems", "client_errors"] {
        for (code, entry) in table(registry, section)? {
            let remedy = entry.get("remedy").and_then(Value::as_str);
            let remedy = remedy.with_context(|| format!("spec/registry.toml: {section}.{code} has no `remedy`"))?;
            ensure!(
                !remedy.contains(['"', '\\']),
                "spec/registry.toml: {section}.{code}: `remedy` has a quote or a backslash"
            );
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
    registry.get(name).and_then(Value::as_table).with_context(|| format!("spec/registry.toml has no [{name}]"))
}

/// Returns a member of an entry, for a cell of a table.
fn cell(entry: &Value, code: &str, member: &str) -> anyhow::Result<String> {
    let text = entry.get(member).and_then(Value::as_str);
    Ok(text.with_context(|| format!("spec/registry.toml: {code} has no `{member}`"))?.replace('|', "\\|"))
}

fn section(page: &mut String, title: &str, text: &str, columns: &[&str]) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "## {title}\n\n{text}\n\n| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()));
}

fn row(page: &mut String, cells: &[String]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn public(page: &mut String, entries: &Table) -> anyhow::Result<()> {
    let text =
        "The member `error` of the JSON body, for the protocols v1 and v2 and for every path that is not sealed.";
    section(page, "Public errors", text, &["error", "status", "cause", "what to do"]);
    for (code, entry) in entries {
        let statuses = entry.get("statuses").and_then(Value::as_array).context("statuses")?;
        let statuses: Vec<String> = statuses.iter().map(Value::to_string).collect();
        let cells =
            [format!("`{code}`"), statuses.join(", "), cell(entry, code, "meaning")?, cell(entry, code, "remedy")?];
        row(page, &cells);
    }
    page.push('\n');
    Ok(())
}

fn problems(page: &mut String, entries: &Table) -> anyhow::Result<()> {
    let text = "The native protocol answers with `application/problem+json` (RFC 9457), whose `type` is \
                `urn:sealway:problem:` and the name.";
    section(page, "Problems", text, &["problem", "status", "title", "what to do"]);
    for (code, entry) in entries {
        let status = entry.get("status").map(Value::to_string).with_context(|| format!("{code}: status"))?;
        row(page, &[format!("`{code}`"), status, cell(entry, code, "title")?, cell(entry, code, "remedy")?]);
    }
    page.push('\n');
    Ok(())
}

fn sessions(page: &mut String, entries: &Table) -> anyhow::Result<()> {
    let text = "Codes of sealed sessions, in logs, metrics and the errors of SDKs. A code without an answer is found by a client.";
    section(page, "Sealed sessions", text, &["code", "cause", "blame", "the client receives", "what to do"]);
    for (code, entry) in entries {
        let mut received = Vec::new();
        for (place, name) in PLACES {
            if let Some(answer) = entry.get(place) {
                let status = answer.get("status").map(Value::to_string).with_context(|| format!("{code}.{place}"))?;
                received.push(format!("{name}: {status} `{}`", cell(answer, code, "error")?));
            }
        }
        let cells = [
            format!("`{code}`"),
            cell(entry, code, "meaning")?,
            cell(entry, code, "blame")?,
            received.join("; "),
            cell(entry, code, "remedy")?,
        ];
        row(page, &cells);
    }
    page.push('\n');
    Ok(())
}

fn staged(page: &mut String, title: &str, entries: &Table) -> anyhow::Result<()> {
    let text = "The peer sees only that the connection closes. `stage` is how far the channel had come when it failed.";
    section(page, title, text, &["code", "stage", "cause", "blame", "what to do"]);
    for (code, entry) in entries {
        let cells = [
            format!("`{code}`"),
            cell(entry, code, "stage")?,
            cell(entry, code, "meaning")?,
            cell(entry, code, "blame")?,
            cell(entry, code, "remedy")?,
        ];
        row(page, &cells);
    }
    page.push('\n');
    Ok(())
}

fn meanings(page: &mut String, entries: &Table) -> anyhow::Result<()> {
    for (code, entry) in entries {
        row(page, &[format!("`{code}`"), cell(entry, code, "meaning")?, cell(entry, code, "remedy")?]);
    }
    page.push('\n');
    Ok(())
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
    fn a_missing_member_is_named() {
        let entry: Value = "meaning = 'a'".parse::<Table>().unwrap().into();
        assert_eq!(
            cell(&entry, "replayed", "remedy").unwrap_err().to_string(),
            "spec/registry.toml: replayed has no `remedy`"
        );
    }
}
