//! The table of `docs/reference/broker-standards.md`, generated from the table that the broker compiles in.

use std::fmt::Write as _;

use anyhow::{Context, ensure};

use crate::shell;

const PAGE: &str = "docs/reference/broker-standards.md";
const SOURCE: &str = "crates/broker/src/profile/standards.txt";

/// Lines of the page between which the generated text stands.
const MARKS: [&str; 2] = [
    "<!-- Generated from crates/broker/src/profile/standards.txt by `cargo xtask codegen`. -->",
    "<!-- End of the generated part. -->",
];

/// Returns the page by its path from the root, with the table of the source.
pub(crate) fn generate() -> anyhow::Result<(String, String)> {
    let read =
        |path: &str| std::fs::read_to_string(shell::root().join(path)).with_context(|| format!("cannot read {path}"));
    let (page, table) = (read(PAGE)?, tables(&read(SOURCE)?)?);
    let missing = || format!("{PAGE} has not the lines around its generated part");
    let (head, rest) = page.split_once(MARKS[0]).with_context(missing)?;
    let (_, tail) = rest.split_once(MARKS[1]).with_context(missing)?;
    Ok((PAGE.to_owned(), format!("{head}{}\n{table}\n{}{tail}", MARKS[0], MARKS[1])))
}

/// Formats a table for each standard.
fn tables(source: &str) -> anyhow::Result<String> {
    let (mut text, mut standard) = (String::new(), "");
    for line in source.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.splitn(5, " | ").collect();
        let [of, operations, algorithms, verdict, reason] = fields[..] else {
            anyhow::bail!("{SOURCE}: expected five columns: {line}");
        };
        if of != standard {
            standard = of;
            write!(text, "\n## {of}\n\n| operation | algorithms | allowed | source |\n| --- | --- | --- | --- |\n")?;
        }
        let allowed = match verdict {
            "unsure" => "not allowed here: unsure",
            other => other,
        };
        let [operations, algorithms] = [operations, algorithms]
            .map(|names| names.split(' ').map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "));
        writeln!(text, "| {operations} | {algorithms} | {allowed} | {reason} |")?;
    }
    ensure!(!text.is_empty(), "{SOURCE} has no rows");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_standard_has_a_table_and_a_row_without_its_columns_is_an_error() {
        let text = tables("# note\n\na | HashData | x y | yes | S, 2026\nb | Mac | z | unsure | T\n").unwrap();
        assert!(
            text.contains("## a\n\n| operation") && text.contains("| `HashData` | `x`, `y` | yes | S, 2026 |\n"),
            "{text}"
        );
        assert!(text.contains("## b\n") && text.contains("| `Mac` | `z` | not allowed here: unsure | T |\n"), "{text}");
        assert!(tables("a | HashData | x\n").is_err());
    }
}
