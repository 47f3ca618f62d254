module sealway.dev/go/mldsa

go 1.25.0

require (
	github.com/cloudflare/circl v1.6.5
	sealway.dev/go v0.1.0
)

require golang.org/x/sys v0.47.0 // indirect

replace sealway.dev/go => ../
