"""Java, by PIT."""

import json
import os
import pathlib
import shutil
import subprocess
import xml.etree.ElementTree

import harness

PLACE = harness.HERE / "java"
SESSION = "sealway-session/src/main/java"

# Code that reads the vectors, too. Its mutants meet unit tests alone: what one of them has misread would stay for the next.
FORMS = [
    "dev.sealway.wire.Forms",
    "dev.sealway.wire.HeaderList",
    "dev.sealway.wire.Json",
    "dev.sealway.wire.JsonNumber",
    "dev.sealway.wire.StrictBase64",
    "dev.sealway.session.ReplayPolicy",
    "dev.sealway.session.nativeprotocol.InnerHeaders",
]
NATIVE = [
    f"dev.sealway.session.nativeprotocol.{name}"
    for name in (
        "FrameOpener",
        "FrameSealer",
        "FrameKeys",
        "NativeExchange",
        "NativeCall",
        "NativeReply",
        "RequestKeys",
        "SessionKeys",
        "Placement",
        "OuterHeaders",
        "Resends",
        "Proofs",
        "KeySet",
        "KeyDocument",
        "KeyConfig",
        "RootSeal",
        "OneShotKeys",
        "Members",
        "Fields",
        "InitRequest",
        "InitAnswer",
        "Acceptance",
        "Agreement",
        "Transcript",
        "Identity",
        "Suite",
        "ClientShare",
        "ServerShare",
        "Problem",
        "NativeSession",
    )
] + [
    "dev.sealway.session.Claim",
    "dev.sealway.session.Unreplayed",
    "dev.sealway.exchange.Exchange",
    "dev.sealway.exchange.Opening",
    "dev.sealway.exchange.Stream",
]
CLASSES = FORMS + NATIVE
UNIT = [
    "dev.sealway.WireTest",
    "dev.sealway.FormsTest",
    "dev.sealway.exchange.ExchangeTest",
    "dev.sealway.session.nativeprotocol.*Test",
]
VECTORS = ["dev.sealway.conformance.VectorsByTypeTest", "dev.sealway.conformance.DriverTest"]
MET = "those of sealway-session for wires 3 and 4, and but for wire and InnerHeaders the vectors, those that reach the line"

CAUGHT = {"KILLED": True, "MEMORY_ERROR": True, "RUN_ERROR": True, "TIMED_OUT": None, "SURVIVED": False, "NO_COVERAGE": False}


def _build(tree: pathlib.Path) -> tuple[str, str]:
    """Builds the copy of the SDK, and returns the home of the JDK and the class path of the tests."""
    shutil.copy2(PLACE / "tests" / "VectorsByTypeTest.java", tree / "conformance/src/test/java/dev/sealway/conformance")
    path = tree / "test-classpath"
    maven = ["./maven", "-B", "-q", "-ntp", "-pl", "sealway-session,conformance"]
    subprocess.run([*maven, "test-compile", "dependency:build-classpath", f"-Dmdep.outputFile={path}", "-Dmdep.includeScope=test"], cwd=tree, check=True)
    pit = harness.WORK / "tools" / "pit-classpath"
    if not pit.exists():
        raise SystemExit("PIT is missing: run scripts/setup-evidence.sh")
    own = [str(tree / module / "target" / kind) for module in ("sealway-session", "conformance") for kind in ("classes", "test-classes")]
    home = subprocess.run(["sh", "-c", 'here=.; . ./jdk.sh; echo "$JAVA_HOME"'], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()
    return home, ":".join([pit.read_text().strip(), *own, path.read_text().strip()])


def _measure(tree: pathlib.Path, home: str, classpath: str, classes: list[str], tests: list[str]) -> None:
    reports = harness.report("java", "pit")
    command = [
        f"{home}/bin/java",
        "-cp",
        classpath,
        "org.pitest.mutationtest.commandline.MutationCoverageReport",
        f"--reportDir={reports}",
        f"--targetClasses={','.join(classes + [name + '$*' for name in classes])}",
        f"--targetTests={','.join(tests)}",
        # Texts for people.
        "--excludedMethods=toString",
        f"--sourceDirs={tree / SESSION}",
        f"--mutableCodePaths={tree / 'sealway-session/target/classes'}",
        "--outputFormats=XML",
        "--timestampedReports=false",
        "--threads=2",
        "--timeoutConst=20000",
        "--jvmArgs=-XX:+UseSerialGC,-XX:TieredStopAtLevel=1",
        f"--jvmPath={home}/bin/java",
    ]
    # The tests find the vectors and the registry from the module's folder.
    subprocess.run(command, cwd=tree / "sealway-session", env=os.environ | {"JAVA_HOME": home}, check=True)
    found: dict[str, list[dict[str, str]]] = {name: [] for name in classes}
    for entry in xml.etree.ElementTree.parse(reports / "mutations.xml").getroot():
        text = {child.tag: child.text or "" for child in entry}
        found[text["mutatedClass"].split("$")[0]].append(text | {"status": entry.get("status", "")})
    for name, entries in found.items():
        harness.report("java", f"{name}.json").write_text(json.dumps({"source": (tree / _file(name)).read_text(), "mutants": entries}))


def _file(name: str) -> str:
    return f"{SESSION}/{name.replace('.', '/')}.java"


def _mutants(tree: pathlib.Path, name: str) -> tuple[list[harness.Mutant], int]:
    """Returns the mutants of a class by its report, and the number of those that do not compile."""
    file = _file(name)
    lines = (tree / file).read_text().splitlines()
    entries = json.loads(harness.report("java", f"{name}.json").read_text())["mutants"]
    mutants = [
        harness.Mutant(file, line, 0, entry["description"], lines[line - 1].strip(), CAUGHT[entry["status"]])
        for entry in entries
        if entry["status"] != "NON_VIABLE"
        for line in [int(entry["lineNumber"])]
    ]
    return sorted(mutants, key=lambda mutant: mutant.line), len(entries) - len(mutants)


def _is_done(tree: pathlib.Path, name: str, with_survivors: bool) -> bool:
    """Returns True if an earlier report of a class is in force; a survivor without a reason asks for another run, since tests may be new."""
    report = harness.report("java", f"{name}.json")
    if not report.exists() or json.loads(report.read_text())["source"] != (tree / _file(name)).read_text():
        return False
    result = harness.Result("java", "", "", [], _mutants(tree, name)[0])
    return with_survivors or all(reason for _, reason in result.survivors())


def run(keep: bool, start: bool) -> harness.Result:
    tree = harness.copy("sdk/java")
    wanted = os.environ.get("MUTATION_CLASSES", "").split() or CLASSES
    todo = [name for name in wanted if not (keep and _is_done(tree, name, with_survivors=not start))]
    if todo and start:
        home, classpath = _build(tree)
        for group, tests in ((FORMS, UNIT), (NATIVE, UNIT + VECTORS)):
            if classes := [name for name in todo if name in group]:
                _measure(tree, home, classpath, classes, tests)
        todo = []
    mutants, unviable = [], 0
    done = [name for name in wanted if name not in todo]
    for name in done:
        of_class, rest = _mutants(tree, name)
        mutants += of_class
        unviable += rest
    return harness.Result("java", "PIT 1.30.2", MET, [_file(name) for name in done], mutants, unviable, missing=harness.gaps("Java", todo))
