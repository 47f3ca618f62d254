#!/usr/bin/env bash
# Installs what `make publish-dry-run`, `make dist` and `make stranger` need beside what the tests need, and proves that it is
# there. Safe to run again: it does nothing when nothing is missing or changed. Everything but the apt packages and rustup's
# targets goes into .venv at the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
tools=$venv/release
requirements=scripts/requirements-release.txt
stamp=$tools/.setup-release.sha256
actionlint_version=v1.7.12
targets=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu)

fail() {
    printf 'setup-release: %s\n' "$*" >&2
    exit 1
}

# What comes over a network may fail once.
fetched() {
    local try
    for try in 1 2 3; do
        "$@" && return
        ((try == 3)) || sleep $((try * 10))
    done
    return 1
}

# --- commands from Debian's packages ---
missing=()
command -v minisign >/dev/null || missing+=(minisign)
# Signatures of Maven's artefacts.
command -v gpg >/dev/null || missing+=(gnupg)
command -v dpkg-deb >/dev/null || missing+=(dpkg)
command -v lintian >/dev/null || missing+=(lintian)
# The clean root of `make stranger`.
command -v debootstrap >/dev/null || [[ -x /usr/sbin/debootstrap ]] || missing+=(debootstrap)
# Runs the binary for aarch64.
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
# actionlint asks it about scripts in workflows.
command -v shellcheck >/dev/null || missing+=(shellcheck)
if ((${#missing[@]})); then
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}. There is no apt-get here: install them by hand."
    sudo=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "missing: ${missing[*]}. Not root and no sudo: install them by hand."
        sudo=(sudo)
    fi
    echo "setup-release: installing ${missing[*]}"
    fetched "${sudo[@]}" apt-get update -qq </dev/null
    fetched "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
fi

# --- Rust's standard library for static binaries and PKCS#11 modules ---
for target in "${targets[@]}"; do
    [[ -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]] && continue
    command -v rustup >/dev/null || fail "rustc has no $target and there is no rustup: install that target's standard library by hand."
    fetched rustup target add "$target"
done

# --- packages of Python ---
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
want=$({ python3 -c 'import sys; print(sys.version)'; cat "$requirements"; } | sha256sum | cut -d' ' -f1)
if [[ ! -f $stamp || $(<"$stamp") != "$want" ]]; then
    echo "setup-release: making $tools"
    rm -rf "$tools"
    python3 -m venv "$tools"
    fetched "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    printf '%s\n' "$want" >"$stamp"
fi

# --- what Go builds ---
if ! go version -m "$tools/bin/actionlint" 2>/dev/null | grep "actionlint[[:space:]]$actionlint_version" >/dev/null; then
    echo "setup-release: building actionlint $actionlint_version"
    GOBIN=$PWD/$tools/bin fetched go install "github.com/rhysd/actionlint/cmd/actionlint@$actionlint_version"
fi

# --- packages of npm ---
mark=sdk/typescript/node_modules/.installed-lock
if ! cmp -s sdk/typescript/package-lock.json "$mark"; then
    echo "setup-release: installing what sdk/typescript names"
    (cd sdk/typescript && fetched npm ci --no-audit --no-fund --loglevel=error)
    cp sdk/typescript/package-lock.json "$mark"
fi

# --- the proof ---
"$tools/bin/python" -c 'import build, hatchling, cyclonedx.validation.json' || fail "the packages in $tools do not load: remove $tools and run this again."
twine=$("$tools/bin/twine" --version | sed -n 's/^twine version \([0-9.]*\).*/\1/p') || fail "twine does not run from $tools."
zig=$("$tools/bin/python" -m ziglang version) || fail "zig does not run from $tools."
zigbuild=$("$tools/bin/cargo-zigbuild" --version) || fail "cargo-zigbuild does not run from $tools."
minisign -v >/dev/null || fail "minisign does not run."
lintian=$(lintian --version) || fail "lintian does not run."
gpg --version >/dev/null || fail "gpg does not run."
qemu-aarch64 --version >/dev/null || fail "qemu-aarch64 does not run."
shellcheck --version >/dev/null || fail "shellcheck does not run."
PATH=$PATH:/usr/sbin debootstrap --version >/dev/null || fail "debootstrap does not run."
echo "setup-release: ready: twine $twine, zig $zig, $zigbuild, actionlint $actionlint_version, $lintian, ${targets[*]}"
