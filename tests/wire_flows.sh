#!/bin/sh
# Wires 1 and 2 against a real `sealway serve`, with curl and Python's `cryptography` alone: nothing of Sealway's own
# stands on the client's side. Prints every step and ends with "N passed, 0 failed".
#
#   tests/wire_flows.sh              builds the binary if there is none
#   SEALWAY_BIN=path tests/wire_flows.sh
set -eu
cd "$(dirname "$0")/.."

binary=${SEALWAY_BIN:-${CARGO_TARGET_DIR:-target}/debug/sealway}
if [ ! -x "$binary" ]; then
    if [ -n "${SEALWAY_BIN:-}" ]; then
        echo "wire_flows: SEALWAY_BIN is $binary, which is no program" >&2
        exit 1
    fi
    cargo build --package sealway-cli
fi
command -v curl >/dev/null || { echo "wire_flows: curl is not installed" >&2; exit 1; }
python=python3
if [ -x .venv/bin/python ]; then python=.venv/bin/python; fi
"$python" -c 'import cryptography' || {
    echo "wire_flows: $python has no \"cryptography\"; pip install cryptography (a .venv here is used if there is one)" >&2
    exit 1
}

folder=$(mktemp -d)
server=
finish() {
    status=$?
    trap - EXIT
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    if [ "$status" -ne 0 ] && [ -f "$folder/log" ]; then
        echo "--- the server's log" >&2
        cat "$folder/log" >&2
    fi
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

cat >"$folder/serve.yaml" <<'CONFIG'
listeners:
  - address: "127.0.0.1:0"
routes:
  - match: { path_prefix: ["/session/", "/v1/session/"], path: ["/health", "/ready"] }
    sessions: {}
  - match: { path_prefix: "/transaction/" }
    sealed: required
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
sessions:
  store: "file:sessions.redb"
  allow_generated_kek: true
  anonymous_paths: ["/transaction/purchase"]
telemetry: { log_format: json, log_level: info }
CONFIG

"$binary" serve --config "$folder/serve.yaml" 2>"$folder/log" &
server=$!
base=
tries=0
while [ -z "$base" ]; do
    kill -0 "$server" 2>/dev/null || { echo "wire_flows: the server did not start" >&2; server=; exit 1; }
    tries=$((tries + 1))
    [ "$tries" -le 300 ] || { echo "wire_flows: the server does not say where it serves" >&2; exit 1; }
    sleep 0.1
    base=$(sed -n 's/.*"message":"serving".*"addresses":"\[\([0-9.:]*\).*/http:\/\/\1/p' "$folder/log")
done
echo "serving on $base"
"$python" tests/wire_flows.py "$base"
