package protocol

import (
	"go/parser"
	gotoken "go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// allowedImports are the imports of the package. time is for durations; the test rejects uses of its clock.
var allowedImports = map[string]bool{
	"bytes": true, "crypto/cipher": true, "crypto/ecdh": true, "crypto/elliptic": true,
	"crypto/hkdf": true, "crypto/hmac": true, "crypto/sha256": true, "encoding/base64": true,
	"encoding/binary": true, "encoding/json": true, "errors": true, "fmt": true, "io": true, "slices": true,
	// The primitives of sessions, whose purity has a test of its own.
	"sealway.dev/go/crypto": true,
	"strconv":               true, "time": true, "unicode/utf8": true, "golang.org/x/crypto/chacha20poly1305": true,
}

func TestTheProtocolReachesNoClockNoRandomnessAndNoNetwork(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !allowedImports[path] {
				t.Errorf("%s imports %s", name, path)
			}
		}
		for _, word := range []string{"time.Now", "time.Since", "time.After", "time.Sleep", "GenerateKey("} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s says %s", name, word)
			}
		}
	}
}
