package sealway

import (
	"bufio"
	"os"
	"regexp"
	"strconv"
	"testing"
)

func TestTheRemediesAreThoseOfTheRegistry(t *testing.T) {
	file := must(os.Open("../../spec/registry.toml"))
	defer file.Close()
	section, remedy := regexp.MustCompile(`^\[(errors|problems|public)\.(\w+)\]$`), regexp.MustCompile(`^remedy = (".*")$`)
	found, code := map[string]string{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if match := section.FindStringSubmatch(lines.Text()); match != nil {
			code = match[2]
		} else if match := remedy.FindStringSubmatch(lines.Text()); match != nil && code != "" {
			// The first section that has a code counts.
			if _, known := found[code]; !known {
				found[code] = must(strconv.Unquote(match[1]))
			}
			code = ""
		} else if lines.Text() == "" {
			code = ""
		}
	}
	for code, text := range found {
		if remedies[code] != text {
			t.Errorf("%s: the registry has %q, and this SDK %q", code, text, remedies[code])
		}
	}
	if len(found) < 50 || len(found) != len(remedies) {
		t.Fatalf("%d remedies in the registry, %d here", len(found), len(remedies))
	}
}
