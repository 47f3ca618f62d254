package wire

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestCodesBlamesAndMeaningsAreThoseOfTheRegistry(t *testing.T) {
	file, err := os.Open("../../../spec/registry.toml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := 0
	var code Code
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "[") {
			name, isError := strings.CutPrefix(strings.TrimSuffix(line, "]"), "[errors.")
			if code = ""; isError {
				code = Code(name)
				if _, known := entries[code]; !known {
					t.Errorf("%s is in the registry and not here", name)
				}
				seen++
			}
			continue
		}
		if value, found := strings.CutPrefix(line, "blame = "); found && code != "" && strings.Trim(value, `"`) != string(code.Blame()) {
			t.Errorf("%s: %s is to blame", code, value)
		}
		if value, found := strings.CutPrefix(line, "meaning = "); found && code != "" && strings.Trim(value, `"`) != entries[code].meaning {
			t.Errorf("%s means %s", code, value)
		}
	}
	if seen != len(Codes()) {
		t.Fatalf("%d codes in the registry, %d here", seen, len(Codes()))
	}
}

func TestARefusalIsFoundByItsCodeAndNamesNoValue(t *testing.T) {
	err := error(&Error{CodeHeaderInvalid, HeaderKid})
	if !errors.Is(err, CodeHeaderInvalid) || errors.Is(err, CodeReplayed) {
		t.Fatal("errors.Is")
	}
	if !strings.Contains(err.Error(), "header_invalid") || !strings.Contains(err.Error(), HeaderKid) {
		t.Fatal(err)
	}
}

func FuzzJSONIsReadOrRefused(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `[`, `"\ud800"`, `"\ud83d\ude00"`, `1e999`, strings.Repeat("[", 200), `{"a":{"a":[null,true,"x"]}}`, "\"\\u12", `"\\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if value, err := ParseJSON(data); err != nil && value != nil {
			t.Fatal("a value beside an error")
		}
	})
}

func FuzzBase64HasOneSpelling(f *testing.F) {
	f.Add("AAAA")
	f.Add("AB==")
	f.Fuzz(func(t *testing.T, text string) {
		if data, err := DecodeBase64(text); err == nil && EncodeBase64(data) != text {
			t.Fatalf("%q has two spellings", text)
		}
	})
}
