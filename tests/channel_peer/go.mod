module sealway.dev/tests/channel_peer

go 1.24

require (
	github.com/coder/websocket v1.8.15
	github.com/hashicorp/yamux v0.1.2
)
