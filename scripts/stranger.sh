#!/usr/bin/env bash
# Installs the Debian package of target/dist in a clean root of this machine's distribution, starts the demo there without
# systemd, and makes the sealed call that it prints. The answer must come within a minute of the installation's start. Needs
# root, for chroot, and compiles nothing. The root is made once, by debootstrap, in target/stranger.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds_max=60

fail() {
    printf 'stranger: %s\n' "$*" >&2
    exit 1
}

((EUID == 0)) || fail "a clean root needs chroot: run it as root."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
package=$(compgen -G "$target/dist/sealway_*_$(dpkg --print-architecture).deb") || fail "$target/dist has no package: run make dist first."
export PATH=$PATH:/usr/sbin:/sbin
command -v debootstrap >/dev/null || fail "debootstrap is missing: run scripts/setup-release.sh."

# --- a machine that has never seen Sealway ---
base=$target/stranger
if [[ ! -f $base/.complete ]]; then
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016
    site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' | sed -n "s/ $release\$//p" | sort -u | sed -n 1p)
    [[ -n $site ]] || fail "apt names no mirror of $release."
    rm -rf "$base"
    mkdir -p "$base"
    debootstrap --variant=minbase "$release" "$base/root" "$site" >"$base/log" || { tail -n 5 "$base/log" >&2; fail "debootstrap failed."; }
    touch "$base/.complete"
fi
machine=$(mktemp -d)
trap 'rm -rf "$machine"' EXIT
cp -a "$base/root/." "$machine/"
cp "$package" "$machine/sealway.deb"
# debootstrap leaves out what the installer of a machine and every container runtime write.
printf '127.0.0.1 localhost\n::1 localhost\n' >"$machine/etc/hosts"
for tool in cc rustc cargo sealway systemctl; do
    [[ -z $(chroot "$machine" /bin/sh -c "command -v $tool" || true) ]] || fail "the clean root has $tool already."
done

# --- the first minutes of its user ---
cat >"$machine/first" <<'USER'
set -eu
mount -t proc proc /proc
dpkg --install /sealway.deb
sealway --version
sealway demo --port 0 >/demo.log 2>&1 &
tries=0
until call=$(grep '^  sealway call ' /demo.log); do
    tries=$((tries + 1))
    [ "$tries" -le 300 ] || { cat /demo.log; exit 1; }
    sleep 0.1
done
echo "$call"
eval "$call"
USER
start=$EPOCHREALTIME
# All processes of it end with it.
unshare --mount --pid --ipc --uts --fork --kill-child chroot "$machine" /bin/sh /first >"$machine/said" 2>&1 || { cat "$machine/said" >&2; fail "it does not work in a clean root."; }
took=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
sed 's/^/  /' "$machine/said"
grep -q SUCCESS "$machine/said" || fail "the sealed call brought no purchase."
((took < seconds_max * 1000)) || fail "the first sealed call took $took ms, of at most $seconds_max s."

# --- and its removal ---
chroot "$machine" dpkg --purge sealway >/dev/null
left=$(find "$machine" -xdev -name '*sealway*' ! -name sealway.deb ! -path "$machine/proc/*" ! -path "$machine/var/lib/dpkg/*" ! -path "$machine/root/*" ! -path "$machine/tmp/*" -printf '/%P ')
[[ -z $left ]] || fail "the package leaves $left"
echo "stranger: installed, started and answered a sealed call in $took ms, in $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$machine/etc/os-release"); removed without a trace"
