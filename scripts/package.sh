#!/usr/bin/env bash
# Packs a static binary and the PKCS#11 module as an archive and as Debian packages, byte for byte the same at each run. Called by
# `cargo xtask dist`. The module has a package of its own: it needs the C library of Debian 12, and the binary none.
#
#   scripts/package.sh BINARY MODULE PROCESSOR DEBIAN_PROCESSOR VERSION SECONDS RUNNER FOLDER
#
# SECONDS is the time of all files; RUNNER runs the binary if it is another processor's; FOLDER has THIRD-PARTY.txt and gets
# the packages.
set -euo pipefail
binary=$1 module=$2 processor=$3 debian=$4 version=$5 seconds=$6 runner=$7
folder=$(cd "$8" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
umask 022
export SOURCE_DATE_EPOCH=$seconds LC_ALL=C

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
sealway() { ${runner:+"$runner"} "$binary" "$@"; }

# --- files of both ---
parts=$stage/parts
mkdir -p "$parts/man" "$parts/completions" "$parts/systemd"
sealway man "$parts/man"
sealway completions bash >"$parts/completions/sealway.bash"
sealway completions zsh >"$parts/completions/_sealway"
sealway completions fish >"$parts/completions/sealway.fish"
cp deploy/systemd/*.service "$parts/systemd/"

# --- the archive ---
name=sealway-$version-$processor-linux
archive=$stage/archive/$name
mkdir -p "$archive"
cp -R "$parts"/* "$archive/"
cp LICENSE "$folder/THIRD-PARTY.txt" "$archive/"
cp -R deploy/config "$archive/config"
install -m 755 "$binary" "$archive/sealway"
install -D -m 644 "$module" "$archive/pkcs11/libsealway_pkcs11.so"
install -m 644 deploy/pkcs11/pkcs11.toml deploy/pkcs11/sealway.module "$archive/pkcs11/"
tar --directory "$stage/archive" --format=ustar --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner \
    --mode=u+w,go-w,a+rX --create "$name" | gzip --no-name --best >"$folder/$name.tar.gz"

# --- the Debian packages ---

# Writes what every package has: changes and terms, compressed.
documents() {
    local name=$1 root=$2
    local doc=$root/usr/share/doc/$name
    install -D -m 644 -t "$doc" "$folder/THIRD-PARTY.txt" CHANGELOG.md
    gzip --no-name --best "$doc/THIRD-PARTY.txt" "$doc/CHANGELOG.md"
    cat >"$doc/copyright" <<TEXT
Sealway: https://github.com/sealway/sealway

Copyright (c) 2026 the contributors to Sealway. Licensed under the Apache License, Version 2.0; on Debian its text is in
/usr/share/common-licenses/Apache-2.0. The terms of the packages linked into the binary are in THIRD-PARTY.txt.gz.
TEXT
    printf '%s (%s) stable; urgency=medium\n\n  * Changes are in CHANGELOG.md.gz.\n\n -- %s  %s\n' \
        "$name" "$version" "$(sed -n 's/^Maintainer: //p' deploy/debian/control)" "$(date --utc --date="@$seconds" -R)" |
        gzip --no-name --best >"$doc/changelog.gz"
}

# Packs a root whose other control files are in place.
pack() {
    local name=$1 root=$2 control=$3
    local size package=$folder/${name}_${version}_$debian.deb
    size=$(du --summarize --apparent-size --block-size=1024 --exclude=DEBIAN "$root" | cut -f1)
    mkdir -p "$root/DEBIAN"
    sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$debian/; s/@SIZE@/$size/" "$control" >"$root/DEBIAN/control"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    chmod -R u+w,go-w,a+rX "$root"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
    lintian --fail-on error,warning "$package"
}

root=$stage/root
install -D -m 755 "$binary" "$root/usr/bin/sealway"
install -D -m 644 -t "$root/usr/lib/systemd/system" "$parts"/systemd/*
install -D -m 644 "$parts/completions/sealway.bash" "$root/usr/share/bash-completion/completions/sealway"
install -D -m 644 "$parts/completions/_sealway" "$root/usr/share/zsh/vendor-completions/_sealway"
install -D -m 644 "$parts/completions/sealway.fish" "$root/usr/share/fish/vendor_completions.d/sealway.fish"
install -D -m 644 -t "$root/usr/share/man/man1" "$parts"/man/*
gzip --no-name --best "$root"/usr/share/man/man1/*
documents sealway "$root"
install -D -m 644 -t "$root/usr/share/doc/sealway/examples" deploy/config/*.yaml
install -D -m 644 deploy/broker/Profiles.yaml "$root/etc/sealway/broker/Profiles.yaml"
install -D -m 644 deploy/debian/lintian-overrides "$root/usr/share/lintian/overrides/sealway"
mkdir "$root/DEBIAN"
install -m 755 deploy/debian/postinst deploy/debian/postrm "$root/DEBIAN/"
(cd "$root" && find etc -type f -printf '/%p\n' | sort >DEBIAN/conffiles)
pack sealway "$root" deploy/debian/control

# p11-kit loads no module for which nobody asked: its file is a sample.
root=$stage/root-pkcs11
install -D -m 644 "$module" "$root/usr/lib/$processor-linux-gnu/pkcs11/libsealway_pkcs11.so"
documents sealway-pkcs11 "$root"
install -D -m 644 -t "$root/usr/share/doc/sealway-pkcs11/examples" deploy/pkcs11/pkcs11.toml deploy/pkcs11/sealway.module
pack sealway-pkcs11 "$root" deploy/pkcs11/control
