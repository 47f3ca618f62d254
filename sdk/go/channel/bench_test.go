package channel

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"testing"
	"time"

	"sealway.dev/go/channel/protocol"
)

var benchSuites = []protocol.Suite{protocol.V1X25519, protocol.V1P256, 0x100, 0x102, 0x104, 0x101}

// BenchmarkHandshake is both sides in memory, from drawing keys to the ping that confirms.
func BenchmarkHandshake(b *testing.B) {
	for _, suite := range benchSuites {
		b.Run(suite.String(), func(b *testing.B) {
			settings := protocol.NewSettings("c", protocol.Key{1}, suite, uint64(time.Now().Unix())+60)
			b.ReportAllocs()
			for b.Loop() {
				ofClient, ofServer := *settings, *settings
				if err := playHandshake(&ofClient, &ofServer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func records(b *testing.B, suite protocol.Suite) (sealer *protocol.Sealer, opener *protocol.Opener) {
	b.Helper()
	settings := protocol.NewSettings("c", protocol.Key{1}, suite, uint64(time.Now().Unix())+60)
	ofClient, ofServer := *settings, *settings
	clientRandoms, err := drawRandoms(suite, true)
	if err != nil {
		b.Fatal(err)
	}
	serverRandoms, err := drawRandoms(suite, false)
	if err != nil {
		b.Fatal(err)
	}
	client, message, err := protocol.NewClient(&ofClient, clientRandoms)
	if err != nil {
		b.Fatal(err)
	}
	server, err := protocol.NewServer(&ofServer, serverRandoms)
	for side, other := server, client; message != nil && err == nil; side, other = other, side {
		message, _, err = side.Read(message, settings.InitExpiresS-30)
	}
	if err != nil {
		b.Fatal(err)
	}
	if sealer, _, err = client.Records(); err != nil {
		b.Fatal(err)
	}
	if _, opener, err = server.Records(); err != nil {
		b.Fatal(err)
	}
	// The client's ping was read by the handshake; a native client has sent it as record 1, one of v1 none.
	return sealer, opener
}

// BenchmarkRecord seals a record and opens it, beside the platform's bare AES-GCM of the same bytes.
func BenchmarkRecord(b *testing.B) {
	for _, length := range []int{256, 1 << 10, 16 << 10, 64 << 10, 1<<20 - 34} {
		for _, suite := range []protocol.Suite{protocol.V1X25519, 0x100, 0x101} {
			if suite.IsNative() && length > protocol.ContentMax {
				continue
			}
			name := map[protocol.Suite]string{protocol.V1X25519: "v1", 0x100: "native", 0x101: "native-chacha"}[suite]
			b.Run(fmt.Sprintf("%s/%d", name, length), func(b *testing.B) {
				sealer, opener := records(b, suite)
				content := &protocol.Content{Kind: protocol.Data, Data: make([]byte, length)}
				var room []byte
				var err error
				b.SetBytes(int64(length))
				b.ReportAllocs()
				for b.Loop() {
					if room, err = sealer.Seal(room[:0], content, 0); err != nil {
						b.Fatal(err)
					}
					if _, err = opener.Open(room); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("bare AES-256-GCM/%d", length), func(b *testing.B) {
			block, _ := aes.NewCipher(make([]byte, 32))
			aead, _ := cipher.NewGCM(block)
			text, nonce := make([]byte, length), make([]byte, 12)
			room := make([]byte, 0, length+16)
			b.SetBytes(int64(length))
			for b.Loop() {
				room = aead.Seal(room[:0], nonce, text, nonce)
				if _, err := aead.Open(room[:0], nonce, room, nonce); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpenStream opens a stream, has a byte come back, and ends it.
func BenchmarkOpenStream(b *testing.B) {
	for _, suite := range []uint16{1, 0x104} {
		b.Run(protocol.Suite(suite).String(), func(b *testing.B) {
			client, server := pair(b, suite, nil, nil)
			echo(b, server)
			one := make([]byte, 1)
			for b.Loop() {
				stream, err := client.Open(context.Background(), "echo")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := stream.Write(one); err != nil {
					b.Fatal(err)
				}
				_ = stream.CloseWrite()
				if _, err := io.ReadAll(stream); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStream sends bytes over one stream of a channel on loopback.
func BenchmarkStream(b *testing.B) {
	for _, suite := range []uint16{1, 0x100, 0x104} {
		b.Run(protocol.Suite(suite).String(), func(b *testing.B) {
			client, server := pair(b, suite, nil, nil)
			stream, err := client.Open(context.Background(), "pour")
			if err != nil {
				b.Fatal(err)
			}
			other, err := server.Accept(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			const part = 256 << 10
			go func() { _, _ = io.Copy(io.Discard, other) }()
			text := make([]byte, part)
			b.SetBytes(part)
			for b.Loop() {
				if _, err := stream.Write(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
