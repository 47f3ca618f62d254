package main

import (
	"context"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"

	"sealway.dev/go/broker"
)

// fileMax is the longest file that is read, in bytes: what the broker takes at most.
const fileMax = 1 << 20

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, wrong("%v", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, fileMax+1))
	if err != nil {
		return nil, wrong("%v", err)
	}
	if len(text) > fileMax {
		return nil, wrong("%s is longer than %d bytes", name, fileMax)
	}
	return text, nil
}

func hashCommand(arguments []string) (func(context.Context, *tool) error, error) {
	set := flags("hash")
	profile := set.String("profile", "Default", "")
	format := set.String("output-format", "hex", "")
	if err := parse(set, arguments); err != nil {
		return nil, err
	}
	if set.NArg() == 0 || *format != "hex" && *format != "raw" {
		return nil, wrong("hash takes a TEXT or @FILE, and --output-format hex or raw")
	}
	var inputs [][]byte
	for _, text := range set.Args() {
		input := []byte(text)
		if name, isFile := strings.CutPrefix(text, "@"); isFile {
			var err error
			if input, err = readFile(name); err != nil {
				return nil, err
			}
		}
		inputs = append(inputs, input)
	}
	return func(ctx context.Context, at *tool) error {
		made, err := at.client.Hash(ctx, *profile, inputs...)
		if err != nil {
			return err
		}
		for _, digest := range made.Outputs {
			if *format == "raw" {
				_, err = at.output.Write(digest)
			} else {
				_, err = fmt.Fprintln(at.output, hex.EncodeToString(digest))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// list is a flag that may be given again.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

func signCommand(arguments []string) (func(context.Context, *tool) error, error) {
	set := flags("sign")
	profile, subject := set.String("profile", "Default", ""), set.String("subject", "", "")
	csr, certificate := set.String("csr", "", ""), set.String("ca-cert", "", "")
	reference, keyFile := set.String("ca-key-ref", "", ""), set.String("ca-key", "", "")
	encoding := set.String("encoding", "pem", "")
	var points list
	set.Var(&points, "crl-point", "")
	if err := parse(set, arguments); err != nil {
		return nil, err
	}
	if *csr == "" || *certificate == "" || (*reference == "") == (*keyFile == "") || *encoding != "pem" && *encoding != "der" || set.NArg() > 0 {
		return nil, wrong("sign takes --csr FILE, --ca-cert FILE, one of --ca-key-ref ID and --ca-key FILE, and --encoding pem or der")
	}
	files := map[string][]byte{*csr: nil, *certificate: nil}
	if *keyFile != "" {
		files[*keyFile] = nil
	}
	for name := range files {
		var err error
		if files[name], err = readFile(name); err != nil {
			return nil, err
		}
	}
	sign := func(ctx context.Context, at *tool) ([]byte, error) {
		if *keyFile != "" {
			return at.client.SignCertificateWithKey(ctx, &broker.KeyedCertificateRequest{
				Profile: *profile, CSR: string(files[*csr]), CACertificate: string(files[*certificate]), CAKey: files[*keyFile],
				Subject: *subject, CRLPoints: points,
			})
		}
		der, _, err := at.client.SignCertificate(ctx, &broker.CertificateRequest{
			Profile: *profile, CSR: files[*csr], CAKey: *reference, CACertificate: files[*certificate], Subject: *subject, CRLPoints: points,
		})
		return der, err
	}
	return func(ctx context.Context, at *tool) error {
		der, err := sign(ctx, at)
		if err != nil {
			return err
		}
		if *encoding == "der" {
			_, err = at.output.Write(der)
			return err
		}
		return pem.Encode(at.output, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	}, nil
}

func healthCommand(arguments []string) (func(context.Context, *tool) error, error) {
	if len(arguments) > 0 {
		return nil, wrong("health takes no arguments")
	}
	return func(ctx context.Context, at *tool) error {
		said, err := at.client.Health(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(at.output, said); err != nil {
			return err
		}
		if said != "SERVING" {
			return fmt.Errorf("the broker is %s", said)
		}
		return nil
	}, nil
}
