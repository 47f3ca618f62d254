package mle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// scenario is a file of vectors/mle.
type scenario struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Profile string `json:"profile"`
	Generic *struct {
		Algs []Alg   `json:"algs"`
		Encs []Enc   `json:"encs"`
		Iat  IatUnit `json:"iat"`
	} `json:"generic"`
	Message string `json:"message"`
	NowMs   uint64 `json:"now_ms"`
	Key     struct {
		Private     string `json:"private_key_pem"`
		Alg         Alg    `json:"alg"`
		Kid         string `json:"kid"`
		Certificate string `json:"certificate_pem"`
	} `json:"key"`
	Body      string `json:"body"`
	Plaintext string `json:"plaintext_base64"`
	Class     Class  `json:"class"`
}

func (s *scenario) profile(t *testing.T) Profile {
	if s.Generic != nil {
		return must(GenericJWE(Generic{Algs: s.Generic.Algs, Encs: s.Generic.Encs, Iat: s.Generic.Iat}))
	}
	for _, profile := range profiles() {
		if profile.Name() == s.Profile {
			return profile
		}
	}
	t.Fatalf("an unknown profile: %s", s.Profile)
	return Profile{}
}

func TestEveryVectorIsOpenedOrRejectedForItsClass(t *testing.T) {
	files, err := filepath.Glob("../../../vectors/mle/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("vectors/mle has no files: %v", err)
	}
	classes := map[Class]bool{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var s scenario
			decoder := json.NewDecoder(bytes.NewReader(must(os.ReadFile(file))))
			if err := decoder.Decode(&s); err != nil {
				t.Fatal(err)
			}
			direction, known := map[string]Message{"request": Request, "answer": Answer}[s.Message]
			if !known {
				t.Fatalf("an unknown direction: %s", s.Message)
			}
			options := KeyOptions{Alg: s.Key.Alg, Kid: s.Key.Kid}
			if s.Key.Certificate != "" {
				options.Certificate = []byte(s.Key.Certificate)
			}
			keys := must(NewOpeningKeys(must(NewOpeningKey([]byte(s.Key.Private), options))))
			text, err := opened(s.Body, s.profile(t), direction, keys, s.NowMs)
			switch s.Type {
			case "mle-open":
				if err != nil || text != string(must(base64.StdEncoding.DecodeString(s.Plaintext))) {
					t.Fatalf("%q: %v", text, err)
				}
			case "mle-refused":
				if classOf(err) != s.Class {
					t.Fatalf("%v, and %s is due", err, s.Class)
				}
				classes[s.Class] = true
			default:
				t.Fatalf("an unknown type: %s", s.Type)
			}
		})
	}
	if len(classes) == 0 {
		t.Fatal("no file of vectors/mle has a message that is refused")
	}
}
