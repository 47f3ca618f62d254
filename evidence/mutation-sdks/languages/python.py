"""Python, by mutmut."""

import json
import pathlib
import re
import shutil
import subprocess
import tomllib

import harness

PLACE = harness.HERE / "python"
VERSION = "3.8.1"

# Exit codes of pytest in mutmut's child processes, and those that mutmut gives (mutmut/stats.py).
CAUGHT = {1: True, 3: True, 36: None, 24: None, 152: None, 255: None, -24: None, 0: False, 5: False, 33: False}


def _codes(tree: pathlib.Path, file: str) -> dict[str, int | None]:
    """Returns the exit code of each mutant's tests; None if they have not run."""
    path = tree / "mutants" / f"{file}.meta"
    return json.loads(path.read_text())["exit_code_by_key"] if path.exists() else {}


def _survivors(tree: pathlib.Path, files: list[str]) -> list[str]:
    """Returns the mutants that no test caught."""
    return [name for file in files for name, code in _codes(tree, file).items() if CAUGHT.get(code) is False]


def run(keep: bool, start: bool) -> harness.Result:
    if not start and not any((harness.WORK / "python/sdk/python/mutants").rglob("*.meta")):
        return harness.Result("python", f"mutmut {VERSION}", "none", [], [], missing=harness.gaps("Python", ["all"]))
    tree = harness.copy("sdk/python", "mutants")
    if start and not keep:
        shutil.rmtree(tree / "mutants", ignore_errors=True)
    settings = (PLACE / "mutmut.toml").read_text()
    with (tree / "pyproject.toml").open("a") as file:
        file.write(settings)
    mutmut = harness.tool("mutmut")
    files = tomllib.loads(settings)["tool"]["mutmut"]["only_mutate"]
    if start:
        survivors = _survivors(tree, files)
        # mutmut keeps the results of functions that have not changed; survivors run again by their names.
        subprocess.run([mutmut, "run", "--max-children", "2"], cwd=tree, check=True)
        again = [name for name in survivors if name in _survivors(tree, files)]
        if again:
            subprocess.run([mutmut, "run", "--max-children", "2", *again], cwd=tree, check=True)

    mutants = []
    gaps: list[str] = []
    for file in files:
        codes = _codes(tree, file)
        if not start and None in codes.values():
            gaps.append(file)
            continue
        lines = (tree / file).read_text().splitlines()
        for name, code in codes.items():
            if code not in CAUGHT:
                raise SystemExit(f"{name} ended with {code}: no result")
            if CAUGHT[code] is not False:
                mutants.append(harness.Mutant(file, 0, 0, name, "", CAUGHT[code]))
                continue
            shown = subprocess.run([mutmut, "show", name], cwd=tree, check=True, capture_output=True, text=True).stdout
            old, new = (re.findall(rf"^\{sign}(?!{re.escape(sign * 2)})(.*)$", shown, re.MULTILINE) for sign in "-+")
            source, change = (" ".join(" ".join(text).split()) for text in (old, new))
            # mutmut shows a function by itself: the place is that of its first changed line, where the line is the only one.
            at = [number for number, line in enumerate(lines, 1) if old and line.strip() == old[0].strip()]
            mutants.append(harness.Mutant(file, at[0] if len(at) == 1 else 0, 0, change, source, False))
    return harness.Result("python", f"mutmut {VERSION}", "tests/test_wire.py, those that reach the function", [file for file in files if file not in gaps], mutants, missing=harness.gaps("Python", gaps))
