# The binaries and their data, laid out as in the container image (see the Dockerfile): bin beside the data, and
# `built.toml` with the revision, as there is no git at run time.
{
  lib,
  rustPlatform,
  rustc,
  makeWrapper,
  revision,
}:
rustPlatform.buildRustPackage {
  pname = "gpu-sharing-artifact";
  version = "0.1.0";

  # A flake's source holds what git tracks, so no results and no build outputs.
  src = ../.;
  cargoLock.lockFile = ../Cargo.lock;

  # The development profile, as everywhere in this repository: it optimises the simulator.
  buildType = "debug";
  cargoBuildFlags = [
    "--package=artifact"
    "--package=figures"
    "--package=fetch"
    "--package=doctor"
    "--package=xtask"
  ];
  # The tests read the whole repository and start cargo; `cargo test` in the development shell runs them.
  doCheck = false;

  nativeBuildInputs = [ makeWrapper ];

  postInstall = ''
    top=$out/share/artifact
    mkdir -p $top
    cp --parents -r artifact/experiments artifact/claims.toml artifact/fidelity.toml artifact/sources.toml artifact/prices.toml machines workloads/profiles workloads/*/workload.toml $top/
    if [ -d artifact/golden ]; then cp --parents -r artifact/golden $top/; fi
    cp --parents LICENSE NOTICE traces/data/PROVENANCE.md figures/fonts/LICENCE.md figures/reference/PROVENANCE.md $top/
    mv $out/bin $top/bin
    printf 'revision = "%s"\nrustc = "%s"\n' "${revision}" "rustc ${rustc.version}" > $top/built.toml
    mkdir $out/bin
    makeWrapper $top/bin/xtask $out/bin/gpu-sharing-artifact
  '';

  meta = {
    description = "Replays an evaluation of GPU sharing from real traffic and recorded kernels, on a simulated GPU";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
    mainProgram = "gpu-sharing-artifact";
  };
}
