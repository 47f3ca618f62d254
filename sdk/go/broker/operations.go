package broker

import (
	"context"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"sealway.dev/go/broker/internal/wire"
)

// Every operation takes a batch and answers in its order. Errors are an *Error.

// Hash gives digests of inputs, by the profile's algorithm.
func (c *Client) Hash(ctx context.Context, profile string, inputs ...[]byte) (Batch[[]byte], error) {
	answer, err := c.broker.Hash(ctx, &wire.HashRequest{Profile: profile, Inputs: inputs})
	if err != nil {
		return Batch[[]byte]{}, err
	}
	return batch("Hash", answer.GetDescriptor_(), answer.GetDigests(), len(inputs))
}

// SignCertificate returns a certificate (DER) for a request, signed by a key of the store. Repeated after a lost answer, it is
// another certificate with a serial number of its own.
func (c *Client) SignCertificate(ctx context.Context, request *CertificateRequest) (der []byte, by Descriptor, err error) {
	asked := &wire.SignCertificateRequest{
		Profile: request.Profile, Csr: request.CSR, CaKeyRef: request.CAKey, CaCertificate: request.CACertificate,
		NotBefore: seconds(request.NotBefore), NotAfter: seconds(request.NotAfter), CrlDistributionPoints: request.CRLPoints,
	}
	if request.Subject != "" {
		asked.Subject = proto.String(request.Subject)
	}
	answer, err := c.broker.SignCertificate(ctx, asked)
	if err != nil {
		return nil, Descriptor{}, err
	}
	return answer.GetDer(), descriptor(answer.GetDescriptor_()), nil
}

func seconds(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return proto.Int64(at.Unix())
}

// Encrypt seals plaintexts under the current version of a key.
func (c *Client) Encrypt(ctx context.Context, profile, key string, plains ...Plain) (Batch[Cipher], error) {
	asked := &wire.EncryptRequest{Profile: profile, KeyId: key}
	for _, plain := range plains {
		asked.Plains = append(asked.Plains, &wire.Plain{Plaintext: plain.Plaintext, Aad: plain.AAD, Nonce: plain.Nonce})
	}
	answer, err := c.broker.Encrypt(ctx, asked)
	if err != nil {
		return Batch[Cipher]{}, err
	}
	var made []Cipher
	for _, one := range answer.GetCiphers() {
		made = append(made, cipherOf(one))
	}
	return batch("Encrypt", answer.GetDescriptor_(), made, len(plains))
}

// Decrypt opens ciphertexts, each by itself: one that does not open is refused, and the others are opened all the same.
func (c *Client) Decrypt(ctx context.Context, profile, key string, ciphers ...Cipher) (Batch[Decryption], error) {
	answer, err := c.broker.Decrypt(ctx, &wire.DecryptRequest{Profile: profile, KeyId: key, Ciphers: messages(ciphers)})
	if err != nil {
		return Batch[Decryption]{}, err
	}
	var made []Decryption
	for _, one := range answer.GetOpened() {
		switch said := one.GetResult().(type) {
		case *wire.Opened_Plaintext:
			made = append(made, Decryption{Plaintext: said.Plaintext})
		case *wire.Opened_Refusal:
			made = append(made, Decryption{Refusal: refusalOf(said.Refusal)})
		default:
			return Batch[Decryption]{}, odd("Decrypt", "an answer holds neither a plaintext nor a refusal")
		}
	}
	return batch("Decrypt", answer.GetDescriptor_(), made, len(ciphers))
}

// Rewrap seals anew under the key's current version what an earlier one sealed; the plaintext does not leave the broker.
func (c *Client) Rewrap(ctx context.Context, profile, key string, ciphers ...Cipher) (Batch[RewrapResult], error) {
	answer, err := c.broker.Rewrap(ctx, &wire.RewrapRequest{Profile: profile, KeyId: key, Ciphers: messages(ciphers)})
	if err != nil {
		return Batch[RewrapResult]{}, err
	}
	var made []RewrapResult
	for _, one := range answer.GetRewrapped() {
		switch said := one.GetResult().(type) {
		case *wire.Rewrapped_Cipher:
			made = append(made, RewrapResult{Cipher: cipherOf(said.Cipher)})
		case *wire.Rewrapped_Refusal:
			made = append(made, RewrapResult{Refusal: refusalOf(said.Refusal)})
		default:
			return Batch[RewrapResult]{}, odd("Rewrap", "an answer holds neither a ciphertext nor a refusal")
		}
	}
	return batch("Rewrap", answer.GetDescriptor_(), made, len(ciphers))
}

// Sign signs inputs with the current version of a key.
func (c *Client) Sign(ctx context.Context, profile, key string, inputs ...[]byte) (Batch[[]byte], error) {
	answer, err := c.broker.Sign(ctx, &wire.SignRequest{Profile: profile, KeyId: key, Inputs: inputs})
	if err != nil {
		return Batch[[]byte]{}, err
	}
	return batch("Sign", answer.GetDescriptor_(), answer.GetSignatures(), len(inputs))
}

// Verify says of each signature whether it is one.
func (c *Client) Verify(ctx context.Context, profile, key string, signed ...SignedMessage) (Batch[bool], error) {
	answer, err := c.broker.Verify(ctx, &wire.VerifyRequest{Profile: profile, KeyId: key, Signed: signedMessages(signed)})
	if err != nil {
		return Batch[bool]{}, err
	}
	return batch("Verify", answer.GetDescriptor_(), answer.GetValid(), len(signed))
}

