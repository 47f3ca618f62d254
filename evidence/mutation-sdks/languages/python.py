"""Python, by mutmut."""

import ast
import difflib
import json
import pathlib
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


def _functions(tree: pathlib.Path, file: str) -> dict[str, list[str]]:
    """Returns the lines of each function, original or mutant, that mutmut wrote, without the line of its name."""
    text = (tree / "mutants" / file).read_text()
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: text.splitlines()[node.lineno : node.end_lineno] for node in found}


def _change(functions: dict[str, list[str]], name: str) -> tuple[list[str], list[str]]:
    """Returns the lines that a mutant replaces, and what replaces them."""
    mutant = name.rpartition(".")[2]
    original = f"{mutant.rpartition('__mutmut_')[0]}__mutmut_orig"
    lines = list(difflib.unified_diff(functions[original], functions[mutant], n=0, lineterm=""))[2:]
    old, new = ([line[1:] for line in lines if line.startswith(sign)] for sign in "-+")
    return old, new


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
        functions = _functions(tree, file)
        for name, code in codes.items():
            if code not in CAUGHT:
                raise SystemExit(f"{name} ended with {code}: no result")
            if CAUGHT[code] is not False:
                mutants.append(harness.Mutant(file, 0, 0, name, "", CAUGHT[code]))
                continue
            old, new = _change(functions, name)
            source, change = (" ".join(" ".join(text).split()) for text in (old, new))
            # The place is that of the first changed line, where the line is the only one.
            at = [number for number, line in enumerate(lines, 1) if old and line.strip() == old[0].strip()]
            mutants.append(harness.Mutant(file, at[0] if len(at) == 1 else 0, 0, change, source, False))
    return harness.Result("python", f"mutmut {VERSION}", "tests/test_wire.py, those that reach the function", [file for file in files if file not in gaps], mutants, missing=harness.gaps("Python", gaps))
