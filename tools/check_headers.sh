#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone.
set -eu
cd "$(dirname "$0")/.."
failed=0
read -ra lua < <(pkg-config --cflags lua5.1)
while IFS= read -r header; do
    name=${header#src/}
    name=${name#tests/}
    if ! echo "#include \"$name\"" | gcc -std=gnu17 -D_GNU_SOURCE -DTERRACE_FAULTS -Wall -Wextra \
        -Werror -Isrc -Itests "${lua[@]}" -fsyntax-only -x c -; then
        echo "$header does not compile alone" >&2
        failed=1
    fi
done < <(find src tests -name '*.h' | sort)
exit $failed
