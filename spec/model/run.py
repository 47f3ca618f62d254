#!/usr/bin/env python3
"""Runs the models of this folder, as they are and with the changes that their variants name: Verifpal and SPASS over the `.vp`
files, and the searches of resend.py, lineage.py and rotation.py.

usage: run.py [--long] [--record FILE] [MODEL [VARIANT]]

A model's head says what each variant must give: `// without list: c0a0a1`. A line that has `// without list: …` behind it is
replaced by what stands there. README.md says what the letters mean. The commands are `verifpal` and `SPASS`, or what the variables
VERIFPAL and SPASS name. Without --long, each leaves out the variants of the models that cost it most, and the other one judges them.
A record has all verdicts as JSON.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import horn
import lineage
import resend
import rotation

HERE = Path(__file__).resolve().parent
HEAD = re.compile(r"// ([a-z_ ]+): ((?:[cafue][01])+)")
SESSIONS = re.compile(r"// sessions: (\d)")
TIMEOUT_SEC = 600
SEARCHES = {"resend": resend.check, "lineage": lineage.check, "rotation": rotation.check}
# Models of which a tool judges only the design in the short form: a variant takes Verifpal 5 to 19 seconds, SPASS five.
COSTLY = {"VERIFPAL": {"init"}, "SPASS": {"one_shot"}}
INSTALL = {"VERIFPAL": "cargo install verifpal --version 1.6.7 --locked --ignore-rust-version", "SPASS": "apt-get install spass"}


class Plan(NamedTuple):
    """A variant of a model, and what it must give."""
    model: str
    variant: str
    expected: str
    text: str


class Verdict(NamedTuple):
    plan: Plan
    verifpal: str | None    # Nothing where it was left out.
    spass: str | None    # Nothing where it was left out.
    clauses: int

    @property
    def is_as_expected(self) -> bool:
        found = {self.verifpal, self.spass} - {None}
        return found == {self.plan.expected}


def expectations(text: str) -> dict[str, str]:
    found = dict(match.groups() for line in text.splitlines() if (match := HEAD.fullmatch(line)))
    if "as designed" not in found:
        raise SystemExit("a model does not say what it gives as designed")
    return found


def variant(text: str, name: str, known) -> str:
    """The model with every line that names the variant replaced."""
    out, replaced = [], 0
    for line in text.splitlines():
        code, *marks = re.split(rf" // (?=(?:{'|'.join(known)}): )", line)
        for mark in marks:
            marked, replacement = mark.split(": ", 1)
            if marked == name:
                code, replaced = line[:len(line) - len(line.lstrip())] + replacement, replaced + 1
        out.append(code)
    if name != "as designed" and not replaced:
        raise SystemExit(f"no line says what {name} changes")
    return "\n".join(out) + "\n"


def plans(path: Path) -> list[Plan]:
    text = path.read_text()
    expected = expectations(text)
    known = [re.escape(name) for name in expected]
    return [Plan(path.stem, name, want, variant(text, name, known)) for name, want in expected.items()]


def tool(name: str) -> str:
    found = shutil.which(os.environ.get(name, {"VERIFPAL": "verifpal"}.get(name, name)))
    if found is None:
        raise SystemExit(f"{name.lower()} is not installed, so the models were not checked: {INSTALL[name]}")
    return found


def by_verifpal(verifpal: str, text: str) -> str:
    sessions = SESSIONS.search(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vp"
        path.write_text(text)
        command = [verifpal, "verify", "model.vp", "--quiet", "--result-code", "--color", "never", "--sessions",
                   sessions.group(1) if sessions else "2"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SEC)
    lines = run.stdout.split()
    return lines[-1] if run.returncode == 0 and lines else f"failed: {run.stderr.strip()}"


def judged(planned: list[Plan], is_long: bool):
    """The verdicts of both tools, in the order of the plans."""
    verifpal, spass = tool("VERIFPAL"), tool("SPASS")

    def both(plan: Plan) -> Verdict:
        left_out = [name for name, models in COSTLY.items() if plan.model in models] if not is_long and plan.variant != "as designed" else []
        first = None if "VERIFPAL" in left_out else by_verifpal(verifpal, plan.text)
        return Verdict(plan, first, *((None, 0) if "SPASS" in left_out else horn.verdict(spass, plan.text)))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(both, planned)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--record", type=Path)
    parser.add_argument("model", nargs="?")
    parser.add_argument("variant", nargs="?")
    asked = parser.parse_args()
    # Read before the tools are looked for: a model that contradicts itself is found everywhere.
    planned = [plan for path in sorted(HERE.glob("*.vp")) for plan in plans(path)
               if asked.model in (None, plan.model) and asked.variant in (None, plan.variant)]
    # They need nothing but this interpreter.
    names = [asked.variant] if asked.variant else None
    searched = [row for name, check in SEARCHES.items() if asked.model in (None, name) for row in check(names)]
    wrong = [f"{row.model}, {row.variant}" for row in searched if not row.is_as_expected]
    verdicts = []
    for verdict in judged(planned, asked.long) if planned else ():
        plan, is_good = verdict.plan, verdict.is_as_expected
        by_tool = [f"{said} by {tool}" for tool, said in (("Verifpal", verdict.verifpal), ("SPASS", verdict.spass)) if said is not None]
        print(f"{plan.model}, {plan.variant}: {', '.join(by_tool)}{'' if is_good else f', and not {plan.expected}'}", flush=True)
        verdicts.append(verdict)
        wrong += [f"{plan.model}, {plan.variant}"] * (not is_good)
    if not searched and not verdicts:
        raise SystemExit("there is no such model or variant")
    if asked.record:
        asked.record.write_text(json.dumps({
            "verdicts": [{"model": plan.model, "variant": plan.variant, "expected": plan.expected, "verifpal": verifpal, "spass": spass,
                          "clauses": clauses} for plan, verifpal, spass, clauses in verdicts],
            "searches": [{"model": row.model, "variant": row.variant, "expected": row.expected, "broken": row.result.broken,
                          "states": row.result.states} for row in searched]}))
    if wrong:
        raise SystemExit("other than the models say: " + "; ".join(wrong))
    print(f"models: {len(verdicts)} variants and {len(searched)} searches as expected")


if __name__ == "__main__":
    main()
