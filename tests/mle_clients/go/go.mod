module sealway.dev/tests/mle_clients

go 1.25.0

require (
	github.com/Jeffail/gabs/v2 v2.6.1
	github.com/go-jose/go-jose/v4 v4.1.8
	github.com/mastercard/client-encryption-go v1.3.0
)

require golang.org/x/crypto v0.17.0 // indirect
