// SPDX-License-Identifier: Apache-2.0
/* limits.h - everything that grows has its limit here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    STORE_SPACES_MAX = 256,
    STORE_PREFIXES_MAX = 32767,         /* 15 bits in every hot entry */
    STORE_TURN_PREFIX_DROPS_MAX = 8192, /* a drop needs a second number until it is written */
    STORE_PREFIX_BYTES_MAX = 255,
    STORE_GROUP_KEY_BYTES_MAX = 64 * 1024, /* after the prefix; 17 bits in a hot entry */
    STORE_LENGTH_KEY_BYTES_MAX = 255,      /* prefix and group key where a length byte is stored */
    STORE_SUFFIX_BYTES_MAX = 64 * 1024 * 1024,
    STORE_VALUE_BYTES_MAX = 512 * 1024 * 1024 + 4096, /* Redis's 512 MiB and a row header */
    STORE_COMMIT_BYTES_MAX = 1024 * 1024 * 1024,      /* encoded; also a turn's */
    STORE_COUNTERS_MAX = 4096,
    STORE_COUNTER_NAME_BYTES_MAX = 255,
    STORE_DROP_POINT_ROWS_MAX = 64, /* up to this many rows a drop is written as point deletes */

    JOURNAL_FRAME_BODY_BYTES_MAX = 64 * 1024 * 1024,
    JOURNAL_HEADER_BYTES_MAX = 2 * 1024 * 1024,
    JOURNAL_UNSYNCED_BYTES_MAX = 64 * 1024 * 1024, /* kept in memory until they are synced */
    FLUSH_RUN_COUNT_MAX = 64,                      /* segments of a unit */
    FLUSH_RUN_WRITE_BYTES = 256 * 1024,
    FLUSH_RUN_READ_BYTES = 128 * 1024,       /* buffer of one run in the merge */
    FLUSH_DROP_KEYS_BYTES_MAX = 1024 * 1024, /* of a drop's point deletes; else a range delete */
    PATH_BYTES_MAX = 4096,

    RESP_ARG_COUNT_MAX = 1024 * 1024,
    RESP_BULK_BYTES_MAX = 512 * 1024 * 1024,
    RESP_LIMITED_ARG_COUNT_MAX = 10, /* before AUTH */
    RESP_LIMITED_BULK_BYTES_MAX = 16 * 1024,
    RESP_LINE_BYTES_MAX = 64 * 1024,        /* an inline command, or the line with a length */
    CONN_IN_BYTES_MAX = 1024 * 1024 * 1024, /* the largest request */
    CONN_REPLY_ONE_BYTES_MAX = 1024 * 1024 * 1024,
    CONN_OUT_WAITING_BYTES = 8 * 1024 * 1024, /* not taken by a client: it is not served any more */
    CLIENTS_AUTO_BYTES_MIN = 256 * 1024 * 1024, /* maxmemory-clients auto, at least */
    MONITOR_FEED_BYTES_MAX = 64 * 1024 * 1024,  /* of one turn */
    MULTI_BYTES_MAX = 512 * 1024 * 1024,        /* queued by one MULTI */
    EFFECTS_BYTES_MAX = 1024 * 1024 * 1024,     /* messages and events of one turn */
    REQUEST_WANT_KEYS_MAX = 1024,               /* named at once by a command that waits */
    REQUEST_SPARE_COUNT_MAX = 64,               /* kept for the next commands that wait */
    SLOWLOG_ARG_COUNT_MAX = 32,                 /* shown of a slow command */
    SLOWLOG_ARG_BYTES_MAX = 128,
    COMMAND_KEYS_SHOWN_MAX = 64 * 1024, /* by COMMAND GETKEYS */
    CLIENT_LIST_BYTES_MAX = 256 * 1024 * 1024,
    INFO_BYTES_MAX = 64 * 1024,
    MALLOC_STATS_BYTES_MAX = 1024 * 1024,
    HTTP_ANSWER_BYTES_MAX = 65 * 1024 * 1024, /* the largest tile, and a little */
    HTTP_CONNECTIONS_MAX = 1000,
    HTTP_WAITING_BYTES_MAX = 256 * 1024 * 1024, /* answers that clients have not taken yet */
    SCAN_CURSORS_MAX = 65536,                   /* that are remembered, */
    SCAN_CURSOR_BYTES_MAX = 64 * 1024 * 1024,
    STRING_BYTES_MAX = 512 * 1024 * 1024, /* Redis's proto-max-bulk-len */
    LISTENERS_MAX = 17,                   /* addresses and a Unix socket */

    PART_BATCH_RECORDS_MAX = 1024 * 1024,     /* of one frame */
    PART_FRAME_BYTES_MAX = 256 * 1024 * 1024, /* as stored, and again when unpacked */
    PART_WORKER_NAME_BYTES_MAX = 64 * 1024,

    TILE_DIR_BYTES_MAX = 3072, /* PATH_BYTES_MAX without the names below it */

    FS_PATH_BYTES_MAX = 4096,
    FS_NAME_BYTES_MAX = 255,
    FS_URI_BYTES_MAX = 4096,              /* of a mount */
    FS_PAGE_COUNT_MAX = 10 * 1000,        /* of FS.LS, FS.BLOCKS, FS.MOUNTS: a cold page is 60 ms */
    FS_DEPTH_MAX = 64 * 1024,             /* walked up from an id; a longer way is a circle */
    FS_INFO_BLOCKS_MAX = 1024 * 1024,     /* of a FileInfo */
    FS_WALK_COMMIT_ROWS = 1000,           /* met by a long command inside one commit */
    FS_FIND_BYTES_MAX = 64 * 1024 * 1024, /* paths of one reply */
    FS_FIND_LINES_MAX = 1000 * 1000,
    FS_TREE_LINES_MAX = 100 * 1000,
    FS_CHECK_FINDINGS_MAX = 10 * 1000, /* kept for REPAIR; it can be asked for again */
    FS_CHECK_EXAMPLES_MAX = 32,        /* told by the reply */

    CONFIG_FILE_BYTES_MAX = 1024 * 1024,
    CONFIG_INCLUDE_DEPTH_MAX = 8,
    CONFIG_WORDS_MAX = 64,         /* of a line */
    CONFIG_VALUE_BYTES_MAX = 4096, /* of a text */
    CONFIG_LIST_MAX = 16,
    CONFIG_RULES_MAX = 64,
    CONFIG_LIST_TEXT_BYTES_MAX = 255,
};
_Static_assert(STORE_VALUE_BYTES_MAX < (1 << 30), "a hot entry holds 30 bits of value length");
_Static_assert((uint64_t)STORE_COMMIT_BYTES_MAX + (1 << 20) < INT32_MAX,
               "offsets in a turn fit 31 bits");
