package purchase

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const requestMax = 64 << 10

// Handler is the demo service: POST /transaction/purchase and GET /health, in plain.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { write(w, 200, map[string]string{"status": "ok"}) })
	mux.HandleFunc("POST /transaction/purchase", buy)
	return mux
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func buy(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		SchemeCode *string         `json:"schemeCode"`
		Amount     json.RawMessage `json:"amount"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, requestMax+1))
	if err != nil || len(body) > requestMax || json.Unmarshal(body, &asked) != nil || asked.SchemeCode == nil || !number(asked.Amount) {
		write(w, 400, map[string]string{"error": "INVALID_REQUEST"})
		return
	}
	var id [8]byte
	rand.Read(id[:])
	write(w, 200, struct {
		Status        string          `json:"status"`
		TransactionID string          `json:"transactionId"`
		SchemeCode    string          `json:"schemeCode"`
		Amount        json.RawMessage `json:"amount"`
		Timestamp     string          `json:"timestamp"`
		Message       string          `json:"message"`
	}{"SUCCESS", "TXN-" + strings.ToUpper(hex.EncodeToString(id[:])), *asked.SchemeCode, asked.Amount,
		time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"Purchase of " + string(asked.Amount) + " in scheme " + *asked.SchemeCode + " completed successfully"})
}

// number says whether this is a number of JSON.
func number(raw json.RawMessage) bool {
	_, err := strconv.ParseFloat(string(raw), 64)
	return len(raw) > 0 && raw[0] != '"' && err == nil
}
