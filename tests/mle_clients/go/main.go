// A client of a scheme, or a double of the scheme, by the published libraries for Go.
//
//	mle_clients call SPEC     sends requests, and opens their answers
//	mle_clients serve SPEC    prints its address, opens requests, and seals answers
//
// SPEC is described in ../README.md. It ends at the first difference, with the reason on standard error.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// The service's answer to a request, in turn; the number is prime, so that every body meets each of them.
var turns = []string{"echo", "echo", "empty", "echo", "error", "echo", "get"}

var statuses = map[string]int{"echo": 200, "get": 200, "empty": 204, "error": 400}

// The body of the service's error, and of its answer to a request without a body.
const (
	errorBody = `{"error":"DECLINED","reason":"nicht gedeckt 💳","code":51}`
	foundBody = `{"found":["é",1],"by":"get","card":{"pan":"5555555555554444"}}`
)

// The argument of the program.
type spec struct {
	Library string `json:"library"`
	Profile string `json:"profile"`
	Shape   string `json:"shape"`
	URL     string `json:"url"`
	Count   int    `json:"count"`
	Bodies  string `json:"bodies"`
	Errors  string `json:"errors"`
	Fle     *struct {
		Encoding string `json:"encoding"`
		Digest   string `json:"digest"`
		Names    struct {
			Value                  string `json:"value"`
			Iv                     string `json:"iv"`
			EncryptedKey           string `json:"encryptedKey"`
			Digest                 string `json:"digest"`
			KeyFingerprint         string `json:"keyFingerprint"`
			CertificateFingerprint string `json:"certificateFingerprint"`
		} `json:"names"`
	} `json:"fle"`
	Seal struct {
		Certificate string   `json:"certificate"`
		Kid         string   `json:"kid"`
		Alg         string   `json:"alg"`
		Encs        []string `json:"encs"`
	} `json:"seal"`
	Open struct {
		Key  string   `json:"key"`
		Kid  string   `json:"kid"`
		Alg  string   `json:"alg"`
		Encs []string `json:"encs"`
	} `json:"open"`
}

// Ends the program if something does not hold.
func check(holds bool, why ...any) {
	if !holds {
		fail(why...)
	}
}

func fail(why ...any) {
	text := strings.TrimSpace(fmt.Sprintln(why...))
	if len(text) > 2000 {
		text = text[:2000]
	}
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}

// Returns a value, or ends the program.
func must[T any](value T, err error) T {
	check(err == nil, err)
	return value
}

func main() {
	check(len(os.Args) == 3, "expected a mode and a spec")
	var spec spec
	check(json.Unmarshal([]byte(os.Args[2]), &spec) == nil, "the spec is not JSON")
	library := libraryOf(&spec)
	switch os.Args[1] {
	case "call":
		call(&spec, library)
	case "serve":
		serve(&spec, library)
	default:
		fail("unknown mode", os.Args[1])
	}
}

func call(spec *spec, library library) {
	var bodies []string
	check(json.Unmarshal(must(os.ReadFile(spec.Bodies)), &bodies) == nil, "the bodies are not a list")
	client := http.Client{Timeout: 30 * time.Second}
	for index := range spec.Count {
		turn, text := turns[index%len(turns)], bodies[index%len(bodies)]
		what := fmt.Sprintf("round %d, %s, %.200s:", index, turn, text)
		method, sent, body := "GET", "", ""
		if turn != "get" {
			method, sent, body = "POST", library.sent(text), library.seal(text, "request")
		}
		request := must(http.NewRequest(method, spec.URL, strings.NewReader(body)))
		request.Header.Set("X-Answer", turn)
		if turn != "get" {
			request.Header.Set("Content-Type", library.contentType())
			// In the shape `fields` the service gets its members in another order.
			if spec.Shape == "whole" {
				digest := sha256.Sum256([]byte(sent))
				request.Header.Set("X-Sent-Sha256", hex.EncodeToString(digest[:]))
			}
			if spec.Profile == "visa" {
				request.Header.Set("keyId", spec.Seal.Kid)
			}
		}
		answer := must(client.Do(request))
		received := string(must(io.ReadAll(answer.Body)))
		answer.Body.Close()
		check(answer.StatusCode == statuses[turn], what, "status", answer.StatusCode, received)
		if turn == "empty" || (turn == "echo" && sent == "") {
			check(received == "", what, "the answer has a body", received)
			continue
		}
		var opened string
		if (turn == "error" && spec.Errors == "clear") || (spec.Shape == "fields" && turn == "error") {
			// Mastercard's library panics on a body without its token, so that its users keep such answers from it.
			opened = received
		} else {
			if spec.Shape == "whole" {
				checkSealed(spec, library, answer.Header.Get("Content-Type"), received, "answer")
			}
			opened = library.open(received, "answer")
		}
		expected := map[string]string{"echo": sent, "error": errorBody, "get": foundBody}[turn]
		check(library.isSame(opened, expected), what, opened, "instead of", expected)
	}
	fmt.Println(spec.Count, "round trips")
}

func serve(spec *spec, library library) {
	answerTo := func(request *http.Request, body string) (int, string) {
		turn := request.Header.Get("X-Answer")
		if request.Method == http.MethodGet {
			return 200, library.seal(foundBody, "answer")
		}
		opened := ""
		if body != "" {
			if spec.Shape == "whole" {
				checkSealed(spec, library, request.Header.Get("Content-Type"), body, "request")
			}
			opened = library.open(body, "request")
		}
		if spec.Shape == "fields" {
			check(!strings.Contains(body, `"card"`), "a field is in clear:", body)
		}
		switch turn {
		case "empty":
			return 204, ""
		case "error":
			return 400, library.seal(errorBody, "answer")
		case "clear-error":
			return 400, errorBody
		}
		return 200, library.seal(opened, "answer")
	}
	handler := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		// The server would keep a panic of a library to itself.
		defer func() {
			if reason := recover(); reason != nil {
				fail("panic:", reason)
			}
		}()
		var body bytes.Buffer
		must(body.ReadFrom(request.Body))
		status, sealed := answerTo(request, body.String())
		if sealed == errorBody {
			writer.Header().Set("Content-Type", "application/json")
		} else if status != 204 {
			writer.Header().Set("Content-Type", library.contentType())
		}
		writer.WriteHeader(status)
		if sealed != "" {
			must(io.WriteString(writer, sealed))
		}
	})
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(listener.Addr())
	check(false, http.Serve(listener, handler))
}
