"""Copies of the SDKs, survivors with their reasons, and the record."""

import dataclasses
import datetime
import os
import pathlib
import shutil
import subprocess
import tomllib
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "mutation-sdks"

# Share of the mutants that tests must catch.
GOAL = 0.9


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of one place of a source file, and its result."""

    file: str
    line: int
    column: int
    # The operator and, where the tool names it, the text that replaces the original.
    change: str
    # The source line, without the spaces around it: names the place in the list of survivors, where line numbers would not last.
    source: str
    # True if a test failed, False if none did; None if the tests were not over in time, which may be the mutant's fault or the machine's.
    caught: bool | None


@dataclasses.dataclass
class Result:
    """The result of one language's run."""

    language: str
    tool: str
    tests: str
    files: list[str]
    mutants: list[Mutant]
    # Mutants that do not compile, and are no part of the figures.
    unviable: int = 0
    seconds: int = 0
    missing: list[list[str]] = dataclasses.field(default_factory=list)

    def survivors(self) -> list[tuple[Mutant, str | None]]:
        """Returns the mutants that no test catches, each with its reason if one is listed."""
        reasons = self._reasons()
        return [(mutant, self._reason(mutant, reasons)) for mutant in self.mutants if mutant.caught is False]

    def unexplained(self) -> list[str]:
        """Returns a line for each survivor without a reason, and for each reason without a survivor."""
        lines = []
        used = set()
        reasons = self._reasons()
        for mutant in self.mutants:
            if mutant.caught is not False:
                continue
            found = [at for at, entry in enumerate(reasons) if _matches(entry, mutant)]
            used.update(found)
            if not found:
                lines.append(f"{self.language}: {mutant.file}:{mutant.line}:{mutant.column}: survived: {mutant.change}: {mutant.source}")
        for at, entry in enumerate(reasons):
            if at not in used:
                lines.append(f"{self.language}: survivors.toml: no mutant of this run survived at {entry['file']}: {entry['source']}")
        return lines

    def _reasons(self) -> list[dict[str, str]]:
        path = HERE / self.language / "survivors.toml"
        return tomllib.loads(path.read_text())["survivor"] if path.exists() else []

    @staticmethod
    def _reason(mutant: Mutant, reasons: list[dict[str, str]]) -> str | None:
        return next((entry["reason"] for entry in reasons if _matches(entry, mutant)), None)


def _matches(entry: dict[str, str], mutant: Mutant) -> bool:
    # Without `change` an entry covers all mutants of its line.
    return (entry["file"], entry["source"]) == (mutant.file, mutant.source) and entry.get("change", mutant.change) == mutant.change


def copy(sdk: str, *kept: str) -> pathlib.Path:
    """Makes a copy of an SDK's tracked files, at the same path below a root whose other entries are links, and returns its path."""
    tree = WORK / os.environ.get("MUTATION_TREE", sdk.rsplit("/", 1)[-1])
    target = tree / sdk
    # What the last run installed or built stays; sources do not.
    for entry in target.iterdir() if target.is_dir() else ():
        if entry.name not in ("node_modules", *kept):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    target.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", sdk], cwd=ROOT, check=True, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for name in ("LICENSE", "docs", "spec", "vectors"):
        link = tree / name
        if not link.is_symlink():
            link.symlink_to(ROOT / name)
    return target


def report(language: str, name: str) -> pathlib.Path:
    """Returns the path of a tool's report, which a later run with --keep reads."""
    folder = WORK / "reports" / language
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def is_newer(report: pathlib.Path, sources: list[pathlib.Path]) -> bool:
    """Returns True if a report was made after the last change of its sources."""
    return report.exists() and all(report.stat().st_mtime > source.stat().st_mtime for source in sources)


def gaps(language: str, files: list[str]) -> list[list[str]]:
    """Returns the record's entry for files that were not mutated."""
    why = "the run was ended before their turn"
    return [[f"{language}: {', '.join(files)}", why, "the tests of the SDK, without mutants"]] if files else []


def tool(name: str) -> str:
    """Returns the path of a tool that scripts/setup-evidence.sh installs."""
    path = WORK / "tools" / "bin" / name
    if not path.exists():
        raise SystemExit(f"{name} is missing: run scripts/setup-evidence.sh")
    return str(path)


def expand(folder: pathlib.Path, patterns: list[str]) -> list[str]:
    """Returns the files below a folder that patterns name; each must name at least one."""
    files: list[str] = []
    for pattern in patterns:
        found = sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))
        if not found:
            raise SystemExit(f"{pattern}: no such file in {folder}")
        files += found
    return files


def record(results: list[Result], seconds: int, is_report: bool, previous: dict[str, Any]) -> dict[str, Any]:
    """Returns the record in the form of crates/xtask/src/evidence/record.rs.

    Languages that did not run keep their rows of the record before, with the commit of their run.
    """
    run = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    commit = run.stdout.strip()
    figures, rows, survivors, missing, tests = [], [], [], [], []
    for result in results:
        decided = [mutant for mutant in result.mutants if mutant.caught is not None]
        caught = sum(mutant.caught is True for mutant in decided)
        share = f"{100 * caught / len(decided):.1f} %" if decided else "none"
        figures.append([f"caught, {result.language}", f"{caught} of {len(decided)} mutants ({share})"])
        tests.append([result.language, result.tool, result.tests, str(result.unviable), f"{result.seconds} s", commit])
        for file in result.files:
            of_file = [mutant for mutant in result.mutants if mutant.file == file]
            counts = [sum(mutant.caught is outcome for mutant in of_file) for outcome in (True, False, None)]
            rows.append([result.language, file, *map(str, [len(of_file), *counts])])
        for mutant, reason in result.survivors():
            survivors.append([result.language, f"{mutant.file}:{mutant.line}", mutant.change, reason or "none yet"])
        missing += result.missing
        if decided and caught < GOAL * len(decided):
            missing.append([f"{result.language}: {GOAL:.0%} of the mutants caught", f"{share} are caught", "the survivors in the table"])
    if is_report:
        why = "the record is of the results that earlier runs left, of sources that have not changed; tests may have been added since"
        missing.append(["A run of all languages at once", why, "each file's last result; `run.py --keep` runs survivors and missing files again"])
    tables = [
        {"title": "Tools and tests", "columns": ["SDK", "tool", "tests that a mutant meets", "mutants that do not compile", "duration", "commit"], "rows": tests},
        {"title": "Files", "columns": ["SDK", "file", "mutants", "caught", "survived", "not over in time"], "rows": rows},
        {"title": "Survivors", "columns": ["SDK", "place", "change", "reason"], "rows": survivors},
    ]
    ran = {result.language for result in results}
    figures += [entry for entry in previous.get("figures", []) if entry[0].removeprefix("caught, ") not in ran]
    missing += [entry for entry in previous.get("missing", []) if _language(entry[0]) not in ran | {None}]
    for table, before in zip(tables, previous.get("tables", []), strict=False):
        # The first records had one commit for all languages.
        kept = [row if len(row) == len(table["columns"]) else [*row, previous["commit"]] for row in before["rows"] if row[0] not in ran]
        table["rows"] += kept
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit,
        "seconds": seconds,
        "figures": figures,
        "tables": tables,
        "missing": missing,
    }


def _language(gap: str) -> str | None:
    """Returns the language of a gap; None if it is of none."""
    name, colon, _ = gap.partition(":")
    return name.lower() if colon else None
