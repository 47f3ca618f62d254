package session_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// seeds are the bodies of scenarios whose names begin so.
func seeds(f *testing.F, pattern string) {
	files, _ := filepath.Glob(vectorFolder + pattern)
	if len(files) == 0 {
		f.Fatal("no vectors")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var v struct {
			Body json.RawMessage `json:"body"`
		}
		json.Unmarshal(data, &v)
		var body octets
		var text string
		if json.Unmarshal(v.Body, &body) == nil {
			f.Add(body.data)
		} else if json.Unmarshal(v.Body, &text) == nil {
			f.Add([]byte(text))
		}
	}
}

func FuzzNativeInitsAreReadOrRejected(f *testing.F) {
	seeds(f, "session3/init3-*.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		request, err := session.ParseInitRequest(data)
		if (request == nil) == (err == nil) {
			t.Fatal("neither read nor refused")
		}
	})
}

func FuzzKeySetsAreReadOrRefused(f *testing.F) {
	seeds(f, "session3/key-set3-*.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if set, err := session.ParseKeySet(data); err == nil && set.VerifyRoot(make([]byte, 65), nil, 0, 0) == nil {
			t.Fatal("nobody's signature verifies")
		}
		session.ParseProblem(400, data, false)
	})
}

func FuzzKeyDocumentsAreReadOrRefused(f *testing.F) {
	seeds(f, "one-shot/key-document4-*.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		document, err := session.ParseKeyDocument(data)
		if (document == nil) == (err == nil) {
			t.Fatal("neither read nor refused")
		}
		if err != nil {
			return
		}
		if document.VerifyRoot(make([]byte, 65), nil, 0, 0) == nil {
			t.Fatal("nobody's signature verifies")
		}
		for _, key := range document.Keys {
			if !session.ValidKeyKid(key.Kid()) || key.NotBeforeMs > key.UseUntilMs || key.UseUntilMs > key.NotAfterMs {
				t.Fatal("a key of another form was read")
			}
		}
	})
}

func FuzzInnerHeadersHaveOneSpelling(f *testing.F) {
	good, _ := session.EncodeInner(wire.HeaderList{{Name: "content-type", Value: "a"}, {Name: "x", Value: ""}})
	f.Add(good)
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		headers, rest, err := session.DecodeInner(data)
		if err != nil {
			return
		}
		again, err := session.EncodeInner(headers)
		if err != nil || string(again)+string(rest) != string(data) {
			t.Fatalf("%q becomes %q, %v", data, again, err)
		}
	})
}

func FuzzStreamsOpenOrAreRefused(f *testing.F) {
	f.Add(make([]byte, 60), 7)
	nativeSeeds, _ := filepath.Glob(vectorFolder + "session3/request3-*.json")
	for _, file := range nativeSeeds {
		data, _ := os.ReadFile(file)
		var v struct {
			Body octets `json:"body"`
		}
		if json.Unmarshal(data, &v) == nil && len(v.Body.data) > 0 && len(v.Body.data) < 4096 {
			f.Add(v.Body.data, 3)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		opener, err := session.NewOpener(make([]byte, 60))
		if err != nil {
			t.Fatal(err)
		}
		step = 1 + (step&0xff+256)%256
		for len(data) > 0 {
			piece := data[:min(step, len(data))]
			data = data[len(piece):]
			for len(piece) > 0 {
				if _, _, err := opener.Read(&piece, nil); err != nil {
					return
				}
			}
		}
		if opener.End() == nil {
			t.Fatal("a forgery")
		}
	})
}
