# The broker as an image: `docker build -f deploy/docker/broker.Dockerfile -t sealway-broker .` from the repository's root.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked -p sealway-cli --no-default-features --features broker

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /source/target/release/sealway /usr/bin/sealway
COPY deploy/broker/Profiles.yaml /etc/sealway/Profiles.yaml
# The user of the released images, so that an application beside it is the same one.
USER 1000:1000
ENV CRYPTO_BROKER_PROFILES_DIR=/etc/sealway
ENTRYPOINT ["/usr/bin/sealway", "broker"]
CMD ["serve"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/bin/sealway", "broker", "health"]
