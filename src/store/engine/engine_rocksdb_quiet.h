// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb_quiet.h - options of RocksDB that its C interface does not have. */
#pragma once

#include <rocksdb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No LOG file, and no recovery in the background: an error stays until the database is reopened. */
void rocks__options_set_quiet(rocksdb_options_t *options);

#ifdef __cplusplus
}
#endif
