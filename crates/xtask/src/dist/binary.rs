//! A static binary and the PKCS#11 module: their builds, which nothing of the machine's paths reaches, and the packages that are
//! linked into them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{Release, Target};
use crate::shell;

/// Package that has the binary `sealway`.
const PACKAGE: &str = "sealway-cli";
/// Package of the PKCS#11 module, which programs load.
const MODULE: &str = "sealway-pkcs11-module";
/// Oldest version of the GNU C library with which the module works: that of Debian 12.
const GLIBC: (u32, u32) = (2, 36);
/// Libraries that the module may need: parts of the C library.
const LIBRARIES: [&str; 6] = ["libc.so", "libm.so", "libdl.so", "libpthread.so", "libgcc_s.so", "ld-linux"];

pub(super) struct Binary {
    pub(super) file: PathBuf,
    /// Linked packages by their identifiers, as `cargo metadata` describes them; `uses` has the identifiers of those below.
    pub(super) linked: BTreeMap<String, Value>,
}

/// Builds and checks the binary of a target.
pub(super) fn build(target: &Target, profile: &str, release: &Release) -> anyhow::Result<Binary> {
    let built = compile(PACKAGE, target.triple, target.triple, profile, release)?;
    check(&built.file, target, release)?;
    Ok(built)
}

/// Builds and checks the PKCS#11 module of a target.
pub(super) fn build_module(target: &Target, profile: &str, release: &Release) -> anyhow::Result<Binary> {
    let with_version = format!("{}.{}.{}", target.module, GLIBC.0, GLIBC.1);
    let built = compile(MODULE, target.module, &with_version, profile, release)?;
    check_module(&built.file)?;
    Ok(built)
}

/// Builds a package for a target, which `zig_target` names with the version of its C library.
fn compile(package: &str, triple: &str, zig_target: &str, profile: &str, release: &Release) -> anyhow::Result<Binary> {
    // A folder of its own: cargo's for the profile `dist` is the one of the release's files.
    let folder = shell::target_dir().join("dist-build");
    let tools = shell::root().join(".venv/release/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path)))?;
    let moves = moves(&folder)?;
    let options = |start: &str, between: &str| {
        moves.iter().map(|(from, to)| format!("{start}{}={to}", from.display())).collect::<Vec<_>>().join(between)
    };
    let mut cargo =
        shell::cargo(&["zigbuild", "--locked", "-p", package, "--profile", profile, "--target", zig_target]);
    cargo.args(["--message-format", "json-render-diagnostics"]).env("CARGO_TARGET_DIR", &folder).env("PATH", path);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", options("--remap-path-prefix=", "\x1f")).env("CARGO_INCREMENTAL", "0");
    cargo.env("CFLAGS", options("-ffile-prefix-map=", " ")).env("SOURCE_DATE_EPOCH", &release.epoch);
    let messages = shell::output(&mut cargo)?;

    let (file, linked) = artefacts(&messages, &folder.join(triple))?;
    names_no_folder(&file, &moves)?;
    let linked = describe(&linked, triple)?;
    let mut tree = shell::cargo(&["tree", "--locked", "-p", package, "--target", triple, "--prefix", "none"]);
    let tree = shell::output(tree.args(["--edges", "normal,no-proc-macro", "--format", "{p}"]))?;
    compare(&linked, &tree)?;
    println!("{package} for {triple}: {} bytes, {} packages linked", std::fs::metadata(&file)?.len(), linked.len());
    Ok(Binary { file, linked })
}

/// Returns the folders of this machine that a build may name, with the names that they get.
fn moves(folder: &Path) -> anyhow::Result<[(PathBuf, &'static str); 4]> {
    let home = PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?);
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let sysroot = shell::output(shell::command("rustc").args(["--print", "sysroot"]))?;
    // The last that fits counts: a target folder lies in the root.
    Ok([(shell::root(), "/sealway"), (cargo, "/cargo"), (sysroot.trim().into(), "/rust"), (folder.into(), "/target")])
}

/// Returns the binary or the shared library, and the packages whose code was compiled for the target, of cargo's messages.
fn artefacts(messages: &str, folder: &Path) -> anyhow::Result<(PathBuf, BTreeSet<String>)> {
    let (mut file, mut linked) = (None, BTreeSet::new());
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("cargo printed no JSON")?;
        let files = message["filenames"].as_array().map_or(&[][..], Vec::as_slice);
        let is_ours = files.iter().any(|file| file.as_str().is_some_and(|file| Path::new(file).starts_with(folder)));
        if is_ours {
            linked.extend(message["package_id"].as_str().map(str::to_owned));
            let library = || files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".so"));
            file = message["executable"].as_str().or_else(library).map(PathBuf::from).or(file);
        }
    }
    Ok((file.context("the build made no binary")?, linked))
}

