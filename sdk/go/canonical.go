package sealway

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// folding maps characters to those that a lenient service may read, beside fullwidth forms: spec/routes.md#characters.
var folding = strings.NewReplacer("\u00a0", " ", "\u2000", " ", "\u2001", " ", "\u2002", " ", "\u2003", " ", "\u2004", " ", "\u2005", " ",
	"\u2006", " ", "\u2007", " ", "\u2008", " ", "\u2009", " ", "\u200a", " ", "\u202f", " ", "\u205f", " ", "\u3000", " ",
	"\u2044", "/", "\u2215", "/", "\u29f8", "/", "\u2216", `\`, "\u29f5", `\`, "\u2024", ".", "\u2025", "..", "\u2026", "...",
	"\u017f", "s", "\u212a", "k", "\u0130", "i", "\u0131", "i", "\u00df", "ss", "\u1e9e", "ss", "\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl",
	"\ufb03", "ffi", "\ufb04", "ffl", "\ufb05", "st", "\ufb06", "st", "\u00aa", "a", "\u00ba", "o", "\u00b2", "2", "\u00b3", "3", "\u00b9", "1")

// Characters on which services differ too much, unless they are folded.
var refusedChars = &unicode.RangeTable{
	R16: []unicode.Range16{{0, 0x1f, 1}, {0x7f, 0x9f, 1}, {0x132, 0x133, 1}, {0x1c7, 0x1cc, 1}, {0x1f1, 0x1f3, 1}, {0x2b0, 0x2b8, 1},
		{0x2e0, 0x2e4, 1}, {0x37e, 0x37e, 1}, {0x1d2c, 0x1d6a, 1}, {0x1d9b, 0x1dbf, 1}, {0x1fef, 0x1fef, 1}, {0x203c, 0x203c, 1},
		{0x2047, 0x2049, 1}, {0x2070, 0x209f, 1}, {0x20a8, 0x20a8, 1}, {0x2100, 0x218f, 1}, {0x2460, 0x24ff, 1}, {0x2a74, 0x2a76, 1},
		{0x2c7c, 0x2c7d, 1}, {0x3250, 0x33ff, 1}, {0xa7f2, 0xa7f4, 1}, {0xfb29, 0xfb29, 1}, {0xfe10, 0xfe6f, 1}},
	R32: []unicode.Range32{{0x107a5, 0x107a5, 1}, {0x1d400, 0x1d7ff, 1}, {0x1f100, 0x1f1e5, 1}, {0x1fbf0, 0x1fbf9, 1}},
	// Those up to U+00FF, as the table asks for.
	LatinOffset: 2,
}

// forms returns the canonical forms of a path as sent, which stand for all spellings that services read as one: that of all of it, and
// that of what is before a query that a decoder may uncover. Not ok is a path on which services differ too much.
//
// SPEC routes.md#canonical-form
func forms(path string) (whole, bare string, ok bool) {
	segments := strings.Split(path, "/")
	for at, segment := range segments {
		if segments[at], ok = readSegment(segment); !ok {
			return "", "", false
		}
	}
	text := strings.ReplaceAll(strings.Join(segments, "/"), `\`, "/")
	if strings.HasPrefix(text, "//") {
		return "", "", false
	}
	whole, isClear := formOf(text)
	bare, ok = whole, true
	if at := strings.IndexAny(text, "?#"); at >= 0 {
		bare, ok = formOf(text[:at])
	}
	return whole, bare, isClear && ok
}

func readSegment(text string) (string, bool) {
	for range 3 {
		text = percentDecoded(text)
	}
	if !utf8.ValidString(text) {
		return "", false
	}
	text = folding.Replace(strings.Map(func(char rune) rune {
		if char >= 0xff01 && char <= 0xff5e {
			return char - 0xfee0
		}
		return char
	}, text))
	_, parameters, _ := strings.Cut(text, ";")
	isClear := !strings.ContainsFunc(text, func(char rune) bool { return unicode.Is(refusedChars, char) }) &&
		!keepsEscape(text) && !strings.ContainsAny(parameters, `/\`)
	return text, isClear
}

func formOf(text string) (form string, ok bool) {
	var out strings.Builder
	for segment := range strings.SplitSeq(text, "/") {
		name, _, _ := strings.Cut(segment, ";")
		bare := strings.TrimRight(name, " .")
		if bare == "" && strings.Count(name, ".") > 1 {
			// Services differ on the segment that a step up removes.
			return "", false
		}
		if bare != "" {
			out.WriteString("/" + strings.Map(lowerASCII, bare))
		}
	}
	return out.String(), true
}

func lowerASCII(char rune) rune {
	if char >= 'A' && char <= 'Z' {
		return char + 'a' - 'A'
	}
	return char
}

// keepsEscape finds % and two hexadecimal digits, or %u and four.
func keepsEscape(text string) bool {
	pieces := strings.Split(text, "%")
	for _, rest := range pieces[1:] {
		if hexDigits(rest) >= 2 || rest != "" && rest[0]|0x20 == 'u' && hexDigits(rest[1:]) >= 4 {
			return true
		}
	}
	return false
}

func hexDigits(text string) (count int) {
	for count < len(text) && isHex(text[count]) {
		count++
	}
	return count
}

// percentDecoded undoes escapes once, and leaves what is none.
func percentDecoded(text string) string {
	var out strings.Builder
	for at := 0; at < len(text); at++ {
		if text[at] == '%' && at+2 < len(text) && isHex(text[at+1]) && isHex(text[at+2]) {
			out.WriteByte(unhex(text[at+1])<<4 | unhex(text[at+2]))
			at += 2
			continue
		}
		out.WriteByte(text[at])
	}
	return out.String()
}

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

func unhex(b byte) byte {
	if b <= '9' {
		return b - '0'
	}
	return b&0xdf - 'A' + 10
}
