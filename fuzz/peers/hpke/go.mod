module sealway.dev/fuzz/peers/hpke

go 1.26