// Mac gives tags of inputs.
func (c *Client) Mac(ctx context.Context, profile, key string, inputs ...[]byte) (Batch[[]byte], error) {
	answer, err := c.broker.Mac(ctx, &wire.MacRequest{Profile: profile, KeyId: key, Inputs: inputs})
	if err != nil {
		return Batch[[]byte]{}, err
	}
	return batch("Mac", answer.GetDescriptor_(), answer.GetTags(), len(inputs))
}

// VerifyMac says of each tag, in Signature, whether it is one.
func (c *Client) VerifyMac(ctx context.Context, profile, key string, signed ...SignedMessage) (Batch[bool], error) {
	answer, err := c.broker.VerifyMac(ctx, &wire.VerifyMacRequest{Profile: profile, KeyId: key, Signed: signedMessages(signed)})
	if err != nil {
		return Batch[bool]{}, err
	}
	return batch("VerifyMac", answer.GetDescriptor_(), answer.GetValid(), len(signed))
}

// Derive derives keys from a version of a key; 0 takes the current one.
func (c *Client) Derive(ctx context.Context, profile, key string, version uint32, derivations ...Derivation) (Batch[Secret], error) {
	asked := &wire.DeriveRequest{Profile: profile, KeyId: key, KeyVersion: version}
	for _, one := range derivations {
		asked.Derivations = append(asked.Derivations, &wire.Derivation{Salt: one.Salt, Info: one.Info, Length: one.Length})
	}
	answer, err := c.broker.Derive(ctx, asked)
	if err != nil {
		return Batch[Secret]{}, err
	}
	return batch("Derive", answer.GetDescriptor_(), secrets(answer.GetOutputs()), len(derivations))
}

func secrets(raw [][]byte) []Secret {
	made := make([]Secret, len(raw))
	for at, one := range raw {
		made[at] = one
	}
	return made
}

// Random gives count times length random bytes, 64 KiB together at most.
func (c *Client) Random(ctx context.Context, profile string, length, count uint32) (Batch[Secret], error) {
	answer, err := c.broker.Random(ctx, &wire.RandomRequest{Profile: profile, Length: length, Count: count})
	if err != nil {
		return Batch[Secret]{}, err
	}
	return batch("Random", answer.GetDescriptor_(), secrets(answer.GetOutputs()), int(max(count, 1)))
}

// EncapsulateTo makes count shared secrets for a key of the store.
func (c *Client) EncapsulateTo(ctx context.Context, profile, key string, count uint32) (Batch[Encapsulation], error) {
	return c.encapsulate(ctx, &wire.EncapsulateRequest{Profile: profile, To: &wire.EncapsulateRequest_KeyId{KeyId: key}, Count: count})
}

// EncapsulateToPublic makes count shared secrets for a public key that the caller has.
func (c *Client) EncapsulateToPublic(ctx context.Context, profile string, public []byte, count uint32) (Batch[Encapsulation], error) {
	return c.encapsulate(ctx, &wire.EncapsulateRequest{Profile: profile, To: &wire.EncapsulateRequest_PublicKey{PublicKey: public}, Count: count})
}

func (c *Client) encapsulate(ctx context.Context, asked *wire.EncapsulateRequest) (Batch[Encapsulation], error) {
	answer, err := c.broker.Encapsulate(ctx, asked)
	if err != nil {
		return Batch[Encapsulation]{}, err
	}
	var made []Encapsulation
	for _, one := range answer.GetEncapsulated() {
		made = append(made, Encapsulation{one.GetCiphertext(), one.GetSharedSecret()})
	}
	return batch("Encapsulate", answer.GetDescriptor_(), made, int(max(asked.GetCount(), 1)))
}

// Decapsulate returns the shared secrets behind ciphertexts; version 0 takes the current one.
func (c *Client) Decapsulate(ctx context.Context, profile, key string, version uint32, ciphertexts ...[]byte) (Batch[Secret], error) {
	answer, err := c.broker.Decapsulate(ctx, &wire.DecapsulateRequest{Profile: profile, KeyId: key, KeyVersion: version, Ciphertexts: ciphertexts})
	if err != nil {
		return Batch[Secret]{}, err
	}
	return batch("Decapsulate", answer.GetDescriptor_(), secrets(answer.GetSharedSecrets()), len(ciphertexts))
}

// Unwrap decrypts content keys of JWE with a version of a key; 0 takes the current one. An encrypted key that does not decrypt gives
// another key of its length, and no error.
func (c *Client) Unwrap(ctx context.Context, profile, key string, version uint32, wrapped ...WrappedKey) (Batch[Secret], error) {
	asked := &wire.UnwrapRequest{Profile: profile, KeyId: key, KeyVersion: version}
	for _, one := range wrapped {
		asked.Wrapped = append(asked.Wrapped, &wire.WrappedKey{EncryptedKey: one.EncryptedKey, Length: one.Length})
	}
	answer, err := c.broker.Unwrap(ctx, asked)
	if err != nil {
		return Batch[Secret]{}, err
	}
	return batch("Unwrap", answer.GetDescriptor_(), secrets(answer.GetContentKeys()), len(wrapped))
}

// Information is what the broker says of itself.
func (c *Client) Information(ctx context.Context) (*Information, error) {
	answer, err := c.broker.Information(ctx, &wire.InformationRequest{})
	if err != nil {
		return nil, err
	}
	return &Information{
		answer.GetVersion(), answer.GetModule(), answer.GetModuleVersion(), answer.GetCertificate(), answer.GetIsFips(), answer.GetProfiles(),
	}, nil
}

// Health says whether the broker serves: SERVING, NOT_SERVING or UNKNOWN.
func (c *Client) Health(ctx context.Context) (string, error) {
	answer, err := grpc_health_v1.NewHealthClient(c.connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return "", err
	}
	return answer.GetStatus().String(), nil
}
