// Sends requests by a published client of Oblivious HTTP, unchanged, and writes what came of each in a line of JSON.
//
// Arguments: where the key configurations are, where encapsulated requests go, and the origin of the target.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/openpcc/ohttp"
)

type result struct {
	Kem    uint16 `json:"kem"`
	Mode   string `json:"mode"`
	Status int    `json:"status"`
	Body   string `json:"body"`
	Path   string `json:"path"`
	Method string `json:"method"`
	Error  string `json:"error,omitempty"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: ohttp KEYS GATEWAY TARGET")
		os.Exit(2)
	}
	configs, err := keys(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for _, config := range configs {
		for _, mode := range []string{"get", "plain", "streamed", "large"} {
			one := ask(config, os.Args[2], os.Args[3], mode)
			if err := out.Encode(one); err != nil {
				os.Exit(1)
			}
		}
	}
}

func keys(url string) (ohttp.KeyConfigs, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/ohttp-keys")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	list, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	var configs ohttp.KeyConfigs
	return configs, configs.UnmarshalBinary(list)
}

// ask sends one request: without a body, with one whose length is known, or with one that is streamed.
func ask(config ohttp.KeyConfig, gateway, target, mode string) result {
	one := result{Kem: uint16(config.KemID), Mode: mode}
	transport, err := ohttp.NewTransport(config, gateway)
	if err != nil {
		one.Error = err.Error()
		return one
	}
	method, body := http.MethodPost, io.Reader(strings.NewReader("from go"))
	switch mode {
	case "get":
		method, body = http.MethodGet, nil
	case "streamed":
		// A reader of which the client knows no length.
		body = io.MultiReader(strings.NewReader("from "), strings.NewReader("go"))
	case "large":
		body = io.MultiReader(bytes.NewReader(bytes.Repeat([]byte("0123456789abcdef"), 20000)))
	}
	request, err := http.NewRequest(method, target+"/echo/"+mode+"?a=b", body)
	if err != nil {
		one.Error = err.Error()
		return one
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		one.Error = err.Error()
		return one
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		one.Error = err.Error()
		return one
	}
	one.Status, one.Body = answer.StatusCode, string(got)
	one.Path, one.Method = answer.Header.Get("X-Path"), answer.Header.Get("X-Method")
	if mode == "large" {
		one.Body = fmt.Sprint(len(got))
	}
	return one
}
