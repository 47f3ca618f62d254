package broker

import (
	"context"

	"sealway.dev/go/broker/internal/wire"
)

func keyAnswer(answer *wire.KeyResponse, err error) (Key, error) {
	if err != nil {
		return Key{}, err
	}
	return keyOf(answer.GetKey()), nil
}

// GenerateKey has the broker make a key. It is repeated only where it surely was not sent.
func (c *Client) GenerateKey(ctx context.Context, id, algorithm string) (Key, error) {
	return keyAnswer(c.keys.Generate(ctx, &wire.GenerateRequest{KeyId: id, Algorithm: algorithm}))
}

// ImportKey brings a key in: PKCS#8 for asymmetric ones, raw bytes for secret ones, at most 64 KiB. It is repeated only where it
// surely was not sent.
func (c *Client) ImportKey(ctx context.Context, id, algorithm string, material Secret) (Key, error) {
	return keyAnswer(c.keys.Import(ctx, &wire.ImportRequest{KeyId: id, Algorithm: algorithm, Material: material}))
}

// ListKeys gives keys in the order of their ids, after one of them or from the first, at most limit or as many as the bound
// allows.
func (c *Client) ListKeys(ctx context.Context, after string, limit uint32) (keys []Key, hasMore bool, err error) {
	answer, err := c.keys.List(ctx, &wire.ListRequest{After: after, Limit: limit})
	if err != nil {
		return nil, false, err
	}
	for _, key := range answer.GetKeys() {
		keys = append(keys, keyOf(key))
	}
	return keys, answer.GetHasMore(), nil
}

// RotateKey adds a version, which from then on seals and signs: of the material, or generated where that is empty. It is
// repeated only where it surely was not sent.
func (c *Client) RotateKey(ctx context.Context, id string, material Secret) (Key, error) {
	return keyAnswer(c.keys.Rotate(ctx, &wire.RotateRequest{KeyId: id, Material: material}))
}

// DisableKey takes a version out of use; 0 is all of them.
func (c *Client) DisableKey(ctx context.Context, id string, version uint32) (Key, error) {
	return keyAnswer(c.keys.Disable(ctx, &wire.DisableRequest{KeyId: id, Version: version}))
}

// EnableKey takes a version into use again.
func (c *Client) EnableKey(ctx context.Context, id string, version uint32) (Key, error) {
	return keyAnswer(c.keys.Enable(ctx, &wire.EnableRequest{KeyId: id, Version: version}))
}

// PublicKey returns the public half of a version as SubjectPublicKeyInfo; 0 takes the current one.
func (c *Client) PublicKey(ctx context.Context, id string, version uint32) (der []byte, of uint32, err error) {
	answer, err := c.keys.PublicKey(ctx, &wire.PublicKeyRequest{KeyId: id, Version: version})
	if err != nil {
		return nil, 0, err
	}
	return answer.GetDer(), answer.GetVersion(), nil
}
