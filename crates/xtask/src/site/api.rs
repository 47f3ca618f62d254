//! API documents of the SDKs, each by the tool of its language, without warnings. Go's are pages of the book: `go doc` writes text.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use crate::{sdk, shell, test};

/// The page that links the documents of all languages.
const INDEX: &str = "api/README.md";
const PYTHON: [&str; 4] = ["sealway", "sealway.server", "sealway.server.redis", "sealway.asgi"];
const JAVA: &str = ".,sealway-session,sealway-client,sealway-server,sealway-servlet,sealway-redis,sealway-webflux";
const JAVADOC: &str = "org.apache.maven.plugins:maven-javadoc-plugin:3.12.0:aggregate";

const HEAD: &str = "\
# API documents

What each SDK exports. [The SDKs](../docs/reference/sdks.md) compares them, and says how to install each.

* Rust: [sealway_client](rust/sealway_client/index.html), [sealway_tower](rust/sealway_tower/index.html)
* [TypeScript](typescript/index.html)
* [Java](java/index.html)
* [Python](python/index.html)
";

/// Returns the page of all languages, and a page for each package of Go that others may import.
///
/// # Errors
/// If `go doc` fails.
pub(super) fn pages() -> anyhow::Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    let mut names = Vec::new();
    for module in sdk::GO_MODULES {
        let go = |arguments: &[&str]| {
            let mut command = shell::command("go");
            shell::output(command.args(arguments).current_dir(shell::root().join("sdk/go").join(module)))
        };
        for package in go(&["list", "./..."])?.lines() {
            if ["cmd", "internal", "examples"].iter().any(|part| package.split('/').any(|name| name == *part)) {
                continue;
            }
            let name = package.strip_prefix("sealway.dev/").context("a package of another module")?;
            let text = go(&["doc", "-all", package])?;
            pages.insert(format!("api/{name}.md"), format!("# `{package}`\n\n~~~~go\n{}\n~~~~\n", text.trim_end()));
            names.push(format!("[{package}]({name}.md)"));
        }
    }
    pages.insert(INDEX.to_owned(), format!("{HEAD}* Go: {}\n", names.join(", ")));
    Ok(pages)
}

/// Builds the documents of the other languages into a folder.
///
/// # Errors
/// If a tool fails or warns.
pub(super) fn build(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).context("target/site/api")?;
    let root = shell::root();
    test::rustdoc()?;
    copy(&shell::target_dir().join("doc"), &folder.join("rust"))?;

    let tools = root.join("docs/site");
    shell::run(shell::command("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(&tools))?;
    let mut typedoc = shell::command(tools.join("node_modules/.bin/typedoc"));
    shell::run(typedoc.arg("--out").arg(folder.join("typescript")).current_dir(&tools))?;

    shell::run(&mut shell::command(root.join("sdk/python/setup")))?;
    let mut pdoc = shell::command(root.join("sdk/python/.venv/bin/python"));
    shell::run(pdoc.args(["-W", "error", "-m", "pdoc"]).args(PYTHON).arg("-o").arg(folder.join("python")))?;

    // What has no @param is no warning; links that lead nowhere and broken HTML are.
    let mut java = shell::command(root.join("sdk/java/maven"));
    java.args(["-B", "-ntp", "-q", "-DskipTests", "package", JAVADOC, "-pl", JAVA]);
    shell::run(java.args(["-Ddoclint=all,-missing", "-Dmaven.javadoc.failOnWarnings=true"]))?;
    copy(&root.join("sdk/java/target/reports/apidocs"), &folder.join("java"))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    shell::run(shell::command("cp").arg("-r").arg(from).arg(to))
}
