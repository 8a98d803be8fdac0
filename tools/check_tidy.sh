#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_tidy.sh BUILD_DIR: clang-tidy over src/, two files at a time.
set -eu
cd "$(dirname "$0")/.."
find src -name '*.c' -print0 | sort -z | xargs -0 -r -n 4 -P 2 clang-tidy --quiet -p "$1"
