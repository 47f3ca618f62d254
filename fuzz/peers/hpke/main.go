// HPKE of Go's standard library: a question in JSON a line, an answer a line.
//
// A question has the ids of the suite, info, a list of messages (aad and text in hexadecimal) and an exporter context. With "seal",
// the public key of the recipient, the program is the sender; with "open", the recipient's private key, and "enc", it is the
// recipient.
package main

import (
	"bufio"
	"crypto/hpke"
	"encoding/hex"
	"encoding/json"
	"os"
)

type octets []byte

func (o octets) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(o)), nil }

func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = hex.DecodeString(string(text))
	return err
}

type message struct {
	AAD  octets `json:"aad"`
	Text octets `json:"text"`
}

type question struct {
	KEM      uint16    `json:"kem"`
	KDF      uint16    `json:"kdf"`
	AEAD     uint16    `json:"aead"`
	Seal     octets    `json:"seal"`
	Open     octets    `json:"open"`
	Enc      octets    `json:"enc"`
	Info     octets    `json:"info"`
	Messages []message `json:"messages"`
	Exporter octets    `json:"exporter"`
}

type answer struct {
	Enc      octets   `json:"enc,omitempty"`
	Texts    []octets `json:"texts"`
	Exported octets   `json:"exported,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func answerTo(q question) (a answer, err error) {
	kem, err := hpke.NewKEM(q.KEM)
	if err != nil {
		return a, err
	}
	kdf, err := hpke.NewKDF(q.KDF)
	if err != nil {
		return a, err
	}
	aead, err := hpke.NewAEAD(q.AEAD)
	if err != nil {
		return a, err
	}
	if len(q.Seal) > 0 {
		key, err := kem.NewPublicKey(q.Seal)
		if err != nil {
			return a, err
		}
		enc, sender, err := hpke.NewSender(key, kdf, aead, q.Info)
		if err != nil {
			return a, err
		}
		a.Enc = enc
		for _, m := range q.Messages {
			sealed, err := sender.Seal(m.AAD, m.Text)
			if err != nil {
				return a, err
			}
			a.Texts = append(a.Texts, sealed)
		}
		a.Exported, err = sender.Export(string(q.Exporter), 32)
		return a, err
	}
	key, err := kem.NewPrivateKey(q.Open)
	if err != nil {
		return a, err
	}
	recipient, err := hpke.NewRecipient(q.Enc, key, kdf, aead, q.Info)
	if err != nil {
		return a, err
	}
	for _, m := range q.Messages {
		text, err := recipient.Open(m.AAD, m.Text)
		if err != nil {
			return a, err
		}
		a.Texts = append(a.Texts, text)
	}
	a.Exported, err = recipient.Export(string(q.Exporter), 32)
	return a, err
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		a, err := answerTo(q)
		if err != nil {
			// What was opened before the error says nothing.
			a = answer{Error: err.Error()}
		}
		if err := encoder.Encode(a); err != nil {
			panic(err)
		}
		if err := out.Flush(); err != nil {
			panic(err)
		}
	}
}
