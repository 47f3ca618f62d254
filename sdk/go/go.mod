module sealway.dev/go

go 1.25.0
