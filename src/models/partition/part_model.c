// SPDX-License-Identifier: Apache-2.0
/* part_model.c - partitions as a model: its options, and what the server calls. */
#include "models/partition/part_model.h"

#include "models/partition/part.h"

#include "base/banned.h"

/* ---- options ---- */

struct part_config {
    struct part_limits limits; /* but for the algorithm */
    uint32_t algorithm;        /* the number of its word */
};
static const char *const algorithm_words[] = {"none", "gzip", "lz4", "zstd", "auto", NULL};

static struct part_limits limits_of(const struct part_config *config)
{
    static const enum part_algorithm algorithm[] = {PART_NONE, PART_GZIP, PART_LZ4, PART_ZSTD,
                                                    PART_AUTO};
    struct part_limits limits = config->limits;
    limits.algorithm = algorithm[config->algorithm];
    return limits;
}

static void limits_changed(void *part, const void *config)
{
    struct part_limits limits = limits_of(config);
    part_limits_set(part, &limits);
}

#define FIELD(member) OPTION_FIELD(struct part_config, member)
#define PART_OPTION(name, kind, member, start, ...)                                     \
    {                                                                                   \
        name, NULL, "Partitions", kind, OPTION_LIVE, FIELD(member), start, __VA_ARGS__, \
            .changed = limits_changed                                                   \
    }
static const struct option options[] = {
    PART_OPTION("part-batch", &option_int, limits.batch, "1000", 2, 100000,
                .help = "completed partitions of a packed batch"),
    PART_OPTION("part-algorithm", &option_word, algorithm, "auto", .words = algorithm_words,
                .help = "what texts of a batch are compressed with: none, gzip, lz4, zstd; auto: "
                        "the smallest, measured"),
    PART_OPTION("part-simple-max", &option_int, limits.simple_max, "100000", 1, INT64_MAX,
                .help = "completed partitions of a job from which on they are packed"),
    PART_OPTION("part-compressed-max", &option_int, limits.compressed_max, "500000", 0, INT64_MAX,
                .help = "completed partitions of a job above which part-retain is obeyed"),
    PART_OPTION("part-retain", &option_time, limits.retain_ms, "0s", 0,
                INT64_C(1000) * 366 * 86400000,
                .help = "packed partitions are kept for so long after they were done, their "
                        "statistics for ever; 0s: for ever as well"),
    PART_OPTION("part-cache", &option_size, limits.cache_bytes, "16mb", 0, OPTION_TB,
                .help = "memory for opened batches"),
    PART_OPTION("part-cache-ttl", &option_time, limits.cache_ttl_ms, "300s", 1,
                INT64_C(366) * 86400000,
                .help = "an opened batch that nobody asked for is closed after it"),
    PART_OPTION("part-takeovers", &option_int, limits.takeovers_max, "5", 0, INT32_MAX,
                .help = "a partition that was taken over from so many silent workers fails when "
                        "the next one is silent; 0: never"),
};

/* ---- life ---- */

static enum rc model_open(const struct model_host *host, const void *config, void **ret_part,
                          struct err *err)
{
    (void)err;
    *ret_part = part_new(&(struct part_options){
        .kv = host->kv, .tasks = host->tasks, .clock = host->clock, .limits = limits_of(config)});
    return RC_OK;
}

static void model_close(void *part)
{
    part_free(part);
}

const struct model partition_model = {.name = "partition",
                                      .options = options,
                                      .option_count = ARRAY_LEN(options),
                                      .options_bytes = sizeof(struct part_config),
                                      .statistics = part_statistics,
                                      .statistics_count = PART_STATISTICS_COUNT,
                                      .open = model_open,
                                      .close = model_close};
