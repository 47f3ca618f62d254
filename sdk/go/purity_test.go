package sealway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A client of sessions downloads no module but this one: channels, the broker and Redis are modules of their own.
func TestTheSessionModuleRequiresNoOtherModule(t *testing.T) {
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(module); !strings.HasPrefix(text, "module sealway.dev/go\n") || strings.Contains(text, "require") {
		t.Fatalf("go.mod requires another module:\n%s", text)
	}
}

// TestThePureCoreReachesNoClockNoRandomnessAndNoNetwork reads the imports and calls of the packages that take all of it as arguments.
func TestThePureCoreReachesNoClockNoRandomnessAndNoNetwork(t *testing.T) {
	allowed := map[string]bool{}
	for _, name := range strings.Fields(`bytes crypto crypto/aes crypto/cipher crypto/ecdh crypto/ecdsa crypto/elliptic crypto/hmac crypto/mlkem
		crypto/rsa crypto/sha1 crypto/sha256 crypto/sha3 crypto/sha512 crypto/subtle crypto/x509 encoding encoding/asn1 encoding/base64 encoding/binary encoding/hex
		encoding/json encoding/pem errors fmt hash io math math/big mime regexp slices sort strconv strings sync unicode/utf8 sealway.dev/go/wire sealway.dev/go/crypto sealway.dev/go/session`) {
		allowed[name] = true
	}
	// These draw by themselves, whatever reader they are given.
	draws := map[string]bool{"GenerateKey": true, "GenerateKey768": true, "Encapsulate": true, "SignASN1": true}
	files := 0
	for _, folder := range []string{"wire", "crypto", "session", "mle", "internal/exchange"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			for _, spec := range file.Imports {
				if name, _ := strconv.Unquote(spec.Path.Value); !allowed[name] {
					t.Errorf("%s imports %s: the core is pure", path, name)
				}
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					if selector, ok := call.Fun.(*ast.SelectorExpr); ok && draws[selector.Sel.Name] {
						t.Errorf("%s: %s draws randomness by itself", set.Position(node.Pos()), selector.Sel.Name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 20 {
		t.Fatalf("only %d files were read", files)
	}
}
