#!/usr/bin/env bash
# Installs the Rust that the workspace's `rust-version` names, and makes it the default. More components are arguments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
rustup toolchain install "$version" --profile minimal --component rustfmt --component clippy --no-self-update
rustup default "$version"
