#!/usr/bin/env bash
# The step of action.yml that installs koze: the released program for this runner, whose SHA-256 must be the released one,
# or koze-cli from crates.io if the release has no program for this runner.
#
# Reads `KOZE_VERSION` (empty: the version of this checkout), `KOZE_ACTION_PATH`, `KOZE_ACTION_REPOSITORY`, and what the
# runner sets: `RUNNER_OS`, `RUNNER_ARCH`, `RUNNER_TEMP`, `GITHUB_SERVER_URL`, `GITHUB_REPOSITORY`, `GITHUB_PATH`, `GITHUB_OUTPUT`.
set -euo pipefail

fail() {
    # An annotation, without line breaks and with its percent signs escaped.
    local message=${1//'%'/%25}
    printf '::error title=koze::%s\n' "${message//[$'\r\n']/ }"
    exit 1
}

version=${KOZE_VERSION#v}
if [ -z "$version" ]; then
    # The first one in the workspace's manifest is that of all crates.
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$KOZE_ACTION_PATH/Cargo.toml" | head -n 1)
fi
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
    fail "the input \`version\` must be a version such as 1.2.3, or empty"

# Empty if the workflow uses the action by a path in its own repository.
repository=${KOZE_ACTION_REPOSITORY:-$GITHUB_REPOSITORY}
[[ $repository =~ ^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$ ]] || fail "the repository of this action has an unexpected name"

# The targets of .github/workflows/release.yml.
case "$RUNNER_OS/$RUNNER_ARCH" in
Linux/X64) target=x86_64-unknown-linux-gnu ;;
Linux/ARM64) target=aarch64-unknown-linux-gnu ;;
macOS/X64) target=x86_64-apple-darwin ;;
macOS/ARM64) target=aarch64-apple-darwin ;;
Windows/X64) target=x86_64-pc-windows-msvc ;;
*) target= ;;
esac

dir=$RUNNER_TEMP/koze-$version
mkdir -p "$dir"
# On Windows, tar takes what precedes a colon for the name of a machine: all names below are relative.
cd "$dir"

# Downloads a file of the release. Returns 1 if the release does not have it; everything else that goes wrong is an error.
download() {
    local url=$GITHUB_SERVER_URL/$repository/releases/download/v$version/$1 code protocol
    protocol="=${GITHUB_SERVER_URL%%://*}"
    code=$(curl --silent --show-error --location --proto "$protocol" --proto-redir "$protocol" --retry 3 --max-time 300 \
        --output "$1" --write-out '%{http_code}' -- "$url") || fail "cannot download $url"
    case $code in
    200) ;;
    404) return 1 ;;
    *) fail "cannot download $url: the server answered $code" ;;
    esac
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | cut -d ' ' -f 1
}

# Installs the program of the release into $dir. Returns 1 if there is none for this runner.
released() {
    local name=koze-v$version-$target sum
    [ -n "$target" ] && download "$name.tar.gz" || return 1
    download SHA256SUMS || fail "the release v$version of $repository has no SHA256SUMS"
    sum=$(awk -v file="$name.tar.gz" '$2 == file { print $1 }' SHA256SUMS)
    [[ $sum =~ ^[0-9a-f]{64}$ ]] || fail "SHA256SUMS of v$version does not have exactly one sum of $name.tar.gz"
    [ "$(sha256 "$name.tar.gz")" = "$sum" ] ||
        fail "the SHA-256 of $name.tar.gz is not the one in SHA256SUMS: the download is damaged, or was tampered with"
    tar -xzf "$name.tar.gz" || fail "$name.tar.gz cannot be unpacked"
    bin=$dir/$name
}

if ! released; then
    echo "no released program of koze $version for $RUNNER_OS on $RUNNER_ARCH: installing koze-cli from crates.io"
    command -v cargo >/dev/null || fail "there is no released program of koze $version for this runner, and no cargo to build one"
    cargo install koze-cli --locked --version "=$version" --root "$dir/cargo"
    bin=$dir/cargo/bin
fi

printf '%s\n' "$bin" >>"$GITHUB_PATH"
printf 'version=%s\n' "$version" >>"$GITHUB_OUTPUT"
"$bin/koze" --version
