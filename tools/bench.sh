#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD_DIR [AREA]: runs bench_AREA, or every bench program that was built. The area server is
# tools/bench_server.py; it runs last, and OPTIONS="--only set,get --p 16" makes it short. The area landing is
# bench_landing and then tools/bench_landing.py, whose outage of the database lasts OUTAGE_SECONDS. The area tile is
# tools/bench_tile.py, which TILE_BENCH=short makes short. The area partition is bench_partition and then
# tools/bench_partition.py, with PART_N partitions. The area fs is tools/bench_fs.py, with FS_FILES files. The area cold
# is tools/bench_cold.py, the area wait tools/bench_wait.py; OPTIONS="--n 50000 --only spop" makes them short.
set -eu
build=$1
area=${2:-}
bench_server() {
    # shellcheck disable=SC2086
    /usr/bin/python3 "$(dirname "$0")/bench_server.py" --build "$build" ${OPTIONS:-}
}
bench_partition() {
    /usr/bin/python3 "$(dirname "$0")/bench_partition.py" --build "$build"
}
bench_landing() {
    /usr/bin/python3 "$(dirname "$0")/bench_landing.py" --build "$build"
}
bench_tile() {
    /usr/bin/python3 "$(dirname "$0")/bench_tile.py" --build "$build"
}
bench_fs() {
    # shellcheck disable=SC2086
    /usr/bin/python3 "$(dirname "$0")/bench_fs.py" --build "$build" ${OPTIONS:-}
}
bench_cold() {
    # shellcheck disable=SC2086
    /usr/bin/python3 "$(dirname "$0")/bench_cold.py" --build "$build" ${OPTIONS:-}
}
bench_wait() {
    # shellcheck disable=SC2086
    /usr/bin/python3 "$(dirname "$0")/bench_wait.py" --build "$build" ${OPTIONS:-}
}
if [ "$area" = wait ]; then
    bench_wait
    exit
fi
if [ "$area" = cold ]; then
    bench_cold
    exit
fi
if [ "$area" = fs ]; then
    bench_fs
    exit
fi
if [ "$area" = tile ]; then
    bench_tile
    exit
fi
if [ "$area" = server ]; then
    bench_server
    exit
fi
if [ "$area" = landing ]; then
    "$build/bench_landing"
    bench_landing
    exit
fi
if [ "$area" = partition ]; then
    "$build/bench_partition"
    bench_partition
    exit
fi
if [ -n "$area" ]; then
    exec "$build/bench_$area"
fi
for program in "$build"/bench_*; do
    [ -x "$program" ] || continue
    echo "== ${program##*/}"
    "$program"
done
echo "== bench_partition.py"
bench_partition
echo "== bench_landing.py"
bench_landing
echo "== bench_tile.py"
bench_tile
echo "== bench_fs.py"
bench_fs
echo "== bench_cold.py"
bench_cold
echo "== bench_wait.py"
bench_wait
echo "== bench_server.py"
bench_server
