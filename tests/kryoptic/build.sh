#!/usr/bin/env bash
# Builds the module into a folder: tests/kryoptic/build.sh FOLDER. Cargo.lock pins all sources, OpenSSL's among them.
# LIBCLANG_PATH names the folder of libclang, from which Cargo makes bindings to C.
set -euo pipefail
folder=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"

# What a token does not need: a third of the library.
without=(
    apps aria argon2 atexit bf blake2 camellia cast cmp cms comp ct deprecated des dh docs dsa ec2m engine gost idea legacy lms
    md4 mdc2 ml-kem module ocb ocsp rc2 rc4 rc5 rmd160 scrypt seed shared siv slh-dsa sm2 sm3 sm4 sock srp tests ts ui-console
    whirlpool
)
metadata=$(cargo metadata --locked --format-version 1)
manifest=$(python3 -c 'import json, sys
print(*(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "openssl-src"))' <<<"$metadata")
rm -rf "$folder/openssl"
cp -r "$(dirname "$manifest")/openssl" "$folder/openssl"
(
    cd "$folder/openssl"
    ./Configure "${without[@]/#/no-}" enable-ec_nistp_64_gcc_128 CFLAGS=-O1 >configure.log
    make -s -j"$(nproc)" build_generated libcrypto.a >make.log 2>&1 || { tail -n 20 make.log >&2; exit 1; }
)
# libclang is without the compiler's own headers: those of cc serve.
headers=-I$(cc -print-file-name=include)
BINDGEN_EXTRA_CLANG_ARGS=$headers KRYOPTIC_OPENSSL_SOURCES=$folder/openssl CARGO_TARGET_DIR=$folder/target \
    cargo build --quiet --release --locked
install -m 644 "$folder/target/release/libkryoptic_pkcs11.so" "$folder/libkryoptic_pkcs11.so"
