// Measure sets sealing and opening beside the library's bare AES-256-GCM, and inits beside its bare key agreement, taken by
// turns in one run. It prints medians, in microseconds.
package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const (
	rounds = 200
	now    = 1_750_000_000_000
)

type task struct {
	name string
	run  func()
	us   []float64
}

// take runs the tasks by turns, count times a turn.
func take(count int, tasks ...*task) {
	for range rounds {
		for _, t := range tasks {
			start := time.Now()
			for range count {
				t.run()
			}
			t.us = append(t.us, float64(time.Since(start).Nanoseconds())/1e3/float64(count))
		}
	}
}

func (t *task) median() float64 {
	slices.Sort(t.us)
	return t.us[len(t.us)/2]
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
	return value
}

func random(n int) []byte {
	out := make([]byte, n)
	rand.Read(out)
	return out
}

func main() {
	inits()
	client3, server3 := agree3(crypto.P256)
	client2, server2 := agree2()
	for _, size := range []int{256, 1 << 10, 64 << 10} {
		calls(size, client2, server2, client3, server3)
	}
}

func agree3(suite crypto.Suite) (*session.ClientSession3, *session.Session) {
	identity := must(crypto.ParseIdentity(append(make([]byte, 31), 9)))
	client, record := init3(suite, identity)
	return client, must(session.NewSession(record))
}

func init3(suite crypto.Suite, identity crypto.Signer) (*session.ClientSession3, *session.Record) {
	keys := must(crypto.DrawKeys(suite, true, rand.Reader))
	init := must(session.NewClientInit3(session.Offer3{Suites: []crypto.Suite{suite}, ClientID: "measure"}, suite, keys, nil))
	request := must(session.ParseInitRequest3(init.Body()))
	terms := session.Terms3{Suites: crypto.Suites(), Identities: []session.Identity{{Key: identity, NotAfterMs: 1 << 60}}, ExpiresInSec: 3600, Auth: session.AuthNone}
	answer, record, err := session.AgreeInit3(request, terms, nil, func(suite crypto.Suite) (session.Randoms3, error) {
		keys, err := crypto.DrawKeys(suite, false, rand.Reader)
		return session.Randoms3{SessionID: [16]byte(random(16)), Keys: keys, Encapsulate: (*mlkem.EncapsulationKey768).Encapsulate}, err
	}, now)
	must(0, err)
	return must(init.Finish(201, answer, func(string) []byte { return identity.PublicKey() })), record
}

func agree2() (*session.ClientSession, *session.Session) {
	client, record := init2()
	return client, must(session.NewSession(record))
}

func init2() (*session.ClientSession, *session.Record) {
	init, message, err := session.NewClientInit(wire.Wire2, false, "measure", nil, must(crypto.DrawP256(rand.Reader)), [16]byte(random(16)), now)
	must(0, err)
	call := must(session.ParseInit(session.FamilySession, message.Headers, message.Body, now, session.ReplayPolicy{}))
	accepted := must(call.Release(session.Reserved(call.Claim())))
	random := session.InitRandoms{SessionID: [16]byte(random(16)), Ephemeral: must(crypto.DrawP256(rand.Reader))}
	answer, record, err := accepted.Accept(session.DefaultTTL(), false, "", random, now)
	must(0, err)
	return must(init.Finish(answer, now)), record
}

