# The broker over a validated module: `docker build -f deploy/docker/broker-fips.Dockerfile -t sealway-broker-fips .`
FROM rust:1.95-bookworm AS build
# The module is built by cmake, and its hash is put in by a program in Go.
RUN apt-get update && apt-get install -y --no-install-recommends cmake golang perl && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --release --locked --manifest-path fips/Cargo.toml

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /source/fips/target/release/sealway /usr/bin/sealway
COPY deploy/broker/Profiles.yaml /etc/sealway/Profiles.yaml
USER 1000:1000
ENV CRYPTO_BROKER_PROFILES_DIR=/etc/sealway CRYPTO_BROKER_REQUIRE_FIPS=true
ENTRYPOINT ["/usr/bin/sealway", "broker"]
CMD ["serve"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/bin/sealway", "broker", "health"]
