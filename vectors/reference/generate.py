#!/usr/bin/env python3
"""Writes the folders of vectors/ that FOLDERS names, and vectors/schema, or checks that they are what it would write.

usage: generate.py --write | --check
"""

import json
import sys
from collections import Counter
from pathlib import Path

import call_faults3
import calls
import calls3
import channel
import headers3
import identity_cases3
import init_faults3
import inits
import inits3
import keys3
import mle_cases
import mle_faults
import one_shot_cases
import route_cases
import rows
import schema

VECTORS = Path(__file__).resolve().parent.parent
SPEC = {"init": "init", "init-refused": "init", "client-init": "init", "client-init-refused": "init",
        "request": "open", "request-refused": "open", "answer": "answer", "answer-refused": "answer"}
CHANNEL_SPEC = {"channel-v1": "v1-handshake", "channel-v1-transcript": "v1-keys", "channel-v1-record": "v1-records",
                "noise": "native-handshake", "channel-native": "native"}
SESSION3_SPEC = {"init3": "init", "renew3": "renew-and-end", "init3-refused": "init", "init3-request-refused": "init",
                 "request3": "sealed-requests", "request3-refused": "sealed-requests", "answer3": "sealed-answers",
                 "answer3-refused": "sealed-answers", "key-set3": "identity-keys", "key-set3-refused": "identity-keys",
                 "problem3": "problems", "headers3": "sealed-requests"}
ONE_SHOT_SPEC = {"request4": "the-request", "request4-refused": "steps-of-the-server", "answer4": "the-answer", "answer4-refused": "the-answer",
                 "key-document4": "the-key-document", "key-document4-refused": "the-key-document", "psk4": "pre-shared-keys",
                 "problem4": "problems"}
STORE_SPEC = {"row": "sessions", "row-old": "rows-of-earlier-releases", "row-refused": "sessions"}
MLE_SPEC = {"mle-open": "opening", "mle-refused": "refusals"}
ROUTES_SPEC = {"routes": "decision", "routes-rejected": "rules"}
# Folder, page of the spec, and the section of each type.
FOLDERS = {"session": ("session.md", SPEC), "session3": ("session-3.md", SESSION3_SPEC), "channel": ("channel.md", CHANNEL_SPEC),
           "store": ("redis-store.md", STORE_SPEC), "routes": ("routes.md", ROUTES_SPEC),
           "mle": ("mle.md", MLE_SPEC), "one-shot": ("one-shot.md", ONE_SHOT_SPEC)}


def text(value) -> str:
    return json.dumps(value, indent=2) + "\n"


def folder(kind: str) -> str:
    return next(name for name, (_, sections) in FOLDERS.items() if kind in sections)


def scenarios() -> dict[str, dict]:
    found, folded = {}, set()

    def add(kind, name, comment, body):
        if name.lower() in folded:
            raise SystemExit(f"two scenarios are called {name}, on a file system without case at least")
        folded.add(name.lower())
        page, sections = FOLDERS[folder(kind)]
        found[name] = {"type": kind, "name": name, "comment": comment, "spec": f"{page}#{sections[kind]}", **body}

    inits.add_all(add)
    calls.add_all(add)
    channel.add_all(add)
    rows.add_all(add)
    route_cases.add_all(add)
    mle_cases.add_all(add)
    mle_faults.add_all(add)
    for part in (inits3, init_faults3, calls3, call_faults3, keys3, headers3, one_shot_cases, identity_cases3):
        part.add_all(add)
    return found


def validate(found: dict[str, dict], schemas: dict[str, dict]) -> None:
    """Every scenario obeys the schema of its type. Without the jsonschema package this step is left out, aloud."""
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        print("jsonschema is not installed: schemas not checked", file=sys.stderr)
        return
    validators = {}
    for kind, body in schemas.items():
        Draft202012Validator.check_schema(body)
        validators[kind] = Draft202012Validator(body)
    for name, body in found.items():
        for error in validators[body["type"]].iter_errors(body):
            raise SystemExit(f"{name}: {error.json_path}: {error.message}")


def main() -> None:
    if sys.argv[1:] not in (["--write"], ["--check"]):
        raise SystemExit(__doc__)
    found, schemas = scenarios(), schema.all_schemas()
    validate(found, schemas)
    files = {f"{folder(body['type'])}/{name}.json": text(body) for name, body in found.items()}
    files |= {f"schema/{kind}.json": text(body) for kind, body in schemas.items()}
    on_disk = {str(path.relative_to(VECTORS)) for name in (*FOLDERS, "schema")
               for path in (VECTORS / name).glob("*")}
    if sys.argv[1] == "--write":
        for extra in on_disk - files.keys():
            (VECTORS / extra).unlink()
        for path, content in files.items():
            (VECTORS / path).parent.mkdir(exist_ok=True)
            (VECTORS / path).write_text(content)
    else:
        wrong = sorted(on_disk ^ files.keys())
        wrong += [path for path in files if path in on_disk and (VECTORS / path).read_text() != files[path]]
        if wrong:
            raise SystemExit("not what the generator writes: " + ", ".join(wrong[:10]) + f" ({len(wrong)} files)")
    for kind, count in sorted(Counter(body["type"] for body in found.values()).items()):
        print(f"{kind}: {count}")
    print(f"total: {len(found)}")


if __name__ == "__main__":
    main()
