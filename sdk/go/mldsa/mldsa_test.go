package mldsa_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sealway.dev/go/crypto"
	_ "sealway.dev/go/mldsa"
)

// TestTheSessionModulePassesItsTestsWithMLDSA runs tests of the session module, which requires no other module, with this one linked into
// them: a file of each package is laid over its folder.
func TestTheSessionModulePassesItsTestsWithMLDSA(t *testing.T) {
	link, err := os.ReadFile("testdata/link.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ folder, name, tests string }{
		{"crypto", "crypto_test", "Algorithm|MLDSA"},
		{"session", "session_test", "MatchesTheVectors|PlaysAsTheVectorsSay|MLDSA"},
		{".", "sealway", "Algorithm|MLDSA"},
	} {
		t.Run(c.folder, func(t *testing.T) {
			t.Parallel()
			folder, err := filepath.Abs(filepath.Join("..", c.folder))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "link.go")
			overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(folder, "mldsa_linked_test.go"): file}})
			for name, content := range map[string][]byte{file: []byte(strings.Replace(string(link), "PACKAGE", c.name, 1)), file + ".json": overlay} {
				if err := os.WriteFile(name, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			test := exec.Command("go", "test", "-count=1", "-v", "-overlay="+file+".json", "-run="+c.tests, filepath.ToSlash(filepath.Join("sealway.dev/go", c.folder)))
			printed, err := test.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", test.Args, err, regexp.MustCompile(`(?m)^\s*(=== RUN|--- PASS).*\n`).ReplaceAll(printed, nil))
			}
			if !strings.Contains(string(printed), "--- PASS: TestMLDSAIsLinked") || strings.Contains(string(printed), "--- SKIP") {
				t.Fatalf("ML-DSA was not linked, or a test was skipped:\n%s", printed)
			}
			for _, line := range regexp.MustCompile(`(?m)^vectors/.*$`).FindAllString(string(printed), -1) {
				t.Log(line)
			}
		})
	}
}

func TestAKeyPrintsNoSeed(t *testing.T) {
	seed := make([]byte, 32)
	for _, algorithm := range []crypto.SignatureAlgorithm{crypto.MLDSA65, crypto.MLDSA87} {
		key, err := algorithm.ParseKey(seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s", "%d"} {
			if printed := fmt.Sprintf(verb, key); printed != "Identity("+crypto.KeyID(key.PublicKey())+")" {
				t.Errorf("%s prints %.80s", verb, printed)
			}
		}
	}
}
