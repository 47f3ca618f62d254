//! The tables of `docs/reference/sdks.md` that compare options and errors of the five SDKs, generated from `sdk/alike.toml`. Its
//! names are compared with the sources of the SDKs, both ways.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, ensure};
use toml::{Table, Value};

use crate::shell;

const PAGE: &str = "docs/reference/sdks.md";
const SOURCE: &str = "sdk/alike.toml";

/// Lines of the page between which the generated text stands.
const MARKS: [&str; 2] =
    ["<!-- Generated from sdk/alike.toml by `cargo xtask codegen`. -->", "<!-- End of the generated part. -->"];

/// One SDK: its places in the sources.
struct Sdk {
    /// Member in the table, and the column's title.
    key: &'static str,
    title: &'static str,
    /// File with the client's options, and the lines before the first and behind the last of them.
    options: (&'static str, &'static str, &'static str),
    /// Text before an option's name, and the characters of which one follows it.
    option: (&'static str, &'static [char]),
    /// Options that are no settings of a client, such as hooks of the language's own.
    own: &'static [&'static str],
    /// File that declares the members of an error.
    errors: &'static str,
}

const SDKS: [Sdk; 5] = [
    Sdk {
        key: "typescript",
        title: "TypeScript",
        options: ("sdk/typescript/src/client/options.ts", "export interface ClientOptions {", "}"),
        option: ("  readonly ", &['?', ':']),
        own: &["onSession"],
        errors: "sdk/typescript/src/wire/error.ts",
    },
    Sdk {
        key: "go",
        title: "Go",
        options: ("sdk/go/transport.go", "type Config struct {", "}"),
        option: ("\t", &[' ']),
        own: &[],
        errors: "sdk/go/errors.go",
    },
    Sdk {
        key: "java",
        title: "Java",
        options: (
            "sdk/java/sealway-client/src/main/java/dev/sealway/client/SealwayClient.java",
            "    public static final class Builder {",
            "    }",
        ),
        option: ("        public Builder ", &['(']),
        own: &[],
        errors: "sdk/java/sealway-session/src/main/java/dev/sealway/wire/SealwayException.java",
    },
    Sdk {
        key: "python",
        title: "Python",
        options: ("sdk/python/src/sealway/client/options.py", "class Options:", "    def __post_init__(self) -> None:"),
        option: ("    ", &[':']),
        own: &["window_ms"],
        errors: "sdk/python/src/sealway/errors.py",
    },
    Sdk {
        key: "rust",
        title: "Rust",
        options: ("crates/client/src/call/builder.rs", "impl Builder {", "impl std::fmt::Debug for Builder {"),
        option: ("", &[':', '<', '(']),
        own: &["key_log"],
        errors: "crates/client/src/error.rs",
    },
];

/// Generates the page, and returns it with its path.
///
/// # Errors
/// A name stands in the table and not in the sources of its SDK, or the other way.
pub(crate) fn generate() -> anyhow::Result<(String, String)> {
    let read = |path: &str| std::fs::read_to_string(shell::root().join(path)).with_context(|| path.to_owned());
    let table: Table = read(SOURCE)?.parse().context(SOURCE)?;
    let rows = |name: &str| {
        let rows = table.get(name).and_then(Value::as_array);
        rows.with_context(|| format!("{SOURCE} has no [[{name}]]"))
    };
    let (options, errors) = (rows("options")?, rows("errors")?);
    for sdk in &SDKS {
        compare(sdk, &read(sdk.options.0)?, options)?;
        let text = read(sdk.errors)?;
        for member in errors.iter().filter_map(|row| name(row, sdk)) {
            let word = member.trim_end_matches(['(', ')']).trim_end_matches("(error");
            ensure!(text.contains(word), "{SOURCE}: {} has no `{member}`, which {} names", sdk.errors, sdk.key);
        }
    }
    let page = read(PAGE)?;
    let [before, behind] = MARKS.map(|mark| page.split_once(mark));
    let (Some((before, _)), Some((_, behind))) = (before, behind) else {
        anyhow::bail!("{PAGE} lacks the marks {MARKS:?}");
    };
    let text =
        [before, MARKS[0], "\n\n", &written(options, true)?, "\n", &written(errors, false)?, "\n", MARKS[1], behind];
    Ok((PAGE.to_owned(), text.concat()))
}

fn name<'a>(row: &'a Value, sdk: &Sdk) -> Option<&'a str> {
    row.get(sdk.key).and_then(Value::as_str)
}