// inits are both sides together, beside both sides of the bare agreement.
func inits() {
	identity := must(crypto.ParseIdentity(append(make([]byte, 31), 9)))
	message := random(64)
	bareECDH := &task{name: "bare ECDH P-256 + HKDF, both sides", run: func() {
		a, b := must(ecdh.P256().GenerateKey(rand.Reader)), must(ecdh.P256().GenerateKey(rand.Reader))
		must(hkdf.Key(sha256.New, must(a.ECDH(b.PublicKey())), nil, "x", 32))
		must(hkdf.Key(sha256.New, must(b.ECDH(a.PublicKey())), nil, "x", 32))
	}}
	bareHybrid := &task{name: "bare X25519 + ML-KEM-768 + HKDF, both sides", run: func() {
		a, b := must(ecdh.X25519().GenerateKey(rand.Reader)), must(ecdh.X25519().GenerateKey(rand.Reader))
		key := must(mlkem.GenerateKey768())
		secret, sealed := must(mlkem.NewEncapsulationKey768(key.EncapsulationKey().Bytes())).Encapsulate()
		must(hkdf.Key(sha256.New, append(secret, must(a.ECDH(b.PublicKey()))...), nil, "x", 32))
		must(hkdf.Key(sha256.New, append(must(key.Decapsulate(sealed)), must(b.ECDH(a.PublicKey()))...), nil, "x", 32))
	}}
	signature := &task{name: "bare ES256, sign and verify", run: func() { crypto.Verify(identity.PublicKey(), message, must(identity.Sign(message))) }}
	two := &task{name: "init, wire 2", run: func() { init2() }}
	three := &task{name: "init, wire 3, P256", run: func() { init3(crypto.P256, identity) }}
	hybrid := &task{name: "init, wire 3, X25519MLKEM768", run: func() { init3(crypto.X25519MLKEM768, identity) }}
	take(3, bareECDH, two, three, bareHybrid, hybrid, signature)
	for _, t := range []*task{bareECDH, bareHybrid, signature} {
		fmt.Printf("%-48s %9.2f us\n", t.name, t.median())
	}
	for _, pair := range []struct {
		of   *task
		bare float64
		what string
	}{{two, bareECDH.median(), "bare ECDH"}, {three, bareECDH.median() + signature.median(), "bare ECDH + ES256"}, {hybrid, bareHybrid.median() + signature.median(), "bare hybrid + ES256"}} {
		fmt.Printf("%-48s %9.2f us  %.2f x %s\n", pair.of.name, pair.of.median(), pair.of.median()/pair.bare, pair.what)
	}
}

func calls(size int, client2 *session.ClientSession, server2 *session.Session, client3 *session.ClientSession3, server3 *session.Session) {
	plain, key, iv := random(size), random(32), random(12)
	aead := must(cipher.NewGCM(must(aes.NewCipher(key))))
	aad := random(100)
	bare := &task{name: "bare seal", run: func() { aead.Seal(nil, iv, plain, aad) }}
	sealed := aead.Seal(nil, iv, plain, aad)
	bareOpen := &task{name: "bare open", run: func() { must(aead.Open(nil, iv, sealed, aad)) }}
	bareNew := &task{name: "bare seal under a new key", run: func() {
		must(cipher.NewGCM(must(aes.NewCipher(key)))).Seal(nil, iv, plain, aad)
	}}
	randoms := session.SealRandoms{IV: [12]byte(iv)}
	seal2 := &task{name: "wire 2 seal", run: func() { client2.Seal("/", plain, now, randoms) }}
	message, _ := client2.Seal("/", plain, now, randoms)
	body := make([]byte, len(message.Body))
	open2 := &task{name: "wire 2 open", run: func() {
		copy(body, message.Body)
		call := must(session.ParseRequest(message.Headers, session.Line{Method: "POST", Target: "/"}, now, session.ReplayPolicy{}))
		must(call.Open(server2, body, now))
	}}
	line, inner := session.Line{Method: "POST", Target: "/transaction/purchase"}, []byte{0, 0}
	seal := func() (wire.HeaderList, []byte) {
		headers, sealer, _, err := client3.Seal(line, "application/octet-stream", now, [16]byte{1})
		must(0, err)
		stream := must(sealer.SealWhole(make([]byte, 0, session.StreamLen(len(inner)+len(plain))), inner, plain))
		return append(headers, wire.Header{Name: "Content-Type", Value: "application/octet-stream"}), stream
	}
	seal3 := &task{name: "wire 3 seal", run: func() { seal() }}
	list, stream := seal()
	headers := http.Header{}
	for _, header := range list {
		headers.Set(header.Name, header.Value)
	}
	open3 := &task{name: "wire 3 open", run: func() {
		request := must(session.ParseRequest(headers, line, now, session.ReplayPolicy{}))
		opener, _, err := request.Accept(server3, now)
		must(0, err)
		_, _, err = opener.OpenWhole(stream)
		must(0, err)
	}}
	take(max(3, 200_000/(size+1000)), bare, bareOpen, bareNew, seal2, open2, seal3, open3)
	fmt.Printf("\n%d bytes\n", size)
	for _, t := range []*task{bare, bareOpen, bareNew} {
		fmt.Printf("%-48s %9.2f us\n", t.name, t.median())
	}
	for _, t := range []*task{seal2, seal3, open2, open3} {
		beside := bare
		if t == open2 || t == open3 {
			beside = bareOpen
		}
		fmt.Printf("%-48s %9.2f us  %.2f x bare\n", t.name, t.median(), t.median()/beside.median())
		if t == seal3 {
			// On wire 3 each message has a key of its own.
			fmt.Printf("%-48s %14.2f x bare seal under a new key\n", "", t.median()/bareNew.median())
		}
	}
}
