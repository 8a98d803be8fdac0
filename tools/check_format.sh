#!/bin/bash
# Fails when clang-format would change a file; with "fix" it changes them.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = fix ]; then
    find src tests -name '*.[ch]' -print0 | xargs -0 -r clang-format -i
else
    find src tests -name '*.[ch]' -print0 | xargs -0 -r clang-format --dry-run -Werror
fi
