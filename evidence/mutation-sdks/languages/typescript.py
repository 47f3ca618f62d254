"""TypeScript, by Stryker."""

import json
import os
import pathlib
import shutil
import subprocess
import time
from typing import Any

import harness

PLACE = harness.HERE / "typescript"

FILES = [
    "src/wire/base64.ts",
    "src/wire/fields.ts",
    "src/wire/forms.ts",
    "src/wire/headers.ts",
    "src/wire/json.ts",
    "src/wire/reader.ts",
    "src/wire/window.ts",
    "src/session/claim.ts",
    "src/session/compat/*.ts",
    "src/session/native/*.ts",
    "src/session/one-shot/*.ts",
    "src/exchange/*.ts",
]

CAUGHT = {"Killed": True, "Survived": False, "NoCoverage": False, "Timeout": None}
UNVIABLE = {"CompileError", "RuntimeError"}

Entry = dict[str, Any]


def run(keep: bool, start: bool) -> harness.Result:
    tree = harness.copy("sdk/typescript")
    for name in ("package.json", "stryker.config.json", "runner.js", "vitest.js", "messages.js"):
        shutil.copy2(PLACE / name, tree / name)
    if tests := os.environ.get("MUTATION_TESTS"):
        settings = json.loads((tree / "stryker.config.json").read_text())
        settings["sealway"]["tests"] = tests.split()
        (tree / "stryker.config.json").write_text(json.dumps(settings))
    (tree / "package-lock.json").unlink()
    shutil.copytree(PLACE / "tests", tree / "test" / "mutation", dirs_exist_ok=True)
    modules = tree / "node_modules"
    if not modules.is_symlink():
        modules.symlink_to(PLACE / "node_modules")
    files = harness.expand(tree, os.environ.get("MUTATION_FILES", "").split() or FILES)
    known = _kept(tree, files) if keep else {}
    wanted = [place for file in files for place in (_survivors(file, known[file]) if file in known else [file])]
    if wanted and start:
        subprocess.run(["node_modules/.bin/stryker", "run", "--mutate", ",".join(wanted)], cwd=tree, check=True)
        report = json.loads((tree / "mutation.json").read_text())
        (harness.report("typescript", f"{time.time_ns()}.json")).write_text(json.dumps(report))
        for file, entry in report["files"].items():
            _add(known, file, entry)

    mutants, unviable = [], 0
    gaps = [file for file in files if file not in known]
    files = [file for file in files if file in known]
    for file in files:
        lines = (tree / file).read_text().splitlines()
        for mutant in known.get(file, {}).values():
            if mutant["status"] in UNVIABLE:
                unviable += 1
            elif mutant["status"] != "Ignored":
                at = mutant["location"]["start"]
                change = f"{mutant['mutatorName']}: {' '.join(mutant.get('replacement', '').split())}"
                source = lines[at["line"] - 1].strip()
                mutants.append(harness.Mutant(file, at["line"], at["column"], change, source, CAUGHT[mutant["status"]]))
    version = json.loads((PLACE / "package.json").read_text())["dependencies"]["@stryker-mutator/core"]
    tests = "vectors of session, session3 and one-shot with the provider of Node, and unit tests without a server"
    return harness.Result("typescript", f"Stryker {version}", tests, files, mutants, unviable, missing=harness.gaps("TypeScript", gaps))


def _kept(tree: pathlib.Path, files: list[str]) -> dict[str, dict[str, Entry]]:
    """Returns the mutants of earlier reports, of files that have not changed since, the later decision on a mutant in force."""
    known: dict[str, dict[str, Entry]] = {}
    for path in sorted(harness.report("typescript", "").glob("*.json"), key=lambda path: path.stat().st_mtime):
        for file, entry in json.loads(path.read_text())["files"].items():
            if file in files and entry["source"] == (tree / file).read_text():
                _add(known, file, entry)
    return known


def _add(known: dict[str, dict[str, Entry]], file: str, entry: Entry) -> None:
    """Adds a report's mutants of a file. A mutant that was decided before stays so if its tests were now late."""
    mutants = known.setdefault(file, {})
    for mutant in entry["mutants"]:
        place = json.dumps([mutant["location"], mutant["mutatorName"], mutant.get("replacement")])
        if not (_is_late(mutant) and place in mutants):
            mutants[place] = mutant


def _is_late(mutant: Entry) -> bool:
    """Returns true if a mutant's tests were not over in time without a loop that Stryker counted: the machine may have been busy."""
    return mutant["status"] == "Timeout" and "limit" not in mutant.get("statusReason", "")


def _survivors(file: str, mutants: dict[str, Entry]) -> list[str]:
    """Returns the places of the mutants to run again: those that survived, and late ones. Tests are added, so the others stay caught,
    and what looped loops again."""
    places = set()
    for mutant in mutants.values():
        if _is_late(mutant) or CAUGHT.get(mutant["status"], True) is False:
            start, end = mutant["location"]["start"], mutant["location"]["end"]
            places.add(f"{file}:{start['line']}:{start['column'] - 1}-{end['line']}:{end['column'] - 1}")
    return sorted(places)
