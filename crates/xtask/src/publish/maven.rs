//! Artefacts of Maven: deployed to a folder, signed by a key made for it, and resolved from there by an empty repository.

use std::path::Path;

use anyhow::{Context, ensure};

use super::{folder, is_copy, show, unpack};
use crate::release::Workspace;
use crate::shell;

/// The artefacts, without the parent.
const ARTEFACTS: [&str; 6] =
    ["sealway-session", "sealway-client", "sealway-server", "sealway-servlet", "sealway-webflux", "sealway-redis"];
const HELP: &str = "org.apache.maven.plugins:maven-help-plugin:3.5.1";
const DEPENDENCY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.11.0";

pub(super) fn run() -> anyhow::Result<()> {
    let workspace = Workspace::read()?;
    let to = folder("maven")?;
    let staging = to.join("staging");
    // The path of gpg's sockets must be short.
    let keys = std::env::temp_dir().join(format!("sealway-gpg-{}", std::process::id()));
    shell::run(shell::command("install").args(["-d", "-m", "700"]).arg(&keys))?;
    let done = deploy(&staging, &keys, &workspace);
    let _ = shell::command("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", &keys).status();
    std::fs::remove_dir_all(&keys)?;
    done?;

    let poms = to.join("effective.xml");
    let mut maven = maven(&["-q", &format!("{HELP}:effective-pom")]);
    shell::run(maven.arg(format!("-Doutput={}", poms.display())))?;
    check(&std::fs::read_to_string(poms)?, &workspace)?;
    resolve(&to, &staging, &workspace)
}

/// Creates a Maven command that runs in batches, without a line for each download.
fn maven(arguments: &[&str]) -> std::process::Command {
    let mut command = shell::command(shell::root().join("sdk/java/maven"));
    command.args(["-B", "-ntp"]).args(arguments);
    command
}

/// Deploys to `staging`, with signatures by a new key in `keys`, and checks each file of it.
fn deploy(staging: &Path, keys: &Path, workspace: &Workspace) -> anyhow::Result<()> {
    let gpg = || {
        let mut gpg = shell::command("gpg");
        gpg.args(["--batch", "--quiet"]).env("GNUPGHOME", keys);
        gpg
    };
    shell::run(gpg().args([
        "--passphrase",
        "",
        "--quick-generate-key",
        "a key of this run",
        "ed25519",
        "sign",
        "never",
    ]))?;
    let mut maven = maven(&["-q", "-Prelease", "-DskipTests", "-pl", "!conformance,!examples", "deploy"]);
    maven.arg(format!("-DaltDeploymentRepository=staging::file://{}", staging.display())).env("GNUPGHOME", keys);
    shell::run(&mut maven)?;

    let group = staging.join("dev/sealway");
    let mut found: Vec<_> =
        std::fs::read_dir(&group)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
    found.sort();
    let mut expected: Vec<_> =
        ARTEFACTS.iter().chain(["sealway-parent"].iter()).map(std::ffi::OsString::from).collect();
    expected.sort();
    ensure!(found == expected, "deployed: {found:?}; expected: {expected:?}");
    for name in found.iter().filter_map(|name| name.to_str()) {
        let stem = group.join(name).join(&workspace.version).join(format!("{name}-{}", workspace.version));
        let kinds: &[&str] =
            if name == "sealway-parent" { &[".pom"] } else { &[".pom", ".jar", "-sources.jar", "-javadoc.jar"] };
        for kind in kinds {
            let file = format!("{}{kind}", stem.display());
            shell::run(gpg().args(["--verify", &format!("{file}.asc"), &file]).stderr(std::process::Stdio::null()))
                .with_context(|| format!("{name}{kind} has no valid signature"))?;
            show(Path::new(&file))?;
            match *kind {
                ".jar" | "-sources.jar" => is_copy(&unpack(Path::new(&file))?.join("META-INF/LICENSE"), "LICENSE")?,
                "-javadoc.jar" => {
                    let index = unpack(Path::new(&file))?.join("index.html");
                    ensure!(index.is_file(), "{name}-javadoc.jar has no index.html");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Checks the effective POMs: what a repository demands of each, with nothing appended to inherited URLs.
fn check(poms: &str, workspace: &Workspace) -> anyhow::Result<()> {
    let repository = &workspace.repository;
    for artefact in ARTEFACTS {
        let (_, pom) = poms
            .split_once(&format!("Effective POM for project 'dev.sealway:{artefact}:jar:{}'", workspace.version))
            .with_context(|| format!("no effective POM of {artefact} {}", workspace.version))?;
        let pom = pom.split_once("</project>").map_or(pom, |(pom, _)| pom);
        for expected in [
            "\n    <name>".to_owned(),
            "\n    <description>".to_owned(),
            format!("\n    <url>{repository}</url>"),
            "<name>Apache-2.0</name>".to_owned(),
            "<developer>".to_owned(),
            format!("<connection>scm:git:{repository}.git</connection>"),
            format!("\n      <url>{repository}</url>"),
        ] {
            ensure!(pom.contains(&expected), "the POM of {artefact} has no `{}`", expected.trim());
        }
    }
    Ok(())
}

/// Resolves the artefacts with all that they need, as a build that has never seen them.
fn resolve(to: &Path, staging: &Path, workspace: &Workspace) -> anyhow::Result<()> {
    for artefact in ARTEFACTS {
        let mut maven = maven(&["-q", &format!("{DEPENDENCY}:get")]);
        maven.arg(format!("-Dmaven.repo.local={}", to.join("repository").display()));
        maven.arg(format!("-DremoteRepositories=staging::default::file://{}", staging.display()));
        maven.arg(format!("-Dartifact=dev.sealway:{artefact}:{}", workspace.version));
        shell::run(&mut maven)?;
    }
    Ok(())
}
