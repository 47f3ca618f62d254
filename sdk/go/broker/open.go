package broker

import (
	"context"
	"crypto/rand"

	"sealway.dev/go/broker/internal/open"
)

// Two calls of the wire of the Open Crypto Broker that ours has no like of. They have the same bounds, retries and errors.

// Benchmark has a broker that was started with --dev time its operations. The answer is JSON.
func (c *Client) Benchmark(ctx context.Context) (string, error) {
	answer, err := open.NewCryptoGrpcDevClient(c.connection).Benchmark(ctx, &open.BenchmarkRequest{Metadata: &open.MetadataW1{Id: rand.Text()}})
	return answer.GetBenchmarkResults(), err
}

// KeyedCertificateRequest is a certificate to be signed by a key that the caller has, and sends. Printed, it does not show the key.
type KeyedCertificateRequest struct {
	Profile string
	// CSR and CACertificate are PEM.
	CSR, CACertificate string
	// CAKey is PEM.
	CAKey Secret
	// Subject is another than the request's; the request's where empty.
	Subject string
	// CRLPoints are at most 16 http(s) URLs.
	CRLPoints []string
}

// SignCertificateWithKey returns a certificate (DER) for a request, signed by a key that crosses the socket. A key of the store
// does not: SignCertificate.
func (c *Client) SignCertificateWithKey(ctx context.Context, request *KeyedCertificateRequest) ([]byte, error) {
	asked := &open.SignCertificateRequest{
		Profile: request.Profile, Csr: request.CSR, CaPrivateKey: string(request.CAKey), CaCert: request.CACertificate,
		Metadata: ownMetadata(), CrlDistributionPoints: request.CRLPoints, OutputFormat: open.SignOutputFormat_DER,
	}
	if request.Subject != "" {
		asked.Subject = &request.Subject
	}
	answer, err := open.NewCryptoGrpcClient(c.connection).SignCertificate(ctx, asked)
	if err != nil {
		return nil, err
	}
	return answer.GetDer(), nil
}

func ownMetadata() *open.Metadata { return &open.Metadata{Id: rand.Text()} }
