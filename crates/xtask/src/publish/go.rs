//! Go's modules: their `go-import` pages, and each module fetched by the go command over those pages, then used by a program
//! that has nothing but the proxy which that made.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::{folder, is_copy, show, unpack};
use crate::release::Workspace;
use crate::sdk::GO_MODULES;
use crate::shell;

/// The path of the first module; the others are below it as their folders are.
const MODULE: &str = "sealway.dev/go";
const FOLDER: &str = "sdk/go";

pub(super) fn run() -> anyhow::Result<()> {
    let workspace = Workspace::read()?;
    let to = folder("go")?;
    let mut status = shell::command("git");
    let changed = shell::output(status.args(["status", "--porcelain", "--", FOLDER, "LICENSE"]))?;
    ensure!(
        changed.is_empty(),
        "{FOLDER} differs from the last commit, and Go's packages are made of commits:\n{changed}"
    );

    let pages = pages(&workspace)?;
    for (path, page) in &pages {
        let folder = to.join("pages").join(path);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("index.html"), page)?;
    }
    println!("{} pages in {}", pages.len(), to.join("pages").display());
    fetch(&to, pages, &workspace)?;
    GO_MODULES.iter().try_for_each(|module| use_it(&to, &path(MODULE, module), &workspace))
}

fn path(start: &str, module: &str) -> String {
    if module.is_empty() { start.to_owned() } else { format!("{start}/{module}") }
}

/// Returns the page of each package that a program may import, by its import path. Each module is the root of its own pages: of
/// a root with a subfolder the go command does not find the tags of modules below it.
fn pages(workspace: &Workspace) -> anyhow::Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    for module in GO_MODULES {
        let (root, folder) = (path(MODULE, module), path(FOLDER, module));
        let mut list = shell::command("go");
        let packages = shell::output(list.args(["list", "./..."]).current_dir(shell::root().join(&folder)))?;
        let repository = &workspace.repository;
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{root}</title>\n\
             <meta name=\"go-import\" content=\"{root} git {repository} {folder}\">\n\
             <p>Module <code>{root}</code>: <a href=\"https://pkg.go.dev/{root}\">documentation</a>, \
             <a href=\"{repository}/tree/main/{folder}\">source</a>.</p>\n</html>\n"
        );
        let public = packages.lines().filter(|package| !package.split('/').any(|part| part == "internal"));
        pages.extend(public.chain([root.as_str()]).map(|package| (package.to_owned(), page.clone())));
    }
    Ok(pages)
}

/// Fetches the modules by the go command: it asks a server of this process for the pages, and git for the commit, which comes
/// from this clone under the tags of a release. Its cache becomes the proxy `cache/cache/download`.
fn fetch(to: &Path, pages: BTreeMap<String, String>, workspace: &Workspace) -> anyhow::Result<()> {
    let version = format!("v{}", workspace.version);
    let repository = to.join("repository.git");
    shell::run(shell::command("git").args(["clone", "--quiet", "--bare", "--shared", "."]).arg(&repository))?;
    for module in GO_MODULES {
        let tag = format!("{}/{version}", path(FOLDER, module));
        shell::run(shell::command("git").arg("-C").arg(&repository).args(["tag", "--force", &tag, "HEAD"]))?;
    }
    let server = TcpListener::bind("127.0.0.1:0")?;
    let proxy = format!("http://{}", server.local_addr()?);
    std::thread::spawn(move || {
        for connection in server.incoming().flatten() {
            // A connection that breaks is the go command's to report.
            let _ = answer(&connection, &pages);
        }
    });
    let mut go = go(to, "fetch")?;
    go.args(["mod", "download", "-json"]);
    go.args(GO_MODULES.map(|module| format!("{}@{version}", path(MODULE, module))));
    go.env("GOPROXY", "direct").env("GOINSECURE", MODULE).env("HTTP_PROXY", &proxy).env("HTTPS_PROXY", &proxy);
    go.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_VALUE_0", &workspace.repository);
    go.env("GIT_CONFIG_KEY_0", format!("url.file://{}.insteadOf", repository.display()));
    shell::output(&mut go)?;
    for module in GO_MODULES {
        let archive = to.join("cache/cache/download").join(path(MODULE, module)).join(format!("@v/{version}.zip"));
        print!("{} ", path(MODULE, module));
        show(&archive)?;
        let unpacked = unpack(&archive)?.join(format!("{}@{version}", path(MODULE, module)));
        is_copy(&unpacked.join("LICENSE"), "LICENSE")?;
        is_copy(&unpacked.join("go.mod"), &format!("{}/go.mod", path(FOLDER, module)))?;
    }
    Ok(())
}

/// Answers one request of the go command to its proxy: a page, or the refusal of a tunnel, after which it asks without TLS.
fn answer(connection: &TcpStream, pages: &BTreeMap<String, String>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = request.split_whitespace();
    let url = (words.next() == Some("GET")).then(|| words.next()).flatten();
    let path = url.and_then(|url| url.strip_prefix("http://")?.strip_suffix("?go-get=1"));
    let (status, body) = match path.and_then(|path| pages.get(path)) {
        Some(page) => ("200 OK", page.as_str()),
        None => ("404 Not Found", ""),
    };
    let length = body.len();
    let mut connection = connection;
    write!(connection, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// Creates a go command in a new folder, with the module cache of this run.
fn go(to: &Path, name: &str) -> anyhow::Result<Command> {
    let folder = to.join(name);
    std::fs::create_dir_all(&folder)?;
    let mut go = shell::command("go");
    go.current_dir(folder).env("GOFLAGS", "-modcacherw").env("GONOSUMDB", MODULE).env("GOMODCACHE", to.join("cache"));
    Ok(go)
}

/// Builds a program in an empty folder that imports all packages of the module, from the proxy of [`fetch`].
fn use_it(to: &Path, module: &str, workspace: &Workspace) -> anyhow::Result<()> {
    let upstream = shell::output(shell::command("go").args(["env", "GOPROXY"]))?;
    let proxy = format!("file://{},{}", to.join("cache/cache/download").display(), upstream.trim());
    let name = format!("use-{}", module.rsplit('/').next().context("a module without a name")?);
    let run = |arguments: &[&str]| {
        let mut go = go(to, &name)?;
        go.args(arguments).env("GOPROXY", &proxy).env("GOMODCACHE", to.join("modules"));
        shell::output(&mut go).with_context(|| format!("{module} from the proxy"))
    };
    run(&["mod", "init", "example"])?;
    run(&["get", &format!("{module}@v{}", workspace.version)])?;
    run(&["build", &format!("{module}/...")])?;
    let needed = run(&["list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all"])?;
    let others: Vec<_> = needed.lines().filter(|line| !line.is_empty() && !line.starts_with(MODULE)).collect();
    ensure!(module != MODULE || others.is_empty(), "{MODULE} shall need no other module, and needs {others:?}");
    println!("{module}: builds from the proxy; {} modules of others", others.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_has_the_page_of_its_own_module() {
        let workspace = Workspace::read().unwrap();
        let pages = pages(&workspace).unwrap();
        for (package, root, folder) in [
            ("sealway.dev/go", "sealway.dev/go", "sdk/go"),
            ("sealway.dev/go/session", "sealway.dev/go", "sdk/go"),
            ("sealway.dev/go/channel/rpc", "sealway.dev/go/channel", "sdk/go/channel"),
        ] {
            let expected = format!("content=\"{root} git {} {folder}\"", workspace.repository);
            assert!(pages[package].contains(&expected), "{package}: {}", pages[package]);
        }
        assert!(pages.keys().all(|package| !package.contains("internal")));
    }
}
