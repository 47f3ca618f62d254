// Drives the transit API by the client of Vault for Go: main ADDRESS TOKEN. Writes a line of JSON for each operation.
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/hashicorp/vault/api"
)

var failed bool

func say(operation string, ok bool) {
	failed = failed || !ok
	line, _ := json.Marshal(map[string]any{"operation": operation, "ok": ok})
	fmt.Println(string(line))
}

func encoded(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))
}

type fields = map[string]any

func main() {
	config := api.DefaultConfig()
	config.Address = os.Args[1]
	config.MaxRetries = 0
	client, err := api.NewClient(config)
	if err != nil {
		panic(err)
	}
	client.SetToken(os.Args[2])
	logical := client.Logical()
	// Writes below the mount, and returns the data.
	write := func(path string, body fields) fields {
		secret, err := logical.Write("transit/"+path, body)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", path, err))
		}
		return secret.Data
	}
	status := func(err error) int {
		var answer *api.ResponseError
		if errors.As(err, &answer) {
			return answer.StatusCode
		}
		return 0
	}

	health, err := client.Sys().Health()
	say("health", err == nil && health.Initialized && !health.Sealed)
	seal, err := client.Sys().SealStatus()
	say("seal status", err == nil && !seal.Sealed)
	self, err := client.Auth().Token().LookupSelf()
	say("lookup self", err == nil && self.Data["display_name"] == "admin")

	write("keys/orders", fields{"type": "aes256-gcm96"})
	write("keys/invoices", fields{"type": "rsa-2048"})
	write("keys/hooks", fields{"type": "hmac"})
	read, err := logical.Read("transit/keys/orders")
	say("read", err == nil && read.Data["latest_version"] == json.Number("1"))
	list, err := logical.List("transit/keys")
	say("list", err == nil && len(list.Data["keys"].([]any)) == 3)
	missing, err := logical.Read("transit/keys/none")
	say("read of no key", err == nil && missing == nil)

	sealed := write("encrypt/orders", fields{"plaintext": encoded("go")})["ciphertext"].(string)
	say("encrypt", strings.HasPrefix(sealed, "vault:v1:"))
	say("decrypt", write("decrypt/orders", fields{"ciphertext": sealed})["plaintext"] == encoded("go"))
	write("keys/orders/rotate", nil)
	rewrapped := write("rewrap/orders", fields{"ciphertext": sealed})["ciphertext"].(string)
	say("rewrap", strings.HasPrefix(rewrapped, "vault:v2:"))
	batch := write("encrypt/orders", fields{"batch_input": []fields{{"plaintext": encoded("a")}, {"plaintext": encoded("b")}}})
	say("batch", len(batch["batch_results"].([]any)) == 2)
	write("keys/orders/config", fields{"min_decryption_version": 2, "deletion_allowed": true})
	_, err = logical.Write("transit/decrypt/orders", fields{"ciphertext": sealed})
	say("config", status(err) == http.StatusBadRequest)

	signature := write("sign/invoices", fields{"input": encoded("42")})["signature"]
	say("sign", write("verify/invoices", fields{"input": encoded("42"), "signature": signature})["valid"] == true)
	say("verify", write("verify/invoices", fields{"input": encoded("43"), "signature": signature})["valid"] == false)
	tag := write("hmac/hooks", fields{"input": encoded("body")})["hmac"]
	say("hmac", write("verify/hooks", fields{"input": encoded("body"), "hmac": tag})["valid"] == true)
	say("hash", strings.HasPrefix(write("hash", fields{"input": encoded("abc")})["sum"].(string), "ba7816bf"))
	random, _ := base64.StdEncoding.DecodeString(write("random/24", nil)["random_bytes"].(string))
	say("random", len(random) == 24)
	key := write("datakey/plaintext/orders", nil)
	say("datakey", write("decrypt/orders", fields{"ciphertext": key["ciphertext"]})["plaintext"] == key["plaintext"])

	_, err = logical.Delete("transit/keys/orders")
	say("delete", err == nil)
	client.SetToken("slw." + strings.Repeat("0", 64))
	_, err = logical.Read("transit/keys/invoices")
	say("another token", status(err) == http.StatusForbidden)
	if failed {
		os.Exit(1)
	}
}
