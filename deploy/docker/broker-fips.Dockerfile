# The broker over a validated module: `docker build -f deploy/docker/broker-fips.Dockerfile -t sealway-broker-fips:0.1.0 .`
# The module is linked to the C library of its base, so this image is not static; the rest is as in deploy/docker/Dockerfile.
ARG RUST=rust:1.95-bookworm
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

FROM ${RUST} AS build
# The module is built by cmake, and its hash is put in by a program in Go. Debian's mirrors have the newest version alone.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends cmake golang perl && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --release --locked --manifest-path fips/Cargo.toml

FROM ${BASE} AS broker-fips
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Sealway broker, FIPS" \
      org.opencontainers.image.source="https://github.com/sealway/sealway" \
      org.opencontainers.image.documentation="https://github.com/sealway/sealway/blob/main/docs/reference/images.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /source/fips/target/release/sealway /usr/bin/sealway
COPY deploy/broker/Profiles.yaml /etc/sealway/Profiles.yaml
USER 1000:1000
ENV CRYPTO_BROKER_PROFILES_DIR=/etc/sealway CRYPTO_BROKER_REQUIRE_FIPS=true
ENTRYPOINT ["/usr/bin/sealway"]
CMD ["broker", "serve"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/bin/sealway", "broker", "health"]
