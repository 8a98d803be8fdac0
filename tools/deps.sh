#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing for: build (the default), test, bench or check. Each set holds the ones
# before it as far as it needs them. It asks for commands, headers and libraries, not for package
# names, so that what was built by hand counts as well. NPM_SECONDS bounds how long npm is waited for.
set -eu

goal=${1:-build}
python=/usr/bin/python3 # another python3 on PATH would not see Debian's modules
missing=()

need() { # package, then a command that succeeds when it is there
    local package=$1
    shift
    if ! "$@" >/dev/null 2>&1; then
        missing+=("$package")
    fi
}

has() { command -v "$1"; }

has_daemon() { has "$1" || [ -x "/usr/sbin/$1" ]; }

has_header() {
    local dir
    for dir in /usr/include /usr/local/include /usr/include/"$(uname -m)"-linux-gnu; do
        [ -e "$dir/$1" ] && return 0
    done
    return 1
}

has_library() { # pkg-config name, header
    { has pkg-config && pkg-config --exists "$1"; } || has_header "$2"
}

clang_sanitizes() { echo 'int main(void) { return 0; }' | clang -fsanitize=address,fuzzer-no-link -xc - -o /dev/null; }

# The runtime has to be of clang's own version; without a clang both come from Debian's default.
clang_rt() {
    if has clang >/dev/null; then
        echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
    else
        echo libclang-rt-dev
    fi
}

has_module() { "$python" -c "import $1"; }

need_build() {
    need gcc has gcc
    need g++ has g++
    need libc6-dev has_header stdio.h
    need make has make
    need cmake has cmake
    need ninja-build has ninja
    need pkg-config has pkg-config
    need librocksdb-dev has_library rocksdb rocksdb/c.h
    need libjemalloc-dev has_library jemalloc jemalloc/jemalloc.h
    need libxxhash-dev has_library libxxhash xxhash.h
    need liblua5.1-0-dev has_library lua5.1 lua5.1/lua.h
    need libssl-dev has_library libcrypto openssl/evp.h
    need libjansson-dev has_library jansson jansson.h
    need libmicrohttpd-dev has_library libmicrohttpd microhttpd.h
    need libsqlite3-dev has_library sqlite3 sqlite3.h
    need zlib1g-dev has_library zlib zlib.h
    need liblz4-dev has_library liblz4 lz4.h
    need libzstd-dev has_library libzstd zstd.h
    need liblmdb-dev has_library lmdb lmdb.h
    need libprotobuf-c-dev has_library libprotobuf-c protobuf-c/protobuf-c.h
    need protobuf-c-compiler has protoc-c
    need libmariadb-dev has_library libmariadb mariadb/mysql.h
}

need_test() {
    need clang has clang
    need "$(clang_rt)" clang_sanitizes
    need redis-tools has redis-cli
    need python3 test -x "$python"
    need python3-pytest has_module pytest
    need python3-redis has_module redis
    need python3-hypothesis has_module hypothesis
    need redis-server has redis-server
    need mariadb-server has_daemon mariadbd
    need sqlite3 has sqlite3
    need curl has curl
    need lmdb-utils has mdb_dump
    need openssl has openssl
    need python3-pymysql has_module pymysql
    need nodejs has node
    need npm has npm
    need clang-format has clang-format
}

need_bench() {
    need redis-tools has redis-benchmark
    need redis-server has redis-server
    need mariadb-server has_daemon mariadbd
    need wrk has wrk
    need curl has curl
    need python3 test -x "$python"
    need python3-redis has_module redis
    need python3-pymysql has_module pymysql
}

case $goal in
build) need_build ;;
test) need_build && need_test ;;
bench) need_build && need_bench ;;
check)
    need_build
    need_test
    need clang-tidy has clang-tidy
    ;;
*)
    echo "usage: tools/deps.sh [build|test|bench|check]" >&2
    exit 2
    ;;
esac

advise() { # why it was not done here
    echo "tools/deps.sh: $1. As root, run this, and then make again:" >&2
    echo "    apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
}

install_missing() {
    echo "installing: ${missing[*]}"
    if ! has apt-get >/dev/null; then
        echo "tools/deps.sh: there is no apt-get here; please install what these Debian packages hold" >&2
        exit 1
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        has sudo >/dev/null || advise "only root can install packages, and there is no sudo"
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -q || advise "apt-get update failed"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
        --no-install-recommends "${missing[@]}" || advise "apt-get install failed"
}

# The client of tests/wire/test_clients.py. Version 6 speaks RESP3 and needs node 20; Debian 12 has 18.
# It is no package of Debian, and not every machine reaches npm's registry: the tests that need it are
# skipped then.
install_ioredis() {
    local dir version=5.11.1 seconds=${NPM_SECONDS:-60} said
    dir=$(dirname "$0")/../build-node
    [ -d "$dir/node_modules/ioredis" ] && return 0
    if [ "$(node -p 'parseInt(process.versions.node)')" -ge 20 ]; then
        version=6.0.0
    fi
    echo "installing: ioredis $version in build-node, by npm"
    rm -rf "$dir.new" && mkdir -p "$dir.new"
    if said=$(timeout "$seconds" npm install --prefix "$dir.new" --no-audit --no-fund --loglevel=error \
        --fetch-retries=0 "ioredis@$version" 2>&1 </dev/null); then
        rm -rf "$dir" && mv "$dir.new" "$dir"
        return 0
    fi
    rm -rf "$dir.new"
    printf '%s\n' "${said:-npm did not answer within $seconds s}" | sed 's/^/    /'
    echo "ioredis could not be installed (above is what npm says): the tests that need it are skipped."
}

if [ ${#missing[@]} -ne 0 ]; then
    install_missing
fi
if [ "$goal" = test ]; then
    install_ioredis
fi
