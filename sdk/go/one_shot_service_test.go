package sealway

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/wire"
)

// oneShotService serves wire 4 in this process, written from spec/one-shot.md over the standard library alone: it shares neither key
// schedule nor frames with the client under test.
type oneShotService struct {
	*httptest.Server
	root     crypto.Signer
	handler  http.HandlerFunc
	psks     map[string][]byte
	offsetMs atomic.Int64
	fetches  atomic.Int32
	arrived  atomic.Int32
	served   atomic.Int32
	mu       sync.Mutex
	issuedMs uint64
	keys     []*oneShotServiceKey
	seen     map[string]bool
	// spoil answers sealed requests in place of the service, if it is there.
	spoil atomic.Pointer[http.HandlerFunc]
	// refuse gives sealed requests a sealed problem, if it is there.
	refuse atomic.Pointer[map[string]any]
}

type oneShotServiceKey struct {
	kem                             crypto.KEM
	config                          []byte
	group                           *ecdh.PrivateKey
	pq                              *mlkem.DecapsulationKey768
	notBeforeMs, useUntilMs, overMs uint64
}

func (k *oneShotServiceKey) name() string {
	hash := sha256.Sum256(k.config)
	return hex.EncodeToString(hash[:16])
}

func (k *oneShotServiceKey) kid() string { return "hpke:" + k.name() }

func (k *oneShotServiceKey) base64() string { return base64.StdEncoding.EncodeToString(k.config) }

func newOneShotServiceKey(t testing.TB, kem crypto.KEM) *oneShotServiceKey {
	key := &oneShotServiceKey{kem: kem, useUntilMs: nowMs() + 1_000_000, overMs: nowMs() + 2_000_000, notBeforeMs: nowMs() - 1_000_000}
	public := []byte{}
	curve := ecdh.X25519()
	if kem == crypto.KEMP256 || kem == crypto.KEMMLKEM768P256 {
		curve = ecdh.P256()
	}
	if kem == crypto.KEMXWing || kem == crypto.KEMMLKEM768P256 {
		key.pq = must(mlkem.GenerateKey768())
		public = key.pq.EncapsulationKey().Bytes()
	}
	key.group = must(curve.GenerateKey(rand.Reader))
	public = append(public, key.group.PublicKey().Bytes()...)
	key.config = append(append([]byte{7, byte(kem >> 8), byte(kem)}, public...), 0, 4, 0, 1, 0, 2)
	return key
}

func newOneShotService(t testing.TB, handler http.HandlerFunc, keys ...*oneShotServiceKey) *oneShotService {
	s := &oneShotService{root: newIdentity(t), handler: handler, keys: keys, issuedMs: 100, seen: map[string]bool{},
		psks: map[string][]byte{"shop": bytes.Repeat([]byte{9}, 32)}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+KeyDocumentPath, func(w http.ResponseWriter, _ *http.Request) {
		s.fetches.Add(1)
		w.Write(s.document())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.arrived.Add(1)
		if spoil := s.spoil.Load(); spoil != nil {
			(*spoil)(w, r)
			return
		}
		s.serve(w, r)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *oneShotService) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *oneShotService) document() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return signedDocument(s.root, s.issuedMs, 1<<49, s.keys...)
}

// signedDocument is a key document as a root signs it.
func signedDocument(root crypto.Signer, issuedMs, expiresMs uint64, keys ...*oneShotServiceKey) []byte {
	var list []byte
	members := []any{}
	for _, key := range keys {
		one := bytes.Join([][]byte{field(key.config), number(key.notBeforeMs), number(key.useUntilMs), number(key.overMs)}, nil)
		list = append(list, field(one)...)
		members = append(members, map[string]any{"config": key.base64(), "not_before_ms": key.notBeforeMs, "use_until_ms": key.useUntilMs, "not_after_ms": key.overMs})
	}
	hash := sha256.Sum256(bytes.Join([][]byte{number(issuedMs), number(expiresMs), field(list)}, nil))
	signature := must(root.Sign(append([]byte("sealway/4 keys"), hash[:]...)))
	return must(json.Marshal(map[string]any{"issued_ms": issuedMs, "expires_ms": expiresMs, "keys": members,
		"root_key_id": crypto.KeyID(root.PublicKey()), "root_signature": wire.EncodeBase64(signature)}))
}

// Of HPKE: RFC 9180 sections 4 and 5.

func labeledExtract(suite, salt []byte, label string, input []byte) []byte {
	return must(hkdf.Extract(sha256.New, bytes.Join([][]byte{[]byte("HPKE-v1"), suite, []byte(label), input}, nil), salt))
}

func labeledExpand(suite, prk []byte, label, info string) []byte {
	return must(hkdf.Expand(sha256.New, prk, "\x00\x20HPKE-v1"+string(suite)+label+info, 32))
}

func (k *oneShotServiceKey) decapsulate(enc []byte) ([]byte, error) {
	group := enc
	if k.pq != nil {
		group = enc[mlkem.CiphertextSize768:]
	}
	theirs, err := k.group.Curve().NewPublicKey(group)
	if err != nil {
		return nil, err
	}
	secret, err := k.group.ECDH(theirs)
	if err != nil {
		return nil, err
	}
	mine := k.group.PublicKey().Bytes()
	if k.pq == nil {
		suite := []byte{'K', 'E', 'M', byte(k.kem >> 8), byte(k.kem)}
		return labeledExpand(suite, labeledExtract(suite, nil, "eae_prk", secret), "shared_secret", string(enc)+string(mine)), nil
	}
	inner, err := k.pq.Decapsulate(enc[:mlkem.CiphertextSize768])
	label := map[crypto.KEM]string{crypto.KEMXWing: "\x5c\x2e\x2f\x2f\x5e\x5c", crypto.KEMMLKEM768P256: "MLKEM768-P256"}[k.kem]
	sum := sha3.Sum256(bytes.Join([][]byte{inner, secret, group, mine, []byte(label)}, nil))
	return sum[:], err
}

// secrets returns c2s and s2c.
func (k *oneShotServiceKey) secrets(mode byte, pskID string, psk, enc []byte) (c2s, s2c []byte, err error) {
	shared, err := k.decapsulate(enc)
	if err != nil {
		return nil, nil, err
	}
	suite := []byte{'H', 'P', 'K', 'E', byte(k.kem >> 8), byte(k.kem), 0, 1, 0, 2}
	info := bytes.Join([][]byte{field([]byte("sealway/4")), field([]byte(k.name())), field([]byte(pskID))}, nil)
	context := string(mode) + string(labeledExtract(suite, nil, "psk_id_hash", []byte(pskID))) + string(labeledExtract(suite, nil, "info_hash", info))
	exporter := labeledExpand(suite, labeledExtract(suite, shared, "secret", psk), "exp", context)
	return labeledExpand(suite, exporter, "sec", "sealway/4 c2s"), labeledExpand(suite, exporter, "sec", "sealway/4 s2c"), nil
}

// oneShotStream is one direction: keys of a message and its context.
type oneShotStream struct {
	aead       cipher.AEAD
	iv, commit []byte
	context    [32]byte
	count      uint64
}

func newOneShotStream(secret []byte, label, first, second string, context ...string) *oneShotStream {
	info := append(append(field([]byte(label)), field([]byte(first))...), field([]byte(second))...)
	keys := must(hkdf.Expand(sha256.New, secret, string(info), 60))
	var hashed []byte
	for _, part := range context {
		hashed = append(hashed, field([]byte(part))...)
	}
	return &oneShotStream{must(cipher.NewGCM(must(aes.NewCipher(keys[:32])))), keys[32:44], keys[44:], sha256.Sum256(hashed), 0}
}

func (s *oneShotStream) nonce(last bool) []byte {
	nonce := make([]byte, 12)
	if last {
		nonce[3] = 1
	}
	binary.BigEndian.PutUint64(nonce[4:], s.count)
	for n := range nonce {
		nonce[n] ^= s.iv[n]
	}
	s.count++
	return nonce
}

// open reads one frame.
func (s *oneShotStream) open(from io.Reader) (plaintext []byte, last bool, err error) {
	prefix := make([]byte, 4)
	if _, err := io.ReadFull(from, prefix); err != nil {
		return nil, false, err
	}
	word := binary.BigEndian.Uint32(prefix)
	last = word>>31 == 1
	if word &= 1<<31 - 1; word > 64<<10+16 {
		return nil, false, io.ErrUnexpectedEOF
	}
	sealed := make([]byte, word)
	if _, err := io.ReadFull(from, sealed); err != nil {
		return nil, false, err
	}
	plaintext, err = s.aead.Open(nil, s.nonce(last), sealed, s.context[:])
	return plaintext, last, err
}

// seal returns one frame, the first one behind the commit.
func (s *oneShotStream) seal(plaintext []byte, last bool) []byte {
	var out []byte
	if s.count == 0 {
		out = append(out, s.commit...)
	}
	word := uint32(len(plaintext) + 16)
	if last {
		word |= 1 << 31
	}
	return s.aead.Seal(binary.BigEndian.AppendUint32(out, word), s.nonce(last), plaintext, s.context[:])
}

// oneShotBody is the rest of a request's body, a frame at a time.
type oneShotBody struct {
	stream *oneShotStream
	from   io.Reader
	ready  []byte
	last   bool
}

func (b *oneShotBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.last {
			return 0, io.EOF
		}
		var err error
		if b.ready, b.last, err = b.stream.open(b.from); err != nil {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

func (s *oneShotService) tell(w http.ResponseWriter, status int, members map[string]any) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(problemBody(status, members))
}

func problemBody(status int, members map[string]any) []byte {
	members["type"], members["title"], members["status"] = "urn:sealway:problem:"+members["code"].(string), "A sentence.", status
	return must(json.Marshal(members))
}

func (s *oneShotService) key(kid string) *oneShotServiceKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.keys {
		if key.kid() == kid {
			return key
		}
	}
	return nil
}

func (s *oneShotService) serve(w http.ResponseWriter, r *http.Request) {
	unsealable := func() { s.tell(w, 400, map[string]any{"code": "unsealable"}) }
	key := s.key(r.Header.Get("X-Kid"))
	if r.Header.Get("X-Seal") != "4" || key == nil {
		s.tell(w, 409, map[string]any{"code": "key_retired", "key_document": json.RawMessage(s.document())})
		return
	}
	stamp, nonce, _ := strings.Cut(r.Header.Get("X-Idempotency-Key"), ".")
	var from io.Reader = r.Body
	if text := r.Header.Get("X-Sealed"); text != "" {
		from = bytes.NewReader(must(base64.StdEncoding.DecodeString(text)))
	}
	lead := make([]byte, 2)
	io.ReadFull(from, lead)
	rest := make([]byte, int(lead[1])+key.kem.EncLen()+16)
	if _, err := io.ReadFull(from, rest); err != nil {
		unsealable()
		return
	}
	pskID, enc, commit := string(rest[:lead[1]]), rest[lead[1]:len(rest)-16], rest[len(rest)-16:]
	c2s, s2c, err := key.secrets(lead[0], pskID, s.psks[pskID], enc)
	if err != nil {
		unsealable()
		return
	}
	stream := newOneShotStream(c2s, "sealway/4 request", nonce, stamp,
		"sealway/4 request context", r.Method, r.RequestURI, r.Header.Get("Content-Type"), stamp, nonce, key.name())
	body := &oneShotBody{stream: stream, from: from}
	var first []byte
	if first, body.last, err = stream.open(from); err != nil || !bytes.Equal(commit, stream.commit) {
		unsealable()
		return
	}
	answer := &oneShotWriter{under: w, to: r, key: key, s2c: s2c, nonce: nonce, header: http.Header{}, nowMs: s.nowMs()}
	inner, plain := innerOf(first)
	stampMs := must(strconv.ParseInt(stamp, 10, 64))
	switch refuse := s.refuse.Load(); {
	case refuse != nil:
		answer.problem((*refuse)["status"].(int), *refuse)
		return
	case max(stampMs-s.nowMs(), s.nowMs()-stampMs) > 300_000:
		answer.problem(400, map[string]any{"code": "clock_skew", "server_time_ms": s.nowMs()})
		return
	case !s.fresh(string(enc)):
		answer.problem(409, map[string]any{"code": "replayed"})
		return
	}
	body.ready = plain
	request := r.Clone(r.Context())
	request.Header, request.Body = inner, io.NopCloser(body)
	request.Header.Set("X-Sealway-Subject", pskID)
	s.served.Add(1)
	s.handler(answer, request)
	answer.finish()
}

