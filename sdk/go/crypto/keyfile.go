package crypto

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// seedForms are what stands in front of the seed in a PKCS#8 key of ML-DSA in the form seed (RFC 9881 section 6).
var seedForms = map[SignatureAlgorithm][]byte{
	MLDSA65: mustHex("3034020100300b06096086480165030403120422" + "8020"),
	MLDSA87: mustHex("3034020100300b06096086480165030403130422" + "8020"),
}

// oidMLDSA is in front of the last byte of an ML-DSA algorithm's identifier.
var oidMLDSA = mustHex("06096086480165030403")

func mustHex(text string) []byte {
	data, _ := hex.DecodeString(text)
	return data
}

// ParseIdentityPKCS8 makes an identity key or a root of a PKCS#8 key in PEM or DER, of a composite algorithm of two, one after the other and
// that of the curve first, as `sealway identity generate` writes them. A key of ML-DSA is in the form seed. An error names the key at fault.
func ParseIdentityPKCS8(data []byte) (Signer, error) {
	documents, err := splitKeys(data)
	if err != nil {
		return nil, err
	}
	var parts []Signer
	for n, document := range documents {
		part, err := parsePKCS8(document)
		if err != nil {
			return nil, fmt.Errorf("key %d of the key file %w", n+1, err)
		}
		parts = append(parts, part)
	}
	switch len(parts) {
	case 1:
		return parts[0], nil
	case 2:
		key, err := Composite(parts[0], parts[1])
		if err != nil {
			return nil, errors.New("the two keys of the key file are no composite key: the first is of P-256 and the second of ML-DSA-65, or P-384 and ML-DSA-87")
		}
		return key, nil
	}
	return nil, fmt.Errorf("the key file has %d keys: it has 1 PKCS#8 key, or 2 of a composite key", len(parts))
}

// splitKeys cuts PEM blocks, or DER documents one after the other.
func splitKeys(data []byte) (documents [][]byte, err error) {
	if !bytes.Contains(data, []byte("-----BEGIN ")) {
		for len(data) > 0 && len(documents) < 3 {
			var document asn1.RawValue
			if data, err = asn1.Unmarshal(data, &document); err != nil {
				return nil, errors.New("the key file is neither PEM nor DER")
			}
			documents = append(documents, document.FullBytes)
		}
		return documents, nil
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PRIVATE KEY" {
			return nil, fmt.Errorf("block %d of the key file is %.64q: it has to be PRIVATE KEY (PKCS#8, not encrypted)", len(documents)+1, block.Type)
		}
		documents = append(documents, block.Bytes)
	}
	return documents, nil
}

func parsePKCS8(data []byte) (Signer, error) {
	for algorithm, head := range seedForms {
		if seed, found := bytes.CutPrefix(data, head); found && len(seed) == 32 {
			if !algorithm.Available() {
				return nil, fmt.Errorf("is of %s, which needs the module sealway.dev/go/mldsa: import it", algorithm)
			}
			return algorithm.ParseKey(seed)
		}
	}
	if bytes.Contains(data[:min(len(data), 32)], oidMLDSA) {
		return nil, errors.New("is of ML-DSA, but not of ML-DSA-65 or ML-DSA-87 in the form seed: write it anew with openssl pkey -provparam ml-dsa.output_formats=seed-only")
	}
	// The library's errors may quote what they read.
	key, _ := x509.ParsePKCS8PrivateKey(data)
	private, _ := key.(*ecdsa.PrivateKey)
	for _, algorithm := range []SignatureAlgorithm{ES256, ES384} {
		classical, _ := algorithm.parts()
		if private == nil || private.Curve != classical.Curve {
			continue
		}
		scalar, err := private.Bytes()
		if err != nil {
			return nil, errors.New("has an invalid key")
		}
		defer clear(scalar)
		return algorithm.ParseKey(scalar)
	}
	return nil, errors.New("is no PKCS#8 key of P-256, P-384, ML-DSA-65 or ML-DSA-87")
}
