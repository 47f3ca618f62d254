module sealway.dev/tests/websocket_peer

go 1.25.0

require golang.org/x/net v0.57.0

require golang.org/x/text v0.40.0 // indirect
