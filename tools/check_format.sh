#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails when clang-format would change a file; with "fix" it changes them. Versions of clang-format
# do not agree with one another, and the files are as version 14 lays them out: where there is only
# another one, this ends with 77, which tools/run_tests.py counts as skipped.
set -eu
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$format" ]; then
    echo "clang-format is missing: tools/deps.sh test installs it"
    exit 1
fi
version=$("$format" --version | sed 's/.*version \([0-9]*\).*/\1/')
if [ "$version" != 14 ]; then
    echo "clang-format is $version here, and the files are laid out by 14"
    exit 77
fi
if [ "${1:-}" = fix ]; then
    arguments=(-i)
else
    arguments=(--dry-run -Werror)
fi
find src tests \( -name '*.[ch]' -o -name '*.cc' \) -print0 | xargs -0 -r "$format" "${arguments[@]}"