/// Checks that the binary needs no library, and runs.
fn check(file: &Path, target: &Target, release: &Release) -> anyhow::Result<()> {
    let headers =
        shell::output(shell::command("readelf").args(["--wide", "--program-headers", "--dynamic"]).arg(file))?;
    for word in ["INTERP", "(NEEDED)"] {
        ensure!(!headers.contains(word), "{} is not static: readelf shows {word}", file.display());
    }
    let mut command = match runner(target) {
        Some(emulator) => shell::command(emulator),
        None => shell::command(file),
    };
    if runner(target).is_some() {
        command.arg(file);
    }
    let version = shell::output(command.arg("--version"))?;
    let expected = format!("sealway {}", release.workspace.version);
    ensure!(version.starts_with(&expected), "{} says {version:?}, not {expected}", file.display());
    Ok(())
}

/// Checks that the module needs no more than the C library of [`GLIBC`], and has the function by which programs find all others.
fn check_module(file: &Path) -> anyhow::Result<()> {
    let readelf = |words: &[&str]| shell::output(shell::command("readelf").arg("--wide").args(words).arg(file));
    let needed = readelf(&["--dynamic"])?;
    for line in needed.lines().filter(|line| line.contains("(NEEDED)")) {
        ensure!(LIBRARIES.iter().any(|library| line.contains(library)), "{} needs {line}", file.display());
    }
    let (major, minor) = newest_glibc(&readelf(&["--version-info"])?)?;
    ensure!((major, minor) <= GLIBC, "{} needs the C library of version {major}.{minor}", file.display());
    ensure!(readelf(&["--dyn-syms"])?.contains(" C_GetFunctionList"), "{} is no PKCS#11 module", file.display());
    Ok(())
}

/// Returns the newest version of the GNU C library that a list of `readelf --version-info` names.
fn newest_glibc(versions: &str) -> anyhow::Result<(u32, u32)> {
    let words = versions.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    let numbers = words.map(|word| {
        let mut parts = word.split('.').map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
            _ => bail!("GLIBC_{word} is no version"),
        }
    });
    let numbers: Vec<_> = numbers.collect::<anyhow::Result<_>>()?;
    numbers.into_iter().max().context("it names no version of the C library")
}

/// Checks that a file names no folder of this machine.
fn names_no_folder(file: &Path, moves: &[(PathBuf, &str)]) -> anyhow::Result<()> {
    let bytes = std::fs::read(file)?;
    for (folder, _) in moves {
        let folder = folder.to_str().context("a path that is not UTF-8")?;
        if let Some(at) = bytes.windows(folder.len()).position(|window| window == folder.as_bytes()) {
            let rest = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 200)]);
            bail!("{} names a folder of this machine: {}", file.display(), rest.split('\0').next().unwrap_or_default());
        }
    }
    Ok(())
}

/// Returns the emulator that runs binaries of another processor.
pub(super) fn runner(target: &Target) -> Option<String> {
    (target.processor != std::env::consts::ARCH).then(|| format!("qemu-{}", target.processor))
}

