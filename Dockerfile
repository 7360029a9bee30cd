# syntax=docker/dockerfile:1
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
# The caches outlive a build; the program is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package millstream-host && cp target/release/millstream /millstream

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/millstream millstream
COPY --from=build /millstream /usr/local/bin/millstream
USER millstream
WORKDIR /var/lib/millstream
ENV MILLSTREAM_CONFIG=/etc/millstream/millstream.yaml
EXPOSE 9464
# SIGTERM drains.
STOPSIGNAL SIGTERM
ENTRYPOINT ["millstream"]
CMD ["run"]
