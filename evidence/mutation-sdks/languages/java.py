"""Java, by PIT."""

import os
import pathlib
import subprocess
import xml.etree.ElementTree

import harness

PLACE = harness.HERE / "java"
SESSION = "sealway-session/src/main/java"

CLASSES = [
    "dev.sealway.wire.Forms",
    "dev.sealway.wire.HeaderList",
    "dev.sealway.wire.Json",
    "dev.sealway.wire.JsonNumber",
    "dev.sealway.wire.StrictBase64",
    "dev.sealway.session.ReplayPolicy",
    "dev.sealway.session.nativeprotocol.InnerHeaders",
]
TESTS = [
    "dev.sealway.WireTest",
    "dev.sealway.FormsTest",
    "dev.sealway.exchange.ExchangeTest",
    "dev.sealway.session.nativeprotocol.InnerHeadersTest",
]

CAUGHT = {"KILLED": True, "MEMORY_ERROR": True, "RUN_ERROR": True, "TIMED_OUT": None, "SURVIVED": False, "NO_COVERAGE": False}


def _measure(tree: pathlib.Path, reports: pathlib.Path) -> None:
    maven = ["./maven", "-B", "-q", "-ntp"]
    path = tree / "test-classpath"
    modules = ["-pl", "sealway-session"]
    subprocess.run([*maven, *modules, "test-compile", "dependency:build-classpath", f"-Dmdep.outputFile={path}", "-Dmdep.includeScope=test"], cwd=tree, check=True)
    pit = harness.WORK / "tools" / "pit-classpath"
    if not pit.exists():
        raise SystemExit("PIT is missing: run scripts/setup-evidence.sh")
    own = [str(tree / "sealway-session" / "target" / kind) for kind in ("classes", "test-classes")]
    home = subprocess.run(["sh", "-c", 'here=.; . ./jdk.sh; echo "$JAVA_HOME"'], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()
    command = [
        f"{home}/bin/java",
        "-cp",
        ":".join([pit.read_text().strip(), *own, path.read_text().strip()]),
        "org.pitest.mutationtest.commandline.MutationCoverageReport",
        f"--reportDir={reports}",
        f"--targetClasses={','.join(CLASSES + [name + '$*' for name in CLASSES])}",
        f"--targetTests={','.join(TESTS)}",
        f"--sourceDirs={tree / SESSION}",
        f"--mutableCodePaths={own[0]}",
        "--outputFormats=XML",
        "--timestampedReports=false",
        "--threads=2",
        "--timeoutConst=30000",
        "--jvmArgs=-XX:+UseSerialGC,-XX:TieredStopAtLevel=1",
        f"--jvmPath={home}/bin/java",
    ]
    # The tests find the vectors and the registry from the module's folder.
    subprocess.run(command, cwd=tree / "sealway-session", env=os.environ | {"JAVA_HOME": home}, check=True)


def run(keep: bool, start: bool) -> harness.Result:
    reports = harness.report("java", "pit")
    if not start and not (reports / "mutations.xml").exists():
        return harness.Result("java", "PIT 1.30.2", "none", [], [], missing=harness.gaps("Java", CLASSES))
    tree = harness.copy("sdk/java")
    if start:
        _measure(tree, reports)
    files = [f"{SESSION}/{name.replace('.', '/')}.java" for name in CLASSES]
    mutants, unviable = [], 0
    for entry in xml.etree.ElementTree.parse(reports / "mutations.xml").getroot():
        if entry.get("status") == "NON_VIABLE":
            unviable += 1
            continue
        text = {child.tag: child.text or "" for child in entry}
        file = f"{SESSION}/{text['mutatedClass'].split('$')[0].replace('.', '/')}.java"
        line = int(text["lineNumber"])
        source = (tree / file).read_text().splitlines()[line - 1].strip()
        mutants.append(harness.Mutant(file, line, 0, text["description"], source, CAUGHT[entry.get("status")]))
    mutants.sort(key=lambda mutant: (files.index(mutant.file), mutant.line))
    # The report of a run that was ended has not all classes.
    done = {mutant.file for mutant in mutants}
    gaps = harness.gaps("Java", [name for name, file in zip(CLASSES, files, strict=True) if file not in done])
    files = [file for file in files if file in done]
    return harness.Result("java", "PIT 1.30.2", "WireTest, FormsTest, ExchangeTest and InnerHeadersTest, those that reach the line", files, mutants, unviable, missing=gaps)
