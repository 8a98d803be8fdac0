// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb_version.c - the RocksDB that was found at the start is the one of the build.
 *
 * The C interface has no call for its version. A shared library has it in the name of its file:
 * librocksdb.so.7.8.3. A library without one, or inside the program, is not checked. ROCKSDB_MAJOR
 * and ROCKSDB_MINOR come from CMakeLists.txt: RocksDB's header for them is C++. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/engine/engine_rocksdb_int.h"

#include "base/banned.h"

enum rc rocks__version_check(struct err *err)
{
    Dl_info info;
    char path[PATH_MAX];
    int major, minor;

    if (!dladdr((const void *)(uintptr_t)rocksdb_open, &info) || !realpath(info.dli_fname, path))
        return RC_OK;
    const char *version = strstr(path, "librocksdb.so.");
    if (!version || sscanf(version, "librocksdb.so.%d.%d", &major, &minor) != 2 ||
        (major == ROCKSDB_MAJOR && minor == ROCKSDB_MINOR))
        return RC_OK;
    return err_set(err, RC_VERSION,
                   "this program was built with RocksDB %d.%d and runs with %d.%d (%s): build it "
                   "again, or install that version",
                   ROCKSDB_MAJOR, ROCKSDB_MINOR, major, minor, path);
}
