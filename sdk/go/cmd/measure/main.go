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
	nativeClient, nativeServer := agreeNative(crypto.P256)
	compatClient, compatServer := agreeCompat()
	for _, size := range []int{256, 1 << 10, 64 << 10} {
		calls(size, compatClient, compatServer, nativeClient, nativeServer)
	}
}

func agreeNative(suite crypto.Suite) (*session.ClientSession, *session.Session) {
	identity := must(crypto.ParseIdentity(append(make([]byte, 31), 9)))
	client, record := initNative(suite, identity)
	return client, must(session.NewSession(record))
}

func initNative(suite crypto.Suite, identity crypto.Signer) (*session.ClientSession, *session.Record) {
	keys := must(crypto.DrawKeys(suite, true, rand.Reader))
	init := must(session.NewClientInit(session.Offer{Suites: []crypto.Suite{suite}, ClientID: "measure"}, suite, keys, nil))
	request := must(session.ParseInitRequest(init.Body()))
	terms := session.Terms{Suites: crypto.Suites(), Identities: []session.Identity{{Key: identity, NotAfterMs: 1 << 60}}, ExpiresInSec: 3600, Auth: session.AuthNone}
	answer, record, err := session.AgreeInit(request, terms, nil, func(suite crypto.Suite) (session.InitRandoms, error) {
		keys, err := crypto.DrawKeys(suite, false, rand.Reader)
		return session.InitRandoms{SessionID: [16]byte(random(16)), Keys: keys, Encapsulate: crypto.EncapsulationKey.Encapsulate}, err
	}, now)
	must(0, err)
	return must(init.Finish(201, answer, func(string) []byte { return identity.PublicKey() })), record
}

func agreeCompat() (*session.CompatClientSession, *session.Session) {
	client, record := initCompat()
	return client, must(session.NewSession(record))
}

func initCompat() (*session.CompatClientSession, *session.Record) {
	init, message, err := session.NewCompatClientInit(wire.Wire2, false, "measure", nil, must(crypto.DrawP256(rand.Reader)), [16]byte(random(16)), now)
	must(0, err)
	call := must(session.ParseCompatInit(session.FamilySession, message.Headers, message.Body, now, session.ReplayPolicy{}))
	accepted := must(call.Release(session.Reserved(call.Claim())))
	random := session.CompatInitRandoms{SessionID: [16]byte(random(16)), Ephemeral: must(crypto.DrawP256(rand.Reader))}
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
	compat := &task{name: "init, wire 2", run: func() { initCompat() }}
	native := &task{name: "init, wire 3, P256", run: func() { initNative(crypto.P256, identity) }}
	hybrid := &task{name: "init, wire 3, X25519MLKEM768", run: func() { initNative(crypto.X25519MLKEM768, identity) }}
	take(3, bareECDH, compat, native, bareHybrid, hybrid, signature)
	for _, t := range []*task{bareECDH, bareHybrid, signature} {
		fmt.Printf("%-48s %9.2f us\n", t.name, t.median())
	}
	for _, pair := range []struct {
		of   *task
		bare float64
		what string
	}{{compat, bareECDH.median(), "bare ECDH"}, {native, bareECDH.median() + signature.median(), "bare ECDH + ES256"}, {hybrid, bareHybrid.median() + signature.median(), "bare hybrid + ES256"}} {
		fmt.Printf("%-48s %9.2f us  %.2f x %s\n", pair.of.name, pair.of.median(), pair.of.median()/pair.bare, pair.what)
	}
}

func calls(size int, compatClient *session.CompatClientSession, compatServer *session.Session, nativeClient *session.ClientSession, nativeServer *session.Session) {
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
	seal2 := &task{name: "wire 2 seal", run: func() { compatClient.Seal("/", plain, now, randoms) }}
	message, _ := compatClient.Seal("/", plain, now, randoms)
	body := make([]byte, len(message.Body))
	open2 := &task{name: "wire 2 open", run: func() {
		copy(body, message.Body)
		call := must(session.ParseRequest(message.Headers, session.Line{Method: "POST", Target: "/"}, now, session.ReplayPolicy{}))
		must(call.Open(compatServer, body, now))
	}}
	line, inner := session.Line{Method: "POST", Target: "/transaction/purchase"}, []byte{0, 0}
	seal := func() (wire.HeaderList, []byte) {
		headers, sealer, _, err := nativeClient.Seal(line, "application/octet-stream", now, [16]byte{1})
		must(0, err)
		stream := must(sealer.SealWhole(make([]byte, 0, session.StreamLen(len(inner)+len(plain))), inner, plain))
		return append(headers, wire.Header{Name: "Content-Type", Value: "application/octet-stream"}), stream
	}
	nativeSeal := &task{name: "wire 3 seal", run: func() { seal() }}
	list, stream := seal()
	headers := http.Header{}
	for _, header := range list {
		headers.Set(header.Name, header.Value)
	}
	nativeOpen := &task{name: "wire 3 open", run: func() {
		request := must(session.ParseRequest(headers, line, now, session.ReplayPolicy{}))
		opener, _, err := request.Accept(nativeServer, now)
		must(0, err)
		_, _, err = opener.OpenWhole(stream)
		must(0, err)
	}}
	take(max(3, 200_000/(size+1000)), bare, bareOpen, bareNew, seal2, open2, nativeSeal, nativeOpen)
	fmt.Printf("\n%d bytes\n", size)
	for _, t := range []*task{bare, bareOpen, bareNew} {
		fmt.Printf("%-48s %9.2f us\n", t.name, t.median())
	}
	for _, t := range []*task{seal2, nativeSeal, open2, nativeOpen} {
		beside := bare
		if t == open2 || t == nativeOpen {
			beside = bareOpen
		}
		fmt.Printf("%-48s %9.2f us  %.2f x bare\n", t.name, t.median(), t.median()/beside.median())
		if t == nativeSeal {
			// On wire 3 each message has a key of its own.
			fmt.Printf("%-48s %14.2f x bare seal under a new key\n", "", t.median()/bareNew.median())
		}
	}
}
