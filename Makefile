# A menu; the work is in crates/xtask and scripts/. `make help` lists it.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(MAKEFILE_LIST))
.DEFAULT_GOAL := help

run: ## build what the demo needs, without optimisations, and run it; it keeps serving on port 3000
	cargo run --profile demo --locked -p sealway-cli --no-default-features --features sessions -- demo $(ARGS)
test: ## everything that CI tests, installing what the tests need
	cargo xtask test
site: ## the documentation as a site in target/site, checked: links, search, accessibility
	cargo xtask site
sdk: ## build and test the SDKs and the pages alone, and hold each SDK against each other
	cargo xtask sdk
matrix: ## measure every client against every server, RUNS=3 times each; a page and a table in target/matrix
	cargo xtask matrix $(if $(RUNS),--runs $(RUNS)) $(ARGS)
test-fips: ## the broker over a validated module: what is below it, that it starts on nothing else; make test does it too
	cargo xtask test-fips
e2e-faults: ## the fault tests in their long form, a quarter of an hour
	cargo xtask e2e-faults
alerts: ## each alert on the fault that it is about, by itself, with a real Prometheus; a quarter of an hour
	cargo xtask alerts
soak: ## all services under load with a fault each minute, and what grew; ten minutes, ARGS="--minutes 120" two hours
	cargo xtask soak $(ARGS)
load-long: ## the load generator's searches held to the truth in their long form, ten minutes
	cargo xtask load-long
scan-tls: ## testssl.sh and sslyze at a TLS listener, two minutes
	cargo xtask scan-tls
advisories: ## known vulnerabilities of what is locked; fails, too, where a database is away
	cargo xtask advisories --require
check: ## the fast subset: format, clippy, tidy
	cargo xtask check
tidy: ## the repository's own rules: import table, names, sizes, anchors
	cargo xtask tidy
coverage: ## lines of the broker and of the client that tests run, at least 80 %; ARGS="--missing" names the others
	cargo xtask coverage $(ARGS)
bench: ## ours beside the floor, in CPU time per operation
	cargo xtask bench
bench-gateway: ## the gateway beside nginx, HAProxy and Envoy; ARGS="--rows mtls" narrows it
	cargo xtask bench-gateway $(ARGS)
bench-load: ## the load generator beside wrk, h2load, k6 and oha; ARGS="--quick" sees that it works
	cargo xtask bench-load $(ARGS)
bench-broker: ## the broker beside a bare socket, bare cryptography and grpc-go; ARGS="--rounds 1" is a glance
	cargo xtask bench-broker $(ARGS)
bench-channel: ## channels beside bare cryptography, the relay's cost of a channel and of a byte, memory of 5,000 idle channels
	cargo xtask bench-channel $(ARGS)
bench-wire3: ## wire 3 in process beside bare cryptography and the old wires, and the time of refusals; ARGS="init" is one part
	cargo xtask bench-wire3 $(ARGS)
accept-gateway: ## the published acceptance test: 4 x 3,000 new mTLS connections through the gateway
	cargo xtask accept-gateway $(ARGS)
fuzz: ## fuzz every target for a minute, or TARGET=name
	cargo xtask fuzz $(TARGET)
evidence: ## all evidence of docs/assurance in its long form, hours; ARGS="proofs model" are two kinds
	cargo xtask evidence $(ARGS)
publish-dry-run: ## the packages of npm, PyPI, Maven, Go and crates.io, made, checked and installed; nothing is uploaded
	cargo xtask publish-dry-run $(ARGS)
dist: ## static binaries as archives and .deb, with SBOM, provenance and sums, in target/dist; ARGS="--verify" builds twice and compares
	cargo xtask dist $(ARGS)
stranger: ## install the .deb of target/dist in a clean root, and time the first sealed call there; as root
	scripts/stranger.sh
vectors: ## write vectors/ anew from the reference
	cargo xtask vectors
model: ## run Verifpal and SPASS over the models of spec/model, and its searches, a minute
	cargo xtask model
fmt: ## format
	cargo fmt --all
clean: ## remove what builds and tests leave behind
	rm -rf target fips/target .venv fuzz/artifacts fuzz/grown fuzz/kept
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile
