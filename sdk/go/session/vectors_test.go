package session_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

const vectorFolder = "../../../vectors/"

// octets are bytes as a vector holds them.
type octets struct {
	data  []byte
	hash  string
	count int
}

func (o *octets) UnmarshalJSON(data []byte) error {
	var form struct {
		Text   *string `json:"text"`
		Hex    *string `json:"hex"`
		Repeat *string `json:"repeat"`
		SHA256 *string `json:"sha256_hex"`
		Count  int     `json:"count"`
	}
	if err := strictly(data, &form); err != nil {
		return err
	}
	var err error
	switch {
	case form.Text != nil:
		o.data = []byte(*form.Text)
	case form.Hex != nil:
		o.data, err = hex.DecodeString(*form.Hex)
	case form.Repeat != nil:
		if o.data, err = hex.DecodeString(*form.Repeat); err == nil {
			o.data = bytes.Repeat(o.data, form.Count)
		}
	case form.SHA256 != nil:
		o.hash, o.count = *form.SHA256, form.Count
	default:
		err = errors.New("no bytes")
	}
	return err
}

func (o *octets) same(data []byte) bool {
	if o.hash != "" {
		sum := sha256.Sum256(data)
		return len(data) == o.count && hex.EncodeToString(sum[:]) == o.hash
	}
	return bytes.Equal(o.data, data)
}

type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil {
		*h, err = hex.DecodeString(text)
	}
	return err
}

type headerPairs wire.HeaderList

func (h *headerPairs) UnmarshalJSON(data []byte) error {
	var pairs [][2]string
	err := json.Unmarshal(data, &pairs)
	for _, pair := range pairs {
		*h = append(*h, wire.Header{Name: pair[0], Value: pair[1]})
	}
	return err
}

func (h headerPairs) list() wire.HeaderList { return wire.HeaderList(h) }

func strictly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// head stands in every scenario.
type head struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Comment string `json:"comment"`
	Spec    string `json:"spec"`
}

type play func(t *testing.T, data []byte)

// scenario reads a file strictly and plays it.
func scenario[T any](run func(*testing.T, *T)) play {
	return func(t *testing.T, data []byte) {
		var v T
		if err := strictly(data, &v); err != nil {
			t.Fatalf("a member that is not read, or one of a wrong form: %v", err)
		}
		run(t, &v)
	}
}

// playFolder plays a folder. A type whose play is nil is skipped and counted.
func playFolder(t *testing.T, folder string, plays map[string]play) {
	files, err := filepath.Glob(vectorFolder + folder + "/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s: %v", folder, err)
	}
	counts, skipped, quantum := map[string]int{}, 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var about head
		if err := json.Unmarshal(data, &about); err != nil {
			t.Fatalf("%s is no scenario: %v", file, err)
		}
		run, known := plays[about.Type]
		if !known {
			t.Errorf("%s: the type %q is not known", file, about.Type)
			continue
		}
		// The module mldsa runs these tests with ML-DSA.
		hasMLDSA := bytes.Contains(data, []byte("ML-DSA"))
		if hasMLDSA {
			quantum++
		}
		if counts[about.Type]++; run == nil || hasMLDSA && !crypto.MLDSA65.Available() {
			skipped++
			continue
		}
		t.Run(about.Name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("%s: %s", about.Type, about.Comment)
				}
			}()
			run(t, data)
		})
	}
	if folder != "session" && quantum == 0 {
		t.Errorf("vectors/%s has no scenario of ML-DSA", folder)
	}
	var told []string
	for kind := range plays {
		if counts[kind] == 0 {
			t.Errorf("no scenario of type %s", kind)
		}
		note := ""
		if plays[kind] == nil {
			note = " (skipped)"
		}
		told = append(told, fmt.Sprintf("%s %d%s", kind, counts[kind], note))
	}
	sort.Strings(told)
	fmt.Printf("vectors/%s: %d scenarios, %d skipped: %s\n", folder, len(files), skipped, strings.Join(told, ", "))
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; %s was expected", code)
	}
	if !errors.Is(err, wire.Code(code)) {
		t.Fatalf("%v; %s was expected", err, code)
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func headerSet(headers wire.HeaderList) map[string]string {
	set := map[string]string{}
	for _, header := range headers {
		set[strings.ToLower(header.Name)] = header.Value
	}
	return set
}

func sameJSON(t *testing.T, made, want []byte) {
	t.Helper()
	var a, b any
	if json.Unmarshal(made, &a) != nil || json.Unmarshal(want, &b) != nil || !reflect.DeepEqual(a, b) {
		t.Fatalf("made  %s\nwants %s", made, want)
	}
}

func p256Key(t *testing.T, scalar []byte) *ecdh.PrivateKey {
	t.Helper()
	if len(scalar) == 0 {
		return nil
	}
	return must(ecdh.P256().NewPrivateKey(scalar))(t)
}

func p384Key(t *testing.T, scalar []byte) *ecdh.PrivateKey {
	t.Helper()
	if len(scalar) == 0 {
		return nil
	}
	return must(ecdh.P384().NewPrivateKey(scalar))(t)
}

func x25519Key(t *testing.T, scalar []byte) *ecdh.PrivateKey {
	t.Helper()
	if len(scalar) == 0 {
		return nil
	}
	return must(ecdh.X25519().NewPrivateKey(scalar))(t)
}

// seed1024 is an ML-KEM-1024 key of a vector.
type seed1024 struct{ *mlkem.DecapsulationKey1024 }

func (k seed1024) EncapsulationKey() []byte { return k.DecapsulationKey1024.EncapsulationKey().Bytes() }

// expandedKey is an ML-KEM-768 key of a vector. The standard library cannot make one of its expanded form, so the secret of the
// one ciphertext that a vector has is given; any other ciphertext has another secret.
type expandedKey struct {
	private            []byte
	ciphertext, secret []byte
}

func (k *expandedKey) EncapsulationKey() []byte { return k.private[1152:2336] }

func (k *expandedKey) Decapsulate(ciphertext []byte) ([]byte, error) {
	if len(ciphertext) != mlkem.CiphertextSize768 {
		return nil, errors.New("length")
	}
	if k.ciphertext != nil && bytes.Equal(ciphertext, k.ciphertext) {
		return bytes.Clone(k.secret), nil
	}
	other := sha256.Sum256(ciphertext)
	return other[:], nil
}

func TestEveryScenarioOfWires1And2PlaysAsTheVectorsSay(t *testing.T) {
	playFolder(t, "session", map[string]play{
		"init": scenario(playInit), "init-refused": scenario(playInitRefused),
		"client-init": scenario(playClientInit), "client-init-refused": scenario(playClientInitRefused),
		"request": scenario(playRequest), "request-refused": scenario(playRequestRefused),
		"answer": scenario(playAnswer), "answer-refused": scenario(playAnswerRefused),
	})
}

func TestEveryNativeScenarioMatchesTheVectors(t *testing.T) {
	playFolder(t, "session3", map[string]play{
		"init3": scenario(playNativeInit), "renew3": scenario(playNativeRenew), "init3-refused": scenario(playNativeInitRefused),
		"init3-request-refused": scenario(playNativeInitRequestRefused),
		"request3":              scenario(playNativeRequest), "request3-refused": scenario(playNativeRequestRefused),
		"answer3": scenario(playNativeAnswer), "answer3-refused": scenario(playNativeAnswerRefused),
		"key-set3": scenario(playNativeKeySet), "key-set3-refused": scenario(playNativeKeySetRefused), "problem3": scenario(playNativeProblem),
		"headers3": scenario(playNativeHeaders),
	})
}

var _ crypto.Decapsulator = (*expandedKey)(nil)

func replayPolicy(windowMs uint64) session.ReplayPolicy {
	return session.ReplayPolicy{WindowMs: windowMs}
}
