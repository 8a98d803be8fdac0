#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds terraced without each of the models, one at a time: tools/build_without.sh JOBS.
set -eu
cd "$(dirname "$0")/.."
models=$(sed -n 's/^MODEL(\(.*\))$/\1/p' src/server/models.def)
for without in $models; do
    left=$(echo "$models" | grep -vx "$without" | paste -sd';')
    echo "without $without"
    cmake -S . -B build-without -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTERRACE_FAULTS=ON \
        "-DTERRACE_MODELS=$left" >/dev/null
    cmake --build build-without -j "$1" --target terraced
    if nm build-without/terraced | grep -q " ${without}_model$"; then
        echo "terraced has $without still" >&2
        exit 1
    fi
done
