#!/bin/bash
# bench.sh BUILD_DIR [AREA]: runs bench_AREA, or every bench program that was built.
set -eu
build=$1
area=${2:-}
if [ -n "$area" ]; then
    exec "$build/bench_$area"
fi
for program in "$build"/bench_*; do
    [ -x "$program" ] || continue
    echo "== ${program##*/}"
    "$program"
done
