#!/usr/bin/env bash
# Makes the certification requests that crates/broker/tests/certificates.rs has certificates issued for, and the CAs that
# issue them. Keys of requests are thrown away: nobody can sign in the name of a committed request. Keys of the CAs stay,
# for they sign in the tests; nobody trusts them. A key of 15380 bits takes a quarter of an hour.
# Run it again only to add a request: what is there is kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../crates/broker/tests/data"
export LC_ALL=C
keys=$(mktemp -d)
trap 'rm -rf "$keys"' EXIT
begin=20230101000000Z
end=20330101000000Z

# request NAME SIGNATURE-OPTIONS -- KEY-OPTIONS: one request, of a new key.
request() {
    local name=$1 sign=() key=()
    shift
    while [[ $1 != -- ]]; do sign+=("$1") && shift; done
    shift
    key=("$@")
    [[ ! -f csr/$name.pem ]] || return 0
    echo "make-broker-csrs: $name"
    openssl genpkey "${key[@]}" -out "$keys/$name.pem" 2>/dev/null
    if [[ -n ${point_form:-} ]]; then
        openssl ec -in "$keys/$name.pem" -conv_form "$point_form" -out "$keys/$name.pem" 2>/dev/null
    fi
    openssl req -new -key "$keys/$name.pem" -subj "/C=DE/O=Example/CN=$name.example" -out "csr/$name.pem" "${sign[@]}"
    rm -f "$keys/$name.pem"
}
ec() { request "$1" "${@:3}" -- -algorithm EC -pkeyopt "ec_paramgen_curve:$2" -pkeyopt ec_param_enc:named_curve; }
rsa() { request "$1" "${@:3}" -- -algorithm RSA -pkeyopt "rsa_keygen_bits:$2"; }
# ca NAME KEY-OPTIONS: one CA, self-signed, pathlen 1, its key in PKCS#8.
ca() {
    local name=$1
    shift
    [[ ! -f ca/$name.pem ]] || return 0
    echo "make-broker-csrs: CA $name"
    openssl genpkey "$@" -out "ca/$name-key.pem" 2>/dev/null
    openssl req -new -key "ca/$name-key.pem" -subj "/C=DE/O=Example/CN=Test CA $name" -out "$keys/ca.csr"
    printf '%s\n' 'basicConstraints=critical,CA:TRUE,pathlen:1' 'keyUsage=critical,keyCertSign,cRLSign' \
        'subjectKeyIdentifier=hash' >"$keys/ca.ext"
    # `openssl ca` alone takes both ends of the validity.
    : >"$keys/index"
    openssl ca -batch -selfsign -rand_serial -notext -md "${digest:-sha512}" -keyfile "ca/$name-key.pem" -in "$keys/ca.csr" \
        -startdate "$begin" -enddate "$end" -extfile "$keys/ca.ext" -config <(printf '%s\n' '[ca]' 'default_ca=d' '[d]' \
            "database=$keys/index" "new_certs_dir=$keys" "serial=$keys/serial" 'policy=p' '[p]' 'countryName=optional' 'organizationName=optional' \
            'commonName=supplied') -out "ca/$name.pem" 2>"$keys/log" || { cat "$keys/log" >&2 && exit 1; }
}

mkdir -p csr ca
ec p224 P-224 -sha256
ec p256 P-256 -sha256
ec p384 P-384 -sha384
ec p521 P-521 -sha512
ec secp256k1 secp256k1 -sha256
ec brainpool brainpoolP256r1 -sha256
point_form=compressed ec compressed P-256 -sha256
request explicit -sha256 -- -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit
for bits in 1024 2048 3072 4096 8192 15380; do
    rsa "rsa$bits" "$bits" -sha256
done
request ed25519 -- -algorithm ED25519
san=(-addext 'subjectAltName=DNS:www.example.com,IP:192.0.2.1' -addext 'keyUsage=critical,keyCertSign'
    -addext 'basicConstraints=critical,CA:TRUE' -addext 'tlsfeature=status_request')
ec san P-256 -sha256 "${san[@]}"
ec san-p521 P-521 -sha512 "${san[@]}"
rsa san-rsa3072 3072 -sha256 "${san[@]}"
ec sha1 P-256 -sha1
ec sha1-p521 P-521 -sha1
rsa sha1-rsa3072 3072 -sha1
rsa md5-rsa3072 3072 -md5
rsa pss-rsa3072 3072 -sha384 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:48

# The same requests with one bit of the signature turned.
for name in p256 p521 rsa3072 rsa8192; do
    openssl req -in "csr/$name.pem" -outform DER | python3 -c '
import base64, sys, textwrap
der = bytearray(sys.stdin.buffer.read())
der[-1] ^= 1
body = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
print(f"-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----")' >"csr/bad-$name.pem"
done

ca rsa4096 -algorithm RSA -pkeyopt rsa_keygen_bits:4096
ca p256 -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve
ca p384 -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -pkeyopt ec_param_enc:named_curve
ca p521 -algorithm EC -pkeyopt ec_paramgen_curve:P-521 -pkeyopt ec_param_enc:named_curve
echo 'make-broker-csrs: done'
