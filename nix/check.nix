# Evaluates flake.nix without nixpkgs, which an offline machine has not: `nix-instantiate --eval --strict nix/check.nix`.
# Stand-ins show what the flake asks of nixpkgs; a name that it does not define, a wrong argument or a bad lock file is an
# error. That the packages exist in nixpkgs under these names is not checked.
let
  lock = builtins.fromJSON (builtins.readFile ../flake.lock);
  flake = import ../flake.nix;
  pin = lock.nodes.${lock.nodes.root.inputs.nixpkgs};
  original = pin.original;

  names = [ "cargo" "rustc" "rustfmt" "clippy" "cargo-deny" "git" "podman" "makeWrapper" ];
  pkgs =
    builtins.listToAttrs (map (name: { inherit name; value = { inherit name; version = "0"; }; }) names)
    // {
      lib = {
        licenses.mit = "MIT";
        platforms.linux = [ ];
      };
      rustPlatform.buildRustPackage = arguments: arguments;
      mkShell = arguments: arguments;
      # As in nixpkgs: arguments by name from the package set.
      callPackage =
        file: given:
        let
          f = import file;
        in
        f (builtins.intersectAttrs (builtins.functionArgs f) pkgs // given);
    };
  outputs = flake.outputs {
    self.rev = "0123";
    nixpkgs = {
      lib.genAttrs = keys: value: builtins.listToAttrs (map (name: { inherit name; value = value name; }) keys);
      legacyPackages = {
        x86_64-linux = pkgs;
        aarch64-linux = pkgs;
      };
    };
  };
  package = outputs.packages.x86_64-linux.default;
  checks = {
    "the lock file is of version 7" = lock.version == 7 && lock.root == "root";
    "the lock file is of this flake's input" =
      flake.inputs.nixpkgs.url == "github:${original.owner}/${original.repo}/${original.ref}"
      && builtins.attrNames flake.inputs == builtins.attrNames lock.nodes.root.inputs;
    "the pin is a commit and a digest" =
      builtins.match "[0-9a-f]{40}" pin.locked.rev != null
      && builtins.match "sha256-[A-Za-z0-9+/]{43}=" pin.locked.narHash != null
      && pin.locked.owner == original.owner
      && pin.locked.repo == original.repo;
    "the package names its revision" = builtins.match ".*revision = .*0123.*" package.postInstall != null;
    "the lock file of the crates is there" = builtins.pathExists package.cargoLock.lockFile;
    "the shell has a compiler" =
      builtins.any (tool: tool.name == "rustc") outputs.devShells.aarch64-linux.default.packages;
  };
  failed = builtins.filter (name: !checks.${name}) (builtins.attrNames checks);
in
if failed == [ ] then
  "${toString (builtins.length (builtins.attrNames checks))} ok"
else
  throw "not so: ${builtins.concatStringsSep "; " failed}"