func (s *oneShotService) nowMs() int64 { return int64(nowMs()) + s.offsetMs.Load() }

func (s *oneShotService) fresh(enc string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.seen[enc]
	s.seen[enc] = true
	return !known
}

func innerOf(first []byte) (http.Header, []byte) {
	header := http.Header{}
	block, rest := first[2:2+binary.BigEndian.Uint16(first)], first[2+binary.BigEndian.Uint16(first):]
	for len(block) > 0 {
		name := string(block[1 : 1+block[0]])
		block = block[1+len(name):]
		value := string(block[2 : 2+binary.BigEndian.Uint16(block)])
		block = block[2+len(value):]
		header.Add(name, value)
	}
	return header, rest
}

// oneShotWriter seals an answer: a frame for each write.
type oneShotWriter struct {
	under  http.ResponseWriter
	to     *http.Request
	key    *oneShotServiceKey
	s2c    []byte
	nonce  string
	kind   string // of the nonce; r- if empty
	nowMs  int64
	header http.Header
	status int
	stream *oneShotStream
	inner  []byte
}

func (w *oneShotWriter) Header() http.Header { return w.header }

func (w *oneShotWriter) WriteHeader(status int) {
	if w.stream != nil {
		return
	}
	w.status, w.inner = status, []byte{0, 0}
	for name, values := range w.header {
		for _, value := range values {
			w.inner = append(append(w.inner, byte(len(name))), strings.ToLower(name)...)
			w.inner = append(binary.BigEndian.AppendUint16(w.inner, uint16(len(value))), value...)
		}
	}
	binary.BigEndian.PutUint16(w.inner, uint16(len(w.inner)-2))
	if w.kind == "" {
		w.kind = "r-"
	}
	nonce, stamp, outer := w.kind+rand.Text(), fmt.Sprint(w.nowMs), "application/octet-stream"
	if w.bodiless() {
		outer = ""
	} else {
		w.under.Header().Set("Content-Type", outer)
	}
	w.stream = newOneShotStream(w.s2c, "sealway/4 answer", w.nonce, nonce, "sealway/4 answer context",
		string(binary.BigEndian.AppendUint64(nil, uint64(status))), w.to.Method, w.to.RequestURI, outer, stamp, nonce, w.key.name())
	w.under.Header().Set("X-Seal", "4")
	w.under.Header().Set("X-Kid", w.key.kid())
	w.under.Header().Set("X-Idempotency-Key", stamp+"."+nonce)
}

func (w *oneShotWriter) bodiless() bool { return w.to.Method == "HEAD" || w.status == 204 }

func (w *oneShotWriter) send(data []byte, last bool) {
	if w.stream == nil {
		w.WriteHeader(200)
	}
	frame := w.stream.seal(append(w.inner, data...), last)
	w.inner = nil
	if w.bodiless() {
		w.under.Header().Set("X-Sealed", base64.StdEncoding.EncodeToString(frame))
		w.under.WriteHeader(w.status)
		return
	}
	if w.stream.count == 1 {
		w.under.WriteHeader(w.status)
	}
	w.under.Write(frame)
	http.NewResponseController(w.under).Flush()
}

func (w *oneShotWriter) Write(data []byte) (int, error) {
	if len(data) > 0 && w.to.Method != "HEAD" {
		w.send(data, false)
	}
	return len(data), nil
}

func (w *oneShotWriter) finish() { w.send(nil, true) }

// problem seals a problem of the server.
func (w *oneShotWriter) problem(status int, members map[string]any) {
	w.header.Set("Content-Type", "application/problem+json")
	w.kind = "p-"
	w.WriteHeader(status)
	w.send(problemBody(status, members), true)
}
