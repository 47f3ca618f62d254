//! `cargo xtask dist`: what a release has beside the packages of [`crate::publish`], in `target/dist`: static binaries as
//! archives and Debian packages, lists of their parts, a statement of their origin, and the sums that an owner signs.

mod binary;
mod provenance;
mod sbom;
mod signature;
mod third_party;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::release::{self, Workspace};
use crate::shell;
use crate::steps::Steps;

/// Targets, with the names of their processors in archives and in Debian.
const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        module: "x86_64-unknown-linux-gnu",
        processor: "x86_64",
        debian: "amd64",
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        module: "aarch64-unknown-linux-gnu",
        processor: "aarch64",
        debian: "arm64",
    },
];

struct Target {
    /// Target of the static binary.
    triple: &'static str,
    /// Target of the PKCS#11 module, which uses the C library of the program that loads it.
    module: &'static str,
    processor: &'static str,
    debian: &'static str,
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A processor to build for, x86_64 or aarch64; both by default
    #[arg(long = "processor", value_parser = TARGETS.map(|target| target.processor))]
    processors: Vec<String>,
    /// The profile of the build; only `dist` is for publication
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The builder that the provenance names, by a URL
    #[arg(long, value_name = "URL")]
    builder: Option<String>,
    /// Build twice, in two folders and environments, and compare the sums
    #[arg(long)]
    verify: bool,
}

impl Arguments {
    fn targets(&self) -> Vec<&'static Target> {
        let is_wanted =
            |target: &&Target| self.processors.is_empty() || self.processors.iter().any(|one| one == target.processor);
        TARGETS.iter().filter(is_wanted).collect()
    }
}

/// Facts that all files of a release share.
struct Release {
    workspace: Workspace,
    commit: String,
    /// Time of the commit, in seconds, and as RFC 3339 has it: the only time in any file.
    epoch: String,
    time: String,
    /// Folder that receives the release's files.
    folder: PathBuf,
}

impl Release {
    fn read() -> anyhow::Result<Self> {
        let git = |arguments: &[&str]| shell::output(shell::command("git").args(arguments).env("TZ", "UTC"));
        let changed = git(&["status", "--porcelain"])?;
        ensure!(changed.is_empty(), "a release is made of a commit: commit or remove these files first:\n{changed}");
        let field = |format: &str| {
            let date = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
            git(&["log", "-1", date, &format!("--format={format}")]).map(|text| text.trim().to_owned())
        };
        let folder = shell::target_dir().join("dist");
        Ok(Self {
            workspace: Workspace::read()?,
            commit: field("%H")?,
            epoch: field("%ct")?,
            time: field("%cd")?,
            folder,
        })
    }

    /// Returns the start of the names of a target's files.
    fn stem(&self, target: &Target) -> String {
        format!("sealway-{}-{}-linux", self.workspace.version, target.processor)
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.step("setup", || shell::run(&mut shell::command("scripts/setup-release.sh")));
    if arguments.verify {
        steps.step("two builds", || build_twice(arguments));
    } else {
        steps.step("build", || build(arguments));
    }
    steps.step("signature", signature::rehearse);
    steps.finish()
}

/// Makes the files of all targets, and the sums.
fn build(arguments: &Arguments) -> anyhow::Result<()> {
    let release = Release::read()?;
    release::empty(&release.folder)?;
    let targets = arguments.targets();
    for target in &targets {
        let mut built = binary::build(target, &arguments.profile, &release)?;
        let module = binary::build_module(target, &arguments.profile, &release)?;
        // The lists of a target's files are of all its files.
        for (id, package) in module.linked {
            built.linked.entry(id).or_insert(package);
        }
        third_party::write(&built, &release.folder.join("THIRD-PARTY.txt"))?;
        let mut package = shell::command("scripts/package.sh");
        package.args([&built.file, &module.file]).args([
            target.processor,
            target.debian,
            &release.workspace.version,
            &release.epoch,
        ]);
        package.arg(binary::runner(target).unwrap_or_default());
        shell::run(package.arg(&release.folder))?;
        std::fs::remove_file(release.folder.join("THIRD-PARTY.txt"))?;
        sbom::write(&built, target, &release)?;
    }
    let files = release::files(&release.folder)?;
    provenance::write(&files, arguments, &release)?;
    let files = release::files(&release.folder)?;
    let sums: String =
        files.iter().map(|file| Ok(format!("{}  {}\n", sum(file)?, name(file)))).collect::<anyhow::Result<_>>()?;
    std::fs::write(release.folder.join("SHA256SUMS"), &sums)?;
    for file in &files {
        println!("{:>10} bytes  {}", std::fs::metadata(file)?.len(), name(file));
    }
    Ok(())
}

/// Builds in two clones of the commit, of which the second has a longer path, another time zone and another mask of
/// permissions, compares the sums, and keeps the files of the first.
fn build_twice(arguments: &Arguments) -> anyhow::Result<()> {
    let release = Release::read()?;
    let base = shell::target_dir().join("dist-verify");
    release::empty(&base)?;
    let mut sums = Vec::new();
    for (path, zone, mask) in [("one", "UTC", "022"), ("another/of/two", "Asia/Tokyo", "077")] {
        let clone = base.join(path);
        shell::run(shell::command("git").args(["clone", "--quiet", "--shared", "."]).arg(&clone))?;
        std::os::unix::fs::symlink(shell::root().join(".venv"), clone.join(".venv"))?;
        let mut job = shell::command("sh");
        job.current_dir(&clone)
            .args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", mask])
            .arg(std::env::current_exe()?);
        job.args(["dist", "--profile", &arguments.profile]);
        job.args(arguments.targets().iter().flat_map(|target| ["--processor", target.processor]));
        job.args(arguments.builder.iter().flat_map(|builder| ["--builder", builder]));
        job.env("CARGO_MANIFEST_DIR", clone.join("crates/xtask"))
            .env("CARGO_TARGET_DIR", clone.join("target"))
            .env("TZ", zone);
        shell::run(&mut job)?;
        sums.push(std::fs::read_to_string(clone.join("target/dist/SHA256SUMS"))?);
    }
    print!("{}", sums[0]);
    let differ: Vec<_> = sums[0].lines().filter(|line| !sums[1].lines().any(|other| other == *line)).collect();
    ensure!(sums[0] == sums[1], "the two builds differ in:\n{}", differ.join("\n"));
    println!("both builds of {} give these {} sums", release.commit, sums[0].lines().count());
    release::empty(&release.folder)?;
    release::files(&base.join("one/target/dist"))?
        .iter()
        .try_for_each(|file| std::fs::copy(file, release.folder.join(name(file))).map(|_| ()))
        .context("cannot copy the files of the first build")
}

/// Returns the SHA-256 of a file, in hexadecimal.
fn sum(file: &Path) -> anyhow::Result<String> {
    let line = shell::output(shell::command("sha256sum").arg("--binary").arg(file))?;
    line.get(..64).map(str::to_owned).context("sha256sum printed no sum")
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