/// Returns the packages with these identifiers, each with the field `uses`.
fn describe(linked: &BTreeSet<String>, triple: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut cargo = shell::cargo(&["metadata", "--locked", "--format-version=1", "--filter-platform", triple]);
    let mut metadata: Value = serde_json::from_str(&shell::output(&mut cargo)?)?;
    let id = |value: &Value| value["id"].as_str().map(str::to_owned).filter(|id| linked.contains(id));
    let packages = metadata["packages"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut packages: BTreeMap<_, _> =
        packages.into_iter().filter_map(|package| Some((id(&package)?, package))).collect();
    ensure!(packages.len() == linked.len(), "cargo metadata does not know all packages of the build");
    for node in metadata["resolve"]["nodes"].as_array().context("cargo metadata resolves nothing")? {
        let is_normal = |dependency: &&Value| {
            dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let uses = node["deps"].as_array().map_or(&[][..], Vec::as_slice).iter().filter(is_normal);
        let uses: Vec<_> =
            uses.filter_map(|dependency| dependency["pkg"].as_str()).filter(|id| linked.contains(*id)).collect();
        if let Some(package) = id(node).and_then(|id| packages.get_mut(&id)) {
            package["uses"] = uses.into();
        }
    }
    Ok(packages)
}

/// Checks that the build and `cargo tree` agree on what is linked.
fn compare(linked: &BTreeMap<String, Value>, tree: &str) -> anyhow::Result<()> {
    let name = |package: &Value| {
        format!("{} v{}", package["name"].as_str().unwrap_or_default(), package["version"].as_str().unwrap_or_default())
    };
    let built: BTreeSet<String> = linked.values().map(name).collect();
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let tree: BTreeSet<String> = tree.lines().filter(|line| !line.is_empty()).map(words).collect();
    let alone = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
        one.difference(other).cloned().collect::<Vec<_>>().join(", ")
    };
    ensure!(
        built == tree,
        "the build and `cargo tree` differ on what is linked: [{}] only built, [{}] only in the tree",
        alone(&built, &tree),
        alone(&tree, &built)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_compiled_for_the_target_is_linked_and_nothing_else() {
        let message = |id: &str, file: &str, binary: Option<&str>| {
            json!({"reason": "compiler-artifact", "package_id": id, "filenames": [file], "executable": binary})
                .to_string()
        };
        let messages = [
            message("a#1", "/t/x/dist/deps/liba.rlib", None),
            message("macro#1", "/t/dist/deps/libmacro.so", None),
            message("sealway#1", "/t/x/dist/sealway", Some("/t/x/dist/sealway")),
            "{\"reason\":\"build-finished\"}".to_owned(),
        ];
        let (file, linked) = artefacts(&messages.join("\n"), Path::new("/t/x")).unwrap();
        assert_eq!((file.to_str(), linked.len()), (Some("/t/x/dist/sealway"), 2));
        assert!(artefacts(&messages[..2].join("\n"), Path::new("/t/x")).is_err());
        let library = message("module#1", "/t/x/dist/libmodule.so", None);
        let messages = [&messages[..2], &[library, messages[3].clone()]].concat();
        let (file, linked) = artefacts(&messages.join("\n"), Path::new("/t/x")).unwrap();
        assert_eq!((file.to_str(), linked.len()), (Some("/t/x/dist/libmodule.so"), 2));
    }

    #[test]
    fn the_newest_version_of_the_c_library_counts_by_its_numbers() {
        let list = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 3\n  0x0020:   Name: GLIBC_2.34  Flags: none\n GLIBC_2.2.5 (2)";
        assert_eq!(newest_glibc(list).unwrap(), (2, 34));
        assert!(newest_glibc("Name: GLIBC_PRIVATE").is_err() && newest_glibc("no versions").is_err());
    }

    #[test]
    fn a_package_that_only_one_side_lists_is_named() {
        let linked = [("a#1".to_owned(), json!({"name": "a", "version": "1.0.0"}))].into();
        compare(&linked, "a v1.0.0 (/path)\na v1.0.0 (/path) (*)\n").unwrap();
        let error = compare(&linked, "a v1.0.0\nb v2.0.0\n").unwrap_err().to_string();
        assert!(error.contains("[b v2.0.0] only in the tree"), "{error}");
        assert!(compare(&linked, "").unwrap_err().to_string().contains("[a v1.0.0] only built"));
    }
}
