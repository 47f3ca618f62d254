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


def _unleash(tree: pathlib.Path, environment: dict[str, str], gremlins: str, file: str, report: pathlib.Path) -> None:
    folder, name = os.path.split(file)
    others = [path.name for path in (tree / folder).glob("*.go") if path.name != name and not path.name.endswith("_test.go")]
    excluded = [f"--exclude-files=^{re.escape(other)}$" for other in others]
    command = [gremlins, "unleash", *OPERATORS, *excluded, "--workers=1", "--timeout-coefficient=20", f"--output={report}", f"./{folder}"]
    subprocess.run(command, cwd=tree, env=environment, check=True)


def run(keep: bool, start: bool) -> harness.Result:
    tree = harness.copy("sdk/go")
    temporary = tree.parent.parent / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    # A test finds them from the copy of the module that gremlins makes two levels below this one.
    for name in ("spec", "vectors"):
        (temporary / name).symlink_to(harness.ROOT / name)
    gremlins = harness.tool("gremlins")
    environment = os.environ | {
        "SEALWAY_GO": shutil.which("go") or "go",
        "PATH": f"{PLACE}:{os.environ['PATH']}",
        "TMPDIR": str(temporary),
    }
    files = harness.expand(tree, os.environ.get("MUTATION_FILES", "").split() or FILES)
    mutants, unviable = [], 0
    gaps: list[str] = []
    for file in files:
        report = harness.report("go", f"{file.replace('/', '-')}.json")
        if not (keep and harness.is_newer(report, [harness.ROOT / "sdk/go" / file])):
            if not start:
                gaps.append(file)
                continue
            _unleash(tree, environment, gremlins, file, report)
        lines = (tree / file).read_text().splitlines()
        for entry in json.loads(report.read_text())["files"]:
            for mutant in entry["mutations"]:
                if mutant["status"] == "NOT VIABLE":
                    unviable += 1
                    continue
                source = lines[mutant["line"] - 1].strip()
                caught = CAUGHT[mutant["status"]]
                mutants.append(harness.Mutant(file, mutant["line"], mutant["column"], mutant["type"], source, caught))
    mutants.sort(key=lambda mutant: (files.index(mutant.file), mutant.line, mutant.column))
    return harness.Result("go", f"gremlins {VERSION}", "those of the mutant's package, vectors among them", [file for file in files if file not in gaps], mutants, unviable, missing=harness.gaps("Go", gaps))
