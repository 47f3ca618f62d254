"""Go, by gremlins."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import harness

PLACE = harness.HERE / "go"
VERSION = "v0.6.0"

# The tests that a mutant meets are those of its own package.
FILES = [
    "wire/header.go",
    "wire/ident.go",
    "wire/json.go",
    "session/replay.go",
    "session/keyset.go",
    "session/frame.go",
    "session/message.go",
    "session/request.go",
    "session/server.go",
    "session/client.go",
    "session/call.go",
    "session/inner.go",
    "session/key_document.go",
    "session/one_shot.go",
    "session/problem.go",
    "session/compat_message.go",
    "session/compat_init.go",
    "session/compat_client.go",
]

OPERATORS = [
    "--invert-assignments",
    "--invert-bitwise",
    "--invert-bwassign",
    "--invert-logical",
    "--invert-loopctrl",
    "--remove-self-assignments",
]

CAUGHT = {"KILLED": True, "TIMED OUT": None, "LIVED": False, "NOT COVERED": False}


def _report(file: str) -> pathlib.Path:
    return harness.report("go", f"{file.replace('/', '-')}.json")


def _unleash(tree: pathlib.Path, environment: dict[str, str], folder: str, files: list[str]) -> None:
    """Runs the mutants of files of one package, whose coverage is measured once, and writes a report of each file."""
    names = [os.path.basename(file) for file in files]
    others = [path.name for path in (tree / folder).glob("*.go") if path.name not in names and not path.name.endswith("_test.go")]
    excluded = [f"--exclude-files=^{re.escape(other)}$" for other in others]
    output = harness.report("go", "gremlins.json")
    command = [harness.tool("gremlins"), "unleash", *OPERATORS, *excluded, "--workers=2", "--timeout-coefficient=60", f"--output={output}", f"./{folder}"]
    subprocess.run(command, cwd=tree, env=environment, check=True)
    found = {entry["file_name"]: entry["mutations"] for entry in json.loads(output.read_text())["files"]}
    for file, name in zip(files, names, strict=True):
        _report(file).write_text(json.dumps({"source": (tree / file).read_text(), "mutations": found.get(name, [])}))


def _mutants(tree: pathlib.Path, file: str) -> tuple[list[harness.Mutant], int]:
    """Returns the mutants of a file by its report, and the number of those that do not compile."""
    lines = (tree / file).read_text().splitlines()
    entries = json.loads(_report(file).read_text())["mutations"]
    mutants = [
        harness.Mutant(file, entry["line"], entry["column"], entry["type"], lines[entry["line"] - 1].strip(), CAUGHT[entry["status"]])
        for entry in entries
        if entry["status"] != "NOT VIABLE"
    ]
    return sorted(mutants, key=lambda mutant: (mutant.line, mutant.column)), len(entries) - len(mutants)


def _is_done(tree: pathlib.Path, file: str, with_survivors: bool) -> bool:
    """Returns True if an earlier report of a file is in force; a survivor without a reason asks for another run, since tests may be new."""
    if not _report(file).exists() or json.loads(_report(file).read_text())["source"] != (tree / file).read_text():
        return False
    result = harness.Result("go", "", "", [], _mutants(tree, file)[0])
    return with_survivors or all(reason for _, reason in result.survivors())


def run(keep: bool, start: bool) -> harness.Result:
    tree = harness.copy("sdk/go")
    temporary = tree.parent.parent / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    # A test finds them from the copy of the module that gremlins makes two levels below this one.
    for name in ("spec", "vectors"):
        (temporary / name).symlink_to(harness.ROOT / name)
    environment = os.environ | {
        "SEALWAY_GO": shutil.which("go") or "go",
        "PATH": f"{PLACE}:{os.environ['PATH']}",
        "TMPDIR": str(temporary),
    }
    files = harness.expand(tree, os.environ.get("MUTATION_FILES", "").split() or FILES)
    todo = [file for file in files if not (keep and _is_done(tree, file, with_survivors=not start))]
    if start:
        for folder in sorted({os.path.dirname(file) for file in todo}):
            _unleash(tree, environment, folder, [file for file in todo if os.path.dirname(file) == folder])
        todo = []
    mutants, unviable = [], 0
    files = [file for file in files if file not in todo]
    for file in files:
        of_file, rest = _mutants(tree, file)
        mutants += of_file
        unviable += rest
    return harness.Result("go", f"gremlins {VERSION}", "those of the mutant's package, vectors among them", files, mutants, unviable, missing=harness.gaps("Go", todo))
