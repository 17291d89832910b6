#!/usr/bin/env bash
# The step of action.yml that checks the project in the current directory, with the words of `KOZE_ARGS` as more arguments.
set -eo pipefail

# No word is expanded: `read` splits, and does nothing else. It fails at the end of its input.
args=()
IFS=$' \t\r\n' read -r -d '' -a args <<<"$KOZE_ARGS" || true

exec koze build --check --format github "${args[@]}"
