#!/usr/bin/env bash
# Packs a program for a release: `pack.sh PROGRAM TARGET VERSION DIR` writes DIR/koze-vVERSION-TARGET.tar.gz.
#
# .github/action/install.sh and cargo-binstall (`cli/Cargo.toml`) expect this name and this layout.
set -euo pipefail

program=$1 target=$2 version=$3 dir=$4
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
name=koze-v$version-$target

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
mkdir -p "$staging/$name" "$dir"
cp "$program" "$root/LICENSE-APACHE" "$root/LICENSE-MIT" "$root/README.md" "$root/CHANGELOG.md" "$staging/$name/"
chmod 755 "$staging/$name/$(basename "$program")"
tar -czf "$dir/$name.tar.gz" -C "$staging" "$name"
