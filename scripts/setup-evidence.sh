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

# --- mutation-sdks ---
if wanted mutation-sdks "$@"; then
    mutation=$PWD/target/mutation-sdks/tools
    gremlins_version=v0.6.0
    mutmut_version=3.8.1
    mkdir -p "$mutation/bin"
    if [[ ! -x $mutation/bin/gremlins ]] || ! go version -m "$mutation/bin/gremlins" | grep "gremlins[[:space:]]$gremlins_version" >/dev/null; then
        echo "setup-evidence: building gremlins $gremlins_version"
        GOBIN=$mutation/bin go install "github.com/go-gremlins/gremlins/cmd/gremlins@$gremlins_version"
    fi
    if [[ ! -x $mutation/python/bin/mutmut ]]; then
        echo "setup-evidence: installing mutmut $mutmut_version"
        # Beside what the SDK's tests need, in a folder of its own.
        python3 -m venv "$mutation/python"
        "$mutation/python/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r sdk/python/requirements.txt
        "$mutation/python/bin/pip" install --quiet --disable-pip-version-check "mutmut==$mutmut_version"
        ln -sf ../python/bin/mutmut "$mutation/bin/mutmut"
    fi
    if [[ ! evidence/mutation-sdks/typescript/node_modules/.package-lock.json -nt evidence/mutation-sdks/typescript/package-lock.json ]]; then
        echo "setup-evidence: installing Stryker"
        (cd evidence/mutation-sdks/typescript && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
    fi
    if [[ ! $mutation/pit-classpath -nt evidence/mutation-sdks/java/pom.xml ]]; then
        echo "setup-evidence: fetching PIT"
        mvn -B -q -ntp -f evidence/mutation-sdks/java/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.9.0:build-classpath \
            "-Dmdep.outputFile=$mutation/pit-classpath"
    fi
fi

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

# --- constant-time ---
if wanted constant-time "$@"; then
    command -v valgrind >/dev/null || fail "valgrind is not installed: apt-get install valgrind."
    valgrind --version >/dev/null || fail "valgrind does not run."
fi

# --- memory ---
if wanted memory "$@"; then
    cargo +nightly --version >/dev/null 2>&1 || fail "there is no nightly toolchain, which the sanitizer needs: rustup toolchain install nightly."
    libasan=$(cc -print-file-name=libasan.so)
    [[ $libasan == /* ]] || fail "cc has no libasan.so: install gcc with its sanitizers (libgcc-12-dev of Debian has them)."
    command -v nm >/dev/null || fail "nm is not installed: apt-get install binutils."
fi
