# The pipeline in an image: `cargo xtask container build`, or `docker build .`
#
# BASE is what runs. Debian is enough for the simulator. For a GPU host take a CUDA base with apt whose glibc is not older
# than the one of RUST, and name in PACKAGES what the programs import, in pip's form; `cargo xtask container reproduce` does
# both where it measures.
ARG BASE=docker.io/library/debian:bookworm-slim
# RUST is what compiles: any image with cargo 1.95 or later and a C compiler on PATH. Nothing is installed on top of it,
# so that a build without network works when RUST brings the crates along.
ARG RUST=docker.io/library/rust:1.95-slim-bookworm

FROM ${RUST} AS builder
# The same folder as in the last stage: the binaries look for their data where they were built.
WORKDIR /opt/artifact
COPY . .
# The development profile, as everywhere in this repository: it optimises the simulator, and leaves out the Parquet
# library, which would double the build for nothing.
ENV CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_STRIP=symbols
RUN cargo build --locked --package artifact --package figures --package fetch --package doctor --package xtask \
    --package cli --package daemon --package interpose

# What the last stage needs: binaries, and the data that they read. The traffic traces and fonts are inside the binaries.
FROM builder AS files
ARG REVISION=unknown
RUN set -eu; to=/files/opt/artifact; mkdir -p "$to/bin" /files/results; \
    for name in artifact figures fetch doctor xtask tally tallyd libtally_interpose.so; do cp "target/debug/$name" "$to/bin/"; done; \
    cp --parents -r artifact/experiments artifact/claims.toml artifact/fidelity.toml artifact/sources.toml artifact/prices.toml machines workloads/profiles workloads/*/workload.toml workloads/*/program.py workloads/common/*.py "$to/"; \
    if [ -d artifact/golden ]; then cp --parents -r artifact/golden "$to/"; fi; \
    cp --parents LICENSE NOTICE traces/data/PROVENANCE.md figures/fonts/LICENCE.md figures/reference/PROVENANCE.md "$to/"; \
    printf 'revision = "%s"\nrustc = "%s"\n' "$REVISION" "$(rustc --version)" > "$to/built.toml"; \
    ln -s /results "$to/results"

FROM ${BASE}
ARG PACKAGES=
RUN if [ -n "$PACKAGES" ]; then set -eu; apt-get update; \
    apt-get install -y --no-install-recommends python3 python3-venv; rm -rf /var/lib/apt/lists/*; \
    python3 -m venv /opt/python; /opt/python/bin/pip install --no-cache-dir $PACKAGES; fi
ENV PATH=/opt/python/bin:$PATH
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpu-sharing-artifact" \
      org.opencontainers.image.licenses="MIT AND CC-BY-4.0 AND Bitstream-Vera" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=files /files/opt/ /opt/
# A number, not a name: BASE need not know the user, and `--user` may be any other one.
COPY --from=files --chown=10001:10001 /files/results/ /results/
ENV HOME=/tmp
WORKDIR /opt/artifact
USER 10001:10001
ENTRYPOINT ["/opt/artifact/bin/xtask"]
CMD ["reproduce", "--quick"]
