//! The SDKs as the jobs use them: the tests of each, and the way to start its programs. One row a language.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::steps::Steps;
use crate::{conformance, matrix, shell};

/// An SDK in one language.
pub(crate) struct Sdk {
    /// The name of the language.
    pub(crate) name: &'static str,
    /// Returns the command that runs its `driver`, `single`, `benchmark` or `server`, of a profile if there are several.
    words: fn(&str, &str) -> Vec<PathBuf>,
    profile: &'static str,
}

/// Returns all of them, the reference first. Rust's programs are of the profile `debug` or `release`.
pub(crate) fn all(profile: &'static str) -> Vec<Sdk> {
    vec![
        Sdk { name: "rust", words: |program, profile| vec![rust(program, profile)], profile },
        Sdk { name: "typescript", words: |program, _| vec!["node".into(), typescript(program)], profile },
        Sdk { name: "go", words: |program, _| vec![go(program)], profile },
        Sdk { name: "java", words: |program, _| vec![root("sdk/java/run"), program.into()], profile },
        Sdk { name: "python", words: |program, _| vec![root("sdk/python/.venv/bin/python"), python(program)], profile },
    ]
}

impl Sdk {
    /// Returns one of its programs, ready to start.
    ///
    /// # Errors
    /// If it was not built.
    pub(crate) fn program(&self, program: &str) -> anyhow::Result<Command> {
        let words = (self.words)(program, self.profile);
        for file in words.iter().filter(|word| word.is_absolute()) {
            let shown = file.strip_prefix(shell::root()).unwrap_or(file).display();
            ensure!(file.is_file(), "{shown} is missing: `cargo xtask sdk` builds and tests the SDKs");
        }
        let (first, others) = words.split_first().context("no command")?;
        let mut command = shell::command(first);
        command.args(others);
        Ok(command)
    }
}

fn root(path: &str) -> PathBuf {
    shell::root().join(path)
}

fn rust(program: &str, profile: &str) -> PathBuf {
    let built = shell::target_dir().join(profile);
    if program == "driver" { built.join("conformance-driver") } else { built.join("examples").join(program) }
}

fn typescript(program: &str) -> PathBuf {
    let file = if program == "driver" { "driver/main.js".to_owned() } else { format!("examples/{program}.js") };
    root("sdk/typescript/dist").join(file)
}

fn go(program: &str) -> PathBuf {
    shell::target_dir().join("sdk-go").join(program)
}

fn python(program: &str) -> PathBuf {
    let file = if program == "driver" { "driver.py".to_owned() } else { format!("examples/{program}.py") };
    root("sdk/python").join(file)
}

/// Arguments of `cargo xtask sdk`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run the tests of this SDK alone: typescript, go, java or python; or pages, those of the pages in a browser
    #[arg(long)]
    only: Option<String>,
}

/// Runs `cargo xtask sdk`: the steps of `make test` that belong to the SDKs, or the tests of one SDK.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(language) = &arguments.only {
        let suite = SUITES.iter().find(|(name, _)| name.trim_start_matches(PREFIX) == language);
        return suite.with_context(|| format!("--only {language}: no SDK with tests of its own has this name"))?.1();
    }
    let mut steps = Steps::default();
    steps.step("setup", || shell::run(&mut shell::command("scripts/setup-tests.sh")));
    steps.step("sdk: rust", build_rust);
    steps.step("sdk: python", test_python);
    add(&mut steps, Vec::new());
    steps.finish()
}