/// Compares the options of a source with the table's.
fn compare(sdk: &Sdk, source: &str, rows: &[Value]) -> anyhow::Result<()> {
    let (path, first, last) = sdk.options;
    let from = source.split_once(&format!("{first}\n")).with_context(|| format!("{path} has no line `{first}`"))?.1;
    let part = from.split_once(&format!("\n{last}\n")).with_context(|| format!("{path} has no line `{last}`"))?.0;
    let declared: BTreeSet<&str> = part.lines().filter_map(|line| option(sdk, line)).collect();
    let mut listed: BTreeSet<&str> =
        rows.iter().filter_map(|row| name(row, sdk)).filter(|name| !name.starts_with('`')).collect();
    listed.extend(sdk.own);
    let unlisted: Vec<_> = declared.difference(&listed).collect();
    ensure!(unlisted.is_empty(), "{SOURCE} lacks {unlisted:?} of {path}");
    let missing: Vec<_> = listed.difference(&declared).collect();
    ensure!(missing.is_empty(), "{SOURCE} names {missing:?} for {}, which {path} does not have", sdk.key);
    Ok(())
}

/// Returns the option that a line declares.
fn option<'a>(sdk: &Sdk, line: &'a str) -> Option<&'a str> {
    let (before, after) = sdk.option;
    let rest = if sdk.key == "rust" { setter(line)? } else { line.strip_prefix(before)? };
    let (name, _) = rest.split_at(rest.find(after)?);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // Go exports what begins with a capital; a comment begins with a slash, and a nested line with a blank.
    (is_name && (sdk.key != "go" || name.starts_with(char::is_uppercase))).then_some(name)
}

/// Returns the rest of a line from the name of a setter: a method that takes the builder, or a row of the macro.
fn setter(line: &str) -> Option<&str> {
    let method = line.strip_prefix("    pub fn ").filter(|rest| rest.contains("(mut self"));
    let row = || line.strip_prefix("    ").filter(|rest| rest.contains(" => ") && rest.ends_with(';'));
    method.filter(|rest| !rest.starts_with('$')).or_else(row)
}

/// Writes the rows as a table.
fn written(rows: &[Value], has_default: bool) -> anyhow::Result<String> {
    let titles: Vec<&str> = SDKS.iter().map(|sdk| sdk.title).collect();
    let default = if has_default { " default |" } else { "" };
    let mut text = format!(
        "| | {} |{default}\n| --- |{}\n",
        titles.join(" | "),
        " --- |".repeat(titles.len() + usize::from(has_default))
    );
    for row in rows {
        let member = |key: &str| row.get(key).and_then(Value::as_str);
        let about = member("about").with_context(|| format!("{SOURCE}: a row without `about`: {row}"))?;
        let lacks = || member("lacks").with_context(|| format!("{SOURCE}: \"{about}\" has no `lacks`"));
        let _ = write!(text, "| {about} |");
        for sdk in &SDKS {
            let cell = match name(row, sdk) {
                Some(name) if name.starts_with('`') => name.to_owned(),
                Some(name) => format!("`{name}`"),
                None => format!("– ({})", lacks()?),
            };
            let _ = write!(text, " {cell} |");
        }
        if has_default {
            let default = member("default").with_context(|| format!("{SOURCE}: \"{about}\" has no `default`"))?;
            let _ = write!(text, " {default} |");
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO: &str = "type Config struct {\n\t// Trust names keys.\n\tTrust Trust\n\tTTL time.Duration\n}\n";

    fn rows(names: &[&str]) -> Vec<Value> {
        names.iter().map(|name| Value::Table([("go".to_owned(), Value::from(*name))].into_iter().collect())).collect()
    }

    #[test]
    fn an_option_that_only_one_side_has_is_named() {
        assert!(compare(&SDKS[1], GO, &rows(&["Trust", "TTL", "`NewTransport(url)`"])).is_ok());
        let lacks = compare(&SDKS[1], GO, &rows(&["Trust"])).unwrap_err().to_string();
        assert_eq!(lacks, "sdk/alike.toml lacks [\"TTL\"] of sdk/go/transport.go");
        let extra = compare(&SDKS[1], GO, &rows(&["Trust", "TTL", "Life"])).unwrap_err().to_string();
        assert_eq!(extra, "sdk/alike.toml names [\"Life\"] for go, which sdk/go/transport.go does not have");
    }

    #[test]
    fn setters_of_a_builder_are_its_options() {
        let lines = [
            "    trust: Trust => trust;",
            "    pub fn authorization<F>(mut self, f: F) -> Self",
            "    pub fn build(self) -> X {",
        ];
        let names: Vec<_> = lines.iter().filter_map(|line| option(&SDKS[4], line)).collect();
        assert_eq!(names, ["trust", "authorization"]);
    }
}
