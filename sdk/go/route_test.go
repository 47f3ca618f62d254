package sealway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type routeVector struct {
	Type, Name, Reason string
	Rules              []struct{ Exact, Prefix, Sealed string }
	Rule               int
	Cases              []struct{ Target, Decision string }
}

// routes are the rules of a vector, unless a table of this package cannot say them: whole paths and prefixes differ in the slash at
// their ends.
func (v routeVector) routes() (routes []Route, ok bool) {
	for _, rule := range v.Rules {
		routes = append(routes, Route{Path: rule.Exact + rule.Prefix, Mode: map[string]Mode{"required": Required, "optional": Optional, "off": Off}[rule.Sealed]})
		if strings.HasSuffix(rule.Exact, "/") || rule.Prefix != "" && !strings.HasSuffix(rule.Prefix, "/") {
			return nil, false
		}
	}
	return routes, true
}

func routeVectors(t *testing.T, kind string) (vectors []routeVector) {
	files := must(filepath.Glob("../../vectors/routes/*.json"))
	for _, file := range files {
		var vector routeVector
		if err := json.Unmarshal(must(os.ReadFile(file)), &vector); err != nil {
			t.Fatal(file, err)
		}
		switch vector.Type {
		case kind:
			vectors = append(vectors, vector)
		case "routes", "routes-rejected":
		default:
			t.Fatalf("%s: unknown type %q", file, vector.Type)
		}
	}
	return vectors
}

func TestEachTargetOfTheVectorsComesToItsDecision(t *testing.T) {
	played, passedOver := 0, 0
	for _, vector := range routeVectors(t, "routes") {
		routes, ok := vector.routes()
		if !ok {
			passedOver++
			continue
		}
		middleware := must(NewMiddleware(MiddlewareConfig{Store: NewMemoryStore(1), Routes: routes}))
		for _, each := range vector.Cases {
			path, _, _ := strings.Cut(each.Target, "?")
			route, ok := middleware.route(path)
			decision := map[Mode]string{Required: "sealed", Optional: "optional", Off: "plain"}[route.Mode]
			if !ok {
				decision = "refused"
			}
			if decision != each.Decision {
				t.Errorf("%s: %s is %s, not %s", vector.Name, each.Target, decision, each.Decision)
			}
			played++
		}
	}
	if played < 300 || passedOver > 2 {
		t.Errorf("%d played, %d rule sets passed over", played, passedOver)
	}
}

func TestEachRejectedRuleSetIsAnErrorThatNamesTheRule(t *testing.T) {
	played := 0
	for _, vector := range routeVectors(t, "routes-rejected") {
		routes, ok := vector.routes()
		if !ok {
			continue
		}
		if _, err := rulesOf(routes[:vector.Rule]); err != nil {
			t.Errorf("%s: %v", vector.Name, err)
		}
		_, err := NewMiddleware(MiddlewareConfig{Store: NewMemoryStore(1), Routes: routes})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", routes[vector.Rule].Path)) || strings.Contains(err.Error(), "never reached") != (vector.Reason == "unreachable") {
			t.Errorf("%s: %v", vector.Name, err)
		}
		played++
	}
	if played < 10 {
		t.Error(played, "played")
	}
}

// Over a socket: net/http refuses malformed escapes itself, and gives others in a form of its own.
func TestADisguiseReachesNoHandlerWhetherItIsMarkedAsSealedOrNot(t *testing.T) {
	for _, vector := range routeVectors(t, "routes") {
		if vector.Name != "routes-sealed-prefix" {
			continue
		}
		routes, _ := vector.routes()
		reached := 0
		middleware := must(NewMiddleware(MiddlewareConfig{Store: NewMemoryStore(1), Routes: routes}))
		server := httptest.NewServer(middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })))
		defer server.Close()
		for _, each := range vector.Cases {
			if each.Decision != "refused" {
				continue
			}
			for _, header := range []string{"", "X-Kid: x\r\n", "X-Seal: 3\r\n"} {
				if status := rawGet(t, server, each.Target, header); status != 400 || reached > 0 {
					t.Fatalf("%s: %d, %d reached", each.Target, status, reached)
				}
			}
		}
		if status := rawGet(t, server, "/caf%C3%A9", ""); status != 200 || reached != 1 {
			t.Error(status, reached)
		}
	}
}

// rawGet asks for a target as it stands, and gives the status.
func rawGet(t *testing.T, server *httptest.Server, target, header string) int {
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", target, header)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(target, err)
	}
	response.Body.Close()
	return response.StatusCode
}
