#!/usr/bin/env bash
# Installs what `make evidence` needs beside what the tests need, and proves that it is there. Safe to run again. Each section
# is of one kind of evidence and needs no other section; with names as arguments, only those sections run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
cargo_mutants_version=27.1.0

fail() {
    printf 'setup-evidence: %s\n' "$*" >&2
    exit 1
}

wanted() {
    local name=$1
    shift
    (($# == 0)) || [[ " $* " == *" $name "* ]]
}

# --- mutation ---
if wanted mutation "$@"; then
    if [[ ! -x $venv/bin/cargo-mutants || $("$venv/bin/cargo-mutants" mutants --version) != *" $cargo_mutants_version" ]]; then
        echo "setup-evidence: building cargo-mutants $cargo_mutants_version"
        CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/sealway/cargo-mutants cargo install --quiet --locked --root "$venv" \
            --version "$cargo_mutants_version" cargo-mutants
    fi
    found=$("$venv/bin/cargo-mutants" mutants --version) || fail "cargo-mutants does not run from $venv."
    [[ $found == *" $cargo_mutants_version" ]] || fail "found $found, expected $cargo_mutants_version."
fi
