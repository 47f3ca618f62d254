#!/usr/bin/env bash
# Draws docs/pictures/load-report-*.png anew: the HTML report of a run that stalls now and then, in Chromium, light and dark,
# on a desktop and on a phone. The run is the tests' own sample, so that the pictures change only when the page does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf 'picture-load-report: %s\n' "$*" >&2
    exit 1
}
command -v chromium >/dev/null || fail "chromium is missing: run scripts/setup-tests.sh"
command -v pngquant >/dev/null || fail "pngquant is missing: apt-get install pngquant"

samples=$(mktemp -d)
trap 'rm -rf "$samples"' EXIT
echo "picture-load-report: writing the sample"
SEALWAY_REPORT_SAMPLES=$samples cargo test -q --locked -p sealway-load --lib every_kind_of_run_is_written_in_every_form >/dev/null
[[ -s $samples/stalled.html ]] || fail "the test wrote no page."

mkdir -p docs/pictures
# name, width and height, Chromium's number of the colour scheme (0 dark, 1 light)
while read -r name size scheme; do
    picture=docs/pictures/load-report-$name.png
    timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$samples/profile" \
        --blink-settings=preferredColorScheme="$scheme" --window-size="$size" --screenshot="$samples/$name.png" \
        "file://$samples/stalled.html" >/dev/null 2>&1 || fail "chromium drew no $name."
    pngquant --force --strip --speed 1 --output "$picture" 64 "$samples/$name.png"
    bytes=$(stat -c %s "$picture")
    ((bytes < 150 * 1024)) || fail "$picture has $bytes bytes, of at most 153600."
    echo "picture-load-report: $picture, $bytes bytes"
done <<'PICTURES'
light 1280,1480 1
dark 1280,1480 0
phone-light 390,1400 1
phone-dark 390,1400 0
PICTURES
