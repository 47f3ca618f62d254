#!/usr/bin/env python3
"""Runs the models of this folder, as they are and with the changes that their variants name: Verifpal over the `.vp` files,
and the search of resend.py.

usage: run.py [MODEL [VARIANT]]

A model's head says what each variant must give: `// without list: c0a0a1`. A line that has `// without list: …` behind it is
replaced by what stands there. README.md says what the letters mean. The command is `verifpal`, or what the variable VERIFPAL names.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import resend

HERE = Path(__file__).resolve().parent
HEAD = re.compile(r"// ([a-z_ ]+): ((?:[cafue][01])+)")
SESSIONS = re.compile(r"// sessions: (\d)")
TIMEOUT_SEC = 600


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


def verdict(verifpal: str, text: str, sessions: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vp"
        path.write_text(text)
        run = subprocess.run([verifpal, "verify", "model.vp", "--quiet", "--result-code", "--color", "never", "--sessions", sessions],
                             cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SEC)
    lines = run.stdout.split()
    return lines[-1] if run.returncode == 0 and lines else f"failed: {run.stderr.strip()}"


def main() -> None:
    models = sorted(HERE.glob("*.vp"))
    # It needs nothing but this interpreter, so no machine passes it over.
    found = resend.check(sys.argv[2:]) if sys.argv[1:2] in ([], ["resend"]) else []
    if found:
        raise SystemExit("other than the models say: " + "; ".join(found))
    if sys.argv[1:2] == ["resend"]:
        return
    if sys.argv[1:]:
        models = [HERE / f"{sys.argv[1]}.vp"]
    # Read before the tool is looked for: a model that contradicts itself is found everywhere.
    texts = {path.stem: path.read_text() for path in models}
    planned = [(stem, name, want) for stem, text in texts.items() for name, want in expectations(text).items()
               if not sys.argv[2:] or name == sys.argv[2]]
    known = {stem: [re.escape(name) for name in expectations(text)] for stem, text in texts.items()}
    built = {(stem, name): variant(texts[stem], name, known[stem]) for stem, name, _ in planned}
    verifpal = shutil.which(os.environ.get("VERIFPAL", "verifpal"))
    if verifpal is None:
        raise SystemExit(f"verifpal is not installed, so {len(planned)} models were not checked: "
                         "cargo install verifpal --version 1.6.7 --locked --ignore-rust-version")

    def judged(stem: str, name: str) -> str:
        sessions = SESSIONS.search(texts[stem])
        return verdict(verifpal, built[stem, name], sessions.group(1) if sessions else "2")

    wrong = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = pool.map(lambda plan: judged(*plan[:2]), planned)
        for (stem, name, want), got in zip(planned, verdicts):
            print(f"{stem}, {name}: {got}" + ("" if got == want else f", and not {want}"), flush=True)
            wrong += [f"{stem}, {name}"] * (got != want)
    if wrong:
        raise SystemExit("other than the models say: " + "; ".join(wrong))
    print(f"models: {len(planned)} as expected")


if __name__ == "__main__":
    main()
