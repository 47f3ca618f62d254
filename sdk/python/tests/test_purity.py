"""The pure parts reach no clock, no randomness and no network: told from their syntax trees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "sealway"
PURE = sorted(path for part in ("wire", "crypto", "session", "exchange") for path in (PACKAGE / part).rglob("*.py"))
#: What the pure parts may import from outside of the package.
ALLOWED = {
    "__future__",
    "base64",
    "binascii",
    "collections",
    "cryptography",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "hmac",
    "json",
    "math",
    "re",
    "struct",
    "typing",
}
#: Names of the library below that draw, and doors to more code.
FORBIDDEN = {
    "generate",
    "generate_key",
    "generate_private_key",
    "__import__",
    "exec",
    "eval",
    "print",
    "input",
}
#: The server's encapsulation draws; it comes as an argument of this name and is not the library's.
GIVEN = {("crypto/suite.py", "encapsulate")}


#: Drivers of sealed requests. They neither frame nor encode, and write no error's body.
DRIVER = [
    PACKAGE / "asgi.py",
    *(PACKAGE / "server" / f"{name}.py" for name in ("body", "open", "reject", "seal", "serve")),
]
FOR_DRIVERS = {"session.claim", "wire.header", "wire.inner"}


def imported(path: Path, node: ast.ImportFrom) -> list[str]:
    """The module of the package that a relative import names, by its parts."""
    package = path.relative_to(PACKAGE).parts
    return [*package[: len(package) - node.level], *(node.module or "").split(".")]


@pytest.mark.parametrize("path", DRIVER, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_driver_has_no_bytes_of_a_wire(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level and imported(path, node)[0] in {"wire", "crypto", "session"}:
            assert ".".join(imported(path, node)) in FOR_DRIVERS, ast.dump(node)
        assert not isinstance(node, ast.Import) or all(alias.name != "json" for alias in node.names)


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_pure_module_imports_and_calls_nothing_that_is_not_pure(path: Path) -> None:
    tree = ast.parse(path.read_text())
    name = str(path.relative_to(PACKAGE))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in ALLOWED for alias in node.names), ast.dump(node)
        if isinstance(node, ast.ImportFrom):
            if node.level == 0:
                assert (node.module or "").split(".")[0] in ALLOWED, ast.dump(node)
            else:
                allowed = {"wire", "crypto", "session", "errors"} | (
                    {"exchange"} if name.startswith("exchange") else set()
                )
                assert imported(path, node)[0] in allowed, ast.dump(node)
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                assert called.attr not in FORBIDDEN | {"encapsulate"}, f"{name}:{node.lineno} calls {called.attr}"
            if isinstance(called, ast.Name):
                assert called.id not in FORBIDDEN | {"open"}, f"{name}:{node.lineno} calls {called.id}"
                assert called.id != "encapsulate" or (name, "encapsulate") in GIVEN


def test_there_are_pure_modules_to_check() -> None:
    assert len(PURE) >= 20
