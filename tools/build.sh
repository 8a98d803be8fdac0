#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds a preset of CMakePresets.json: tools/build.sh PRESET JOBS [argument of cmake --build]...
#
# A build directory keeps the generator it was made with, whichever that was: cmake refuses another
# one. A new directory gets the preset's. It is made anew only if its generator's program is gone.
set -eu

preset=$1
jobs=$2
shift 2
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKELEVEL # a make below is another one than the one that called

cached() { # a variable of the build directory; empty: there is none
    sed -n "s/^$1:[A-Z]*=//p" "$cache" 2>/dev/null || true
}

if [ "$preset" = release ]; then
    cache=build/CMakeCache.txt
else
    cache=build-$preset/CMakeCache.txt
fi
options=()
generator=$(cached CMAKE_GENERATOR)
program=$(cached CMAKE_MAKE_PROGRAM)
if [ -n "$program" ] && [ ! -x "$program" ]; then
    options=(--fresh)
elif [ -n "$generator" ]; then
    options=(-G "$generator")
fi
cmake --preset "$preset" "${options[@]}" >/dev/null
exec cmake --build --preset "$preset" -j "$jobs" "$@"
