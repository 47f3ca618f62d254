module sealway.dev/go

go 1.25.0

require golang.org/x/crypto v0.50.0

require golang.org/x/sys v0.43.0 // indirect
