package crypto

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestAnExpanderGivesWhatTheLibrarysHKDFGives(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	expander := NewExpander(key)
	var group sync.WaitGroup
	for length := range 200 {
		group.Go(func() {
			info := strings.Repeat("i", length*4)
			want, err := hkdf.Expand(sha256.New, key, info, length+1)
			got := make([]byte, length+1)
			expander.Expand(got, []byte(info))
			if err != nil || !bytes.Equal(got, want) || !bytes.Equal(Expand(key, length+1, []byte(info)), want) {
				t.Errorf("%d bytes: %x, not %x", length+1, got, want)
			}
		})
	}
	group.Wait()
	for _, format := range []string{"%v", "%+v", "%#v", "%x"} {
		if text := fmt.Sprintf(format, expander); text != "Expander(redacted)" {
			t.Fatal(text)
		}
	}
	if expander.Wipe(); expander != (Expander{}) {
		t.Fatal("states are left")
	}
}
