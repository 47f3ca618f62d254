module sealway.dev/go/channel

go 1.25.0

require (
	github.com/coder/websocket v1.8.15
	github.com/hashicorp/yamux v0.1.2
	golang.org/x/crypto v0.50.0
	sealway.dev/go v0.1.0
)

require golang.org/x/sys v0.43.0 // indirect

replace sealway.dev/go => ../
