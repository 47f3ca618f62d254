// Issues certificates with Go's crypto/x509, so that ours can be compared with them byte for byte. Reads a list of cases as
// JSON from standard input and writes the certificates, base64 of their DER, a line each.
package main

import (
	"crypto"
	_ "crypto/sha1"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"
)

type request struct {
	CSR, CACert, CAKey  string
	Serial              string // hexadecimal
	NotBefore, NotAfter int64
	KeyUsage            int
	Purposes            []int
	CRLPoints           []string
	Algorithm           string
	Subject             string
	IsCA                bool
	PathLength          int // -1: none
	Oldest              bool
	CopiesNames         bool
	SKI                 string
}

var oids = map[string]asn1.ObjectIdentifier{
	"C": {2, 5, 4, 6}, "ST": {2, 5, 4, 8}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11}, "L": {2, 5, 4, 7}, "CN": {2, 5, 4, 3},
}

var hashes = map[string]crypto.Hash{
	"sha-1": crypto.SHA1, "sha-256": crypto.SHA256, "sha-384": crypto.SHA384, "sha-512": crypto.SHA512,
}

var algorithms = map[string]x509.SignatureAlgorithm{
	"sha256WithRSAEncryption": x509.SHA256WithRSA, "sha384WithRSAEncryption": x509.SHA384WithRSA,
	"sha512WithRSAEncryption": x509.SHA512WithRSA, "ecdsa-with-SHA256": x509.ECDSAWithSHA256,
	"ecdsa-with-SHA384": x509.ECDSAWithSHA384, "ecdsa-with-SHA512": x509.ECDSAWithSHA512,
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func block(text string) []byte {
	block, _ := pem.Decode([]byte(text))
	return block.Bytes
}

func subject(text string) []byte {
	var name pkix.RDNSequence
	for _, part := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		name = append(name, pkix.RelativeDistinguishedNameSET{{Type: oids[key], Value: value}})
	}
	return must(asn1.Marshal(name))
}

func extensions(request request, csr *x509.CertificateRequest) []pkix.Extension {
	if request.Oldest {
		return nil
	}
	var list []pkix.Extension
	if !request.IsCA {
		empty := must(asn1.Marshal(struct {
			IsCA bool `asn1:"optional"`
		}{}))
		list = append(list, pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: empty})
	}
	var spki struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	must(asn1.Unmarshal(csr.RawSubjectPublicKeyInfo, &spki))
	digest := hashes[request.SKI].New()
	digest.Write(spki.Key.Bytes)
	id := digest.Sum(nil)[:20]
	return append(list, pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 14}, Value: must(asn1.Marshal(id))})
}

func issue(request request) []byte {
	csr := must(x509.ParseCertificateRequest(block(request.CSR)))
	if err := csr.CheckSignature(); err != nil {
		must(0, err)
	}
	parent := must(x509.ParseCertificate(block(request.CACert)))
	key := must(x509.ParsePKCS8PrivateKey(block(request.CAKey)))
	serial, _ := new(big.Int).SetString(request.Serial, 16)
	template := &x509.Certificate{
		SerialNumber: serial, RawSubject: csr.RawSubject,
		NotBefore: time.Unix(request.NotBefore, 0).UTC(), NotAfter: time.Unix(request.NotAfter, 0).UTC(),
		KeyUsage: x509.KeyUsage(request.KeyUsage), CRLDistributionPoints: request.CRLPoints,
		SignatureAlgorithm: algorithms[request.Algorithm], ExtraExtensions: extensions(request, csr),
		BasicConstraintsValid: request.IsCA || request.Oldest, IsCA: request.IsCA, MaxPathLen: request.PathLength,
		MaxPathLenZero: request.PathLength == 0,
	}
	if request.CopiesNames {
		template.DNSNames, template.IPAddresses = csr.DNSNames, csr.IPAddresses
	}
	for _, purpose := range request.Purposes {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsage(purpose))
	}
	if request.Subject != "" {
		template.RawSubject = subject(request.Subject)
	}
	return must(x509.CreateCertificate(nil, template, parent, csr.PublicKey, key))
}

func main() {
	var requests []request
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		must(0, err)
	}
	for _, request := range requests {
		fmt.Println(base64.StdEncoding.EncodeToString(issue(request)))
	}
}
