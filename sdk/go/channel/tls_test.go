package channel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAChannelOverTLSVerifiesTheServersCertificate(t *testing.T) {
	info := directInfo(0x104)
	taken := make(chan acceptResult, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		channel, err := Accept(answer, request, info, nil)
		taken <- acceptResult{channel, err}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	info.URL = "wss" + strings.TrimPrefix(server.URL, "https")
	if _, err := Dial(t.Context(), info, nil); !errors.Is(err, &Error{Stage: StageConnect, Code: "tls_untrusted"}) {
		t.Error("a stranger's certificate:", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client, err := Dial(t.Context(), info, &Options{TLS: &tls.Config{RootCAs: roots}})
	if err != nil {
		t.Fatal(err)
	}
	got := <-taken
	if got.err != nil {
		t.Fatal(got.err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	<-got.channel.Done()
}

func TestAnUnusableAddressFailsWithTheReason(t *testing.T) {
	statuses := map[string]int{"/401": 401, "/403": 403, "/404": 404, "/503": 503, "/302": 302}
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Location", "/404")
		answer.WriteHeader(statuses[request.URL.Path])
	}))
	defer server.Close()
	base := "ws" + strings.TrimPrefix(server.URL, "http")
	for address, code := range map[string]string{
		base + "/401": "unauthorized", base + "/403": "forbidden", base + "/404": "upgrade_refused", base + "/503": "upgrade_unavailable",
		base + "/302": "upgrade_refused", "ws://127.0.0.1:1/ws": "connection_refused", "http://127.0.0.1/": "address_invalid",
		"ws://me:secret@127.0.0.1/": "address_invalid", "ws:///ws": "address_invalid", "": "address_invalid",
	} {
		info := directInfo(1)
		info.URL = address
		_, err := Dial(within(t, 5e9), info, nil)
		if codeOf(t, err) != code || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
