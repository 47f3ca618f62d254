module sealway.dev/go

go 1.25.0

require golang.org/x/crypto v0.50.0

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/hashicorp/yamux v0.1.2 // indirect
	golang.org/x/sys v0.43.0 // indirect
)
