#!/usr/bin/env bash
# Packs a static binary as an archive and as a Debian package, byte for byte the same at each run. Called by `cargo xtask dist`.
#
#   scripts/package.sh BINARY PROCESSOR DEBIAN_PROCESSOR VERSION SECONDS RUNNER FOLDER
#
# SECONDS is the time of all files; RUNNER runs the binary if it is another processor's; FOLDER has THIRD-PARTY.txt and gets
# the packages.
set -euo pipefail
binary=$1 processor=$2 debian=$3 version=$4 seconds=$5 runner=$6
folder=$(cd "$7" && pwd)
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
tar --directory "$stage/archive" --format=ustar --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner \
    --mode=u+w,go-w,a+rX --create "$name" | gzip --no-name --best >"$folder/$name.tar.gz"

# --- the Debian package ---
root=$stage/root
doc=$root/usr/share/doc/sealway
install -D -m 755 "$binary" "$root/usr/bin/sealway"
install -D -m 644 -t "$root/usr/lib/systemd/system" "$parts"/systemd/*
install -D -m 644 "$parts/completions/sealway.bash" "$root/usr/share/bash-completion/completions/sealway"
install -D -m 644 "$parts/completions/_sealway" "$root/usr/share/zsh/vendor-completions/_sealway"
install -D -m 644 "$parts/completions/sealway.fish" "$root/usr/share/fish/vendor_completions.d/sealway.fish"
install -D -m 644 -t "$root/usr/share/man/man1" "$parts"/man/*
install -D -m 644 -t "$doc" "$folder/THIRD-PARTY.txt" CHANGELOG.md
install -D -m 644 -t "$doc/examples" deploy/config/*.yaml
gzip --no-name --best "$root"/usr/share/man/man1/* "$doc/THIRD-PARTY.txt" "$doc/CHANGELOG.md"
install -D -m 644 deploy/broker/Profiles.yaml "$root/etc/sealway/broker/Profiles.yaml"
cat >"$doc/copyright" <<TEXT
Sealway: https://github.com/sealway/sealway

Copyright (c) 2026 the contributors to Sealway. Licensed under the Apache License, Version 2.0; on Debian its text is in
/usr/share/common-licenses/Apache-2.0. The terms of the packages linked into the binary are in THIRD-PARTY.txt.gz.
TEXT
printf 'sealway (%s) stable; urgency=medium\n\n  * Changes are in CHANGELOG.md.gz.\n\n -- %s  %s\n' \
    "$version" "$(sed -n 's/^Maintainer: //p' deploy/debian/control)" "$(date --utc --date="@$seconds" -R)" |
    gzip --no-name --best >"$doc/changelog.gz"
install -D -m 644 deploy/debian/lintian-overrides "$root/usr/share/lintian/overrides/sealway"

mkdir "$root/DEBIAN"
size=$(du --summarize --apparent-size --block-size=1024 "$root" | cut -f1)
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$debian/; s/@SIZE@/$size/" deploy/debian/control >"$root/DEBIAN/control"
install -m 755 deploy/debian/postinst deploy/debian/postrm "$root/DEBIAN/"
(cd "$root" && find etc -type f -printf '/%p\n' | sort >DEBIAN/conffiles)
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
chmod -R u+w,go-w,a+rX "$root"
package=$folder/sealway_${version}_$debian.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
lintian --fail-on error,warning "$package"