/// Adds the steps of `make test` that belong to the SDKs, but for Python's tests: each one's own, then all of them together, with
/// other commands beside these. Rust's programs are built.
pub(crate) fn add(steps: &mut Steps, beside: Vec<(&'static str, Command)>) {
    // Each waits half of its time, for timeouts and processes: two at a time fill the two cores. TypeScript's build serves the
    // pages, which build it again, and the packages.
    let typescript = Steps::start(vec![suite("sdk: typescript"), suite("pages")]);
    steps.step("sdk: java", test_java);
    steps.step("sdk: go", test_go);
    steps.join(typescript);
    steps.step("sdk: packages", test_packages);
    steps.beside(("conformance", || conformance::run(&conformance::Arguments::all())), beside);
    steps.step("matrix", || matrix::run(&matrix::Arguments::short()));
}

/// The name of a step, and the tests that it runs.
type Suite = (&'static str, fn() -> anyhow::Result<()>);

const SUITES: [Suite; 5] = [
    ("sdk: typescript", test_typescript),
    ("sdk: go", test_go),
    ("sdk: java", test_java),
    ("sdk: python", test_python),
    ("pages", test_pages),
];

/// The part of a step's name that `--only` leaves out.
const PREFIX: &str = "sdk: ";

/// Returns a step as a process of its own.
pub(crate) fn suite(name: &'static str) -> (&'static str, Command) {
    let mut command = shell::xtask();
    command.args(["sdk", "--only", name.trim_start_matches(PREFIX)]);
    (name, command)
}

/// Passes the path of the binary to SDKs' tests.
fn with_sealway(command: &mut Command) -> anyhow::Result<&mut Command> {
    let sealway = shell::target_dir().join("debug/sealway");
    ensure!(sealway.is_file(), "the SDKs' tests start `sealway`: run `cargo build -p sealway-cli`");
    Ok(command.env("SEALWAY_BIN", sealway))
}

/// Builds its programs; its tests are among the workspace's.
fn build_rust() -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&["build", "--workspace", "--bins", "--examples", "--locked"]))
}

fn test_typescript() -> anyhow::Result<()> {
    shell::run(with_sealway(shell::command("npm").arg("test").current_dir(root("sdk/typescript")))?)
}

fn test_go() -> anyhow::Result<()> {
    let go = |module: &str, arguments: &[&str]| -> anyhow::Result<()> {
        let mut command = shell::command("go");
        shell::run(with_sealway(command.args(arguments).current_dir(root("sdk/go").join(module)))?)
    };
    for (program, package) in GO_PROGRAMS {
        let output = self::go(program);
        go("", &["build", "-buildvcs=false", "-o", output.to_str().context("a path that is not UTF-8")?, package])?;
    }
    for module in GO_MODULES {
        go(module, &["vet", "./..."])?;
        // Goroutines share buffers and streams: without the race detector, overwritten bytes pass most runs.
        // `-count=1`: a result of an earlier run is none of this one.
        go(module, &["test", "-race", "-count=1", "./..."])?;
    }
    Ok(())
}

/// Runs the long form of Go's transfers over a channel: 2 GB each way in each profile, half a minute.
pub(crate) fn transfer_long() -> anyhow::Result<()> {
    let mut command = shell::command("go");
    command.args(["test", "-count=1", "-timeout=30m", "-run=TestALongTransfer", "."]);
    shell::run(command.current_dir(root("sdk/go/channel")).env("SEALWAY_FAULTS", "full"))
}

/// The folders of Go's modules below `sdk/go`, sessions first: who uses one downloads what that one requires.
pub(crate) const GO_MODULES: [&str; 5] = ["", "mldsa", "redisstore", "channel", "broker"];

const GO_PROGRAMS: [(&str, &str); 4] = [
    ("driver", "./cmd/conformance-driver"),
    ("single", "./examples/single"),
    ("benchmark", "./examples/benchmark"),
    ("server", "./examples/server"),
];

fn test_java() -> anyhow::Result<()> {
    let mut command = shell::command(root("sdk/java/maven"));
    shell::run(with_sealway(command.args(["-B", "-ntp", "verify"]).current_dir(root("sdk/java")))?)
}

fn test_python() -> anyhow::Result<()> {
    shell::run(with_sealway(&mut shell::command(root("sdk/python/test")))?)
}

/// Runs the examples of each README, in an empty folder, with the package as it is built. Go's are among its tests.
fn test_packages() -> anyhow::Result<()> {
    let mut npm = shell::command("npm");
    shell::run(with_sealway(npm.args(["run", "--silent", "test-package"]).current_dir(root("sdk/typescript")))?)?;
    for script in ["sdk/python/test-package", "sdk/java/test-package"] {
        shell::run(with_sealway(&mut shell::command(root(script)))?)?;
    }
    Ok(())
}

/// Tests the pages of `apps/` in a browser, with the SDK that [`add`] has built.
fn test_pages() -> anyhow::Result<()> {
    shell::run(with_sealway(&mut shell::command(root("apps/test")))?)
}
