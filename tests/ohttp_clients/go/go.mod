module sealway.dev/tests/ohttp_clients

go 1.25.4

require github.com/openpcc/ohttp v0.0.37

require (
	github.com/cloudflare/circl v1.6.1 // indirect
	github.com/openpcc/bhttp v0.0.37 // indirect
	github.com/openpcc/twoway v0.0.22 // indirect
	github.com/quic-go/quic-go v0.56.0 // indirect
	go.opentelemetry.io/otel v1.38.0 // indirect
	go.opentelemetry.io/otel/trace v1.38.0 // indirect
	golang.org/x/crypto v0.45.0 // indirect
	golang.org/x/net v0.47.0 // indirect
	golang.org/x/sys v0.38.0 // indirect
	golang.org/x/text v0.31.0 // indirect
)
