#!/usr/bin/env bash
# Installs the Rust of `rust-toolchain.toml`, which rustup selects in this checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
rustup toolchain install "$version" --profile minimal --component rustfmt --component clippy --no-self-update
