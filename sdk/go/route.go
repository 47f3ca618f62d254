package sealway

import (
	"fmt"
	"strings"

	"sealway.dev/go/wire"
)

// Mode says what a route asks of its requests.
type Mode uint8

// The modes, the strictest first.
const (
	// Required refuses what is not sealed; it is the mode of a path that no route names.
	Required Mode = iota
	// Optional passes on what carries no header of a seal, but for OPTIONS.
	Optional
	// Off passes everything on.
	Off
)

// Route is one entry of a route table: the first that names a path decides. A path that a service may read as a sealed one is refused:
// spec/routes.md.
type Route struct {
	// Path is a whole path as sent, with its escapes, or with a slash at its end a prefix.
	Path string
	Mode Mode
	// BodyMaxBytes bounds a sealed body. The default is 1 MiB.
	BodyMaxBytes int64
	// Anonymous lets anonymous sessions of wire 1 in. It counts for a whole path alone, and for bodies of 4 KiB.
	Anonymous bool
}

func (r Route) valid() bool {
	return strings.HasPrefix(r.Path, "/") && r.Mode <= Off && r.BodyMaxBytes >= 0 && !(r.Anonymous && r.prefix())
}

func (r Route) prefix() bool { return strings.HasSuffix(r.Path, "/") }

func (r Route) names(path string) bool {
	return path == r.Path || r.prefix() && strings.HasPrefix(path, r.Path)
}

// rule is a route with its canonical form.
type rule struct {
	Route
	form string
}

func (r rule) matches(form string) bool {
	return form == r.form || r.prefix() && strings.HasPrefix(form, r.form+"/")
}

// SPEC routes.md#rules
func rulesOf(routes []Route) ([]rule, error) {
	var rules []rule
	for _, route := range routes {
		if !route.valid() {
			return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.Routes: %q is no route: a path begins with a slash, its mode is Required, Optional or Off, BodyMaxBytes is not negative, and Anonymous is for a whole path", route.Path)}
		}
		form, bare, ok := forms(route.Path)
		if !ok || bare != form || strings.ContainsFunc(route.Path, func(char rune) bool { return char <= ' ' || char > '~' || char == '?' || char == '#' }) || form == "" && route.Path != "/" {
			return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.Routes: %q is no path of a route: it begins with one slash, has visible ASCII characters alone, no query, no fragment, no .. segment and no control character, and its escapes are UTF-8", route.Path)}
		}
		for _, earlier := range rules {
			if earlier.names(route.Path) {
				return nil, &UsageError{fmt.Sprintf("MiddlewareConfig.Routes: %q is never reached: %q before it names all its paths; put %[1]q first", route.Path, earlier.Path)}
			}
		}
		rules = append(rules, rule{route, form})
	}
	return rules, nil
}

// route returns the route of a path as sent, without its query; not ok if the path may be read as one that must be sealed.
//
// SPEC routes.md#decision
func (m *Middleware) route(path string) (found Route, ok bool) {
	found.Path = "/"
	for _, rule := range m.rules {
		if rule.names(path) {
			found = rule.Route
			break
		}
	}
	if found.BodyMaxBytes == 0 {
		found.BodyMaxBytes = wire.SealedBodyMax
	}
	return found, found.Mode == Required || !found.prefix() || m.isPlain(path)
}

func (m *Middleware) isPlain(path string) bool {
	hasSealed, hasAll := false, false
	for _, rule := range m.rules {
		hasSealed = hasSealed || rule.Mode == Required
		hasAll = hasAll || rule.Path == "/"
	}
	if hasAll && !hasSealed {
		return true
	}
	whole, bare, ok := forms(path)
	return ok && m.leadsToPlain(whole) && m.leadsToPlain(bare)
}

// leadsToPlain says whether a form is of a route that is not Required, and of no such route that is as narrow.
func (m *Middleware) leadsToPlain(form string) bool {
	longest := -1
	for _, rule := range m.rules {
		switch {
		case !rule.matches(form):
		case rule.Mode == Required && len(rule.form) >= longest:
			return false
		case rule.Mode != Required && rule.prefix():
			longest = max(longest, len(rule.form))
		}
	}
	return longest >= 0
}
