#!/usr/bin/env python3
"""Runs the mutation tests of the SDKs and writes their record.

    run.py [--output FILE] [--keep | --report] [LANGUAGE ...]

Each language's tool works in a copy of the SDK in target/mutation-sdks, so that no mutant is ever in the working tree.
scripts/setup-evidence.sh installs the tools. A survivor must be listed, with a reason, in LANGUAGE/survivors.toml: one that is
not listed fails the run, and so does an entry whose mutant is caught or gone. Languages that are not named keep their rows of the
record before.
"""

import argparse
import importlib
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402

RECORD = harness.ROOT / "docs/assurance/results/mutation-sdks.json"
LANGUAGES = ("typescript", "go", "python", "java")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=f"{', '.join(LANGUAGES)}; all if left out")
    parser.add_argument("--output", type=pathlib.Path, default=RECORD)
    parser.add_argument("--keep", action="store_true", help="keep results of earlier runs, of sources that have not changed; only tests were added since")
    parser.add_argument("--report", action="store_true", help="run no tool: write the record of the results of earlier runs, and name the files that have none")
    arguments = parser.parse_args()
    languages = arguments.languages or LANGUAGES
    if unknown := [name for name in languages if name not in LANGUAGES]:
        parser.error(f"no such language: {', '.join(unknown)}")

    start = time.monotonic()
    results = []
    for name in languages:
        print(f"mutation-sdks: {name}", flush=True)
        began = time.monotonic()
        result = importlib.import_module(f"languages.{name}").run(arguments.keep or arguments.report, not arguments.report)
        result.seconds = round(time.monotonic() - began)
        results.append(result)

    problems = [problem for result in results for problem in result.unexplained()]
    previous = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record = harness.record(results, round(time.monotonic() - start), arguments.report, previous)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    for name, value in record["figures"]:
        print(f"{name}: {value}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
