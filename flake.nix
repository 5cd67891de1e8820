{
  description = "Sharing one GPU by priority: a reproducible evaluation of Tally";

  # flake.lock holds the revision. This branch has rustc 1.95, the oldest that the crates in Cargo.lock accept.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      forEach = build: nixpkgs.lib.genAttrs systems (system: build nixpkgs.legacyPackages.${system});
    in
    {
      # `nix build`, `nix run . -- reproduce --quick`: the simulator's side. Nothing in it uses a GPU.
      packages = forEach (pkgs: {
        default = pkgs.callPackage ./nix/package.nix {
          revision = self.rev or self.dirtyRev or "unknown";
        };
      });

      # `nix develop`: what `cargo xtask` and .ci/run need. Crates still come from crates.io, as Cargo.lock pins them.
      devShells = forEach (pkgs: {
        default = pkgs.mkShell {
          packages = [
            pkgs.cargo
            pkgs.rustc
            pkgs.rustfmt
            pkgs.clippy
            pkgs.cargo-deny
            pkgs.git
            pkgs.podman
          ];
        };
      });
    };
}
