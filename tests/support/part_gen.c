// SPDX-License-Identifier: Apache-2.0
/* part_gen.c - makes partitions from a seed. */
#include "support/part_gen.h"

#include <math.h>

#include "base/banned.h"

enum {
    REGULAR_WORKERS = 20,
    RANDOM_WORKERS = 256,
    ALLOC_COUNT = 500, /* partitions created at a time */
    PAUSE_MS_MAX = 500,
};
static const int64_t start_ms = INT64_C(1719234405000);

static const char *const errors[] = {"timeout after 30 s",     "connection reset by peer",
                                     "HTTP 503 from upstream", "deadlock, rolled back",
                                     "disk quota exceeded",    "lease lost"};

void part_gen_init(struct part_gen *gen, enum part_gen_kind kind, uint64_t seed)
{
    *gen = (struct part_gen){.kind = kind,
                             .next_id = 4970,
                             .next_min = 4969001,
                             .next_fence = 5000,
                             .now_ms = start_ms,
                             .pause_ms_max = PAUSE_MS_MAX};
    rand_init_seed(&gen->rand, seed);
    arena_init(&gen->arena);
    for (int i = 0; i <= PART_GEN_WORKERS; i++)
        gen->free_ms[i] = start_ms + (int64_t)rand_below(&gen->rand, 283000);
}

void part_gen_done(struct part_gen *gen)
{
    arena_done(&gen->arena);
}

static double uniform(struct rand *rand)
{
    return ((double)(rand_u64(rand) >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
}

static double normal(struct rand *rand)
{
    return sqrt(-2 * log(uniform(rand))) * cos(2 * acos(-1) * uniform(rand));
}

static struct part_record regular_next(struct part_gen *gen)
{
    struct part_record record = {
        .id = gen->next_id++,
        .min_id = gen->next_min,
        .max_id = gen->next_min + 999,
        .worker = (uint32_t)(1 + rand_below(&gen->rand, REGULAR_WORKERS)),
        .status = PART_COMPLETED,
        .created_s = start_ms / 1000 - 600,
        .updated_s = gen->now_ms / 1000 + (int64_t)rand_below(&gen->rand, 2),
        .duration_ms = 300000,
        .version = 3,
        .fence = gen->next_fence++,
    };
    gen->next_min += 1000;
    gen->now_ms += 6000;
    return record;
}

static struct part_record realistic_next(struct part_gen *gen)
{
    int worker = 1;
    for (int i = 2; i <= PART_GEN_WORKERS; i++)
        if (gen->free_ms[i] < gen->free_ms[worker])
            worker = i;
    int64_t begin_ms = gen->free_ms[worker];
    int64_t took_ms = (int64_t)(250000 * exp(0.5 * normal(&gen->rand)));
    int64_t size = rand_below(&gen->rand, 50) ? 1000 : 1 + (int64_t)rand_below(&gen->rand, 999);
    bool failed_once = rand_below(&gen->rand, 200) == 0;
    if (gen->next_id % ALLOC_COUNT == 0 || gen->created_s == 0)
        gen->created_s = begin_ms / 1000 - 60;
    gen->next_fence += 1 + failed_once;
    struct part_record record = {
        .id = gen->next_id++,
        .min_id = gen->next_min,
        .max_id = gen->next_min + size - 1,
        .worker = (uint32_t)worker,
        .status = PART_COMPLETED,
        .created_s = gen->created_s,
        .updated_s = (begin_ms + took_ms) / 1000,
        .duration_ms = took_ms,
        .version = failed_once ? 6 : 3,
        .fence = gen->next_fence,
        .attempts = failed_once,
        .options = BYTES("{\"source\":\"orders\"}"),
    };
    if (failed_once) {
        const char *error = errors[rand_below(&gen->rand, ARRAY_LEN(errors))];
        record.error = bytes_of(error, strlen(error));
    }
    gen->next_min += size;
    gen->free_ms[worker] = begin_ms + took_ms + (int64_t)rand_below(&gen->rand, gen->pause_ms_max);
    return record;
}

static struct part_record random_next(struct part_gen *gen)
{
    struct rand *rand = &gen->rand;
    int64_t min_id = (int64_t)rand_below(rand, 1 << 24);
    int64_t took_ms = (int64_t)rand_below(rand, 3600000);
    int64_t updated_s = start_ms / 1000 + (int64_t)rand_below(rand, 86400);
    gen->next_id += 1 + (int64_t)rand_below(rand, 31);
    return (struct part_record){
        .id = gen->next_id,
        .min_id = min_id,
        .max_id = min_id + (int64_t)rand_below(rand, 10000),
        .worker = (uint32_t)(1 + rand_below(rand, RANDOM_WORKERS)),
        .status = (uint8_t)rand_below(rand, PART_STATUS_COUNT),
        .updated_s = updated_s,
        .created_s = updated_s - took_ms / 1000,
        .duration_ms = took_ms,
        .version = 3 + rand_below(rand, 8),
        .fence = gen->next_fence++,
    };
}

/* A border of some integer type, or a number near one, or a small one. */
static int64_t extreme(struct part_gen *gen)
{
    static const int64_t border[] = {0,
                                     1,
                                     2,
                                     255,
                                     65535,
                                     65536,
                                     INT32_MAX,
                                     INT64_C(1) << 31,
                                     UINT32_MAX,
                                     INT64_C(1) << 32,
                                     INT64_C(100000000000000),
                                     INT64_C(1) << 53,
                                     INT64_MAX,
                                     INT64_MIN,
                                     -1};
    uint64_t kind = rand_below(&gen->rand, 4);
    if (kind == 0)
        return (int64_t)rand_u64(&gen->rand);
    if (kind == 1)
        return (int64_t)rand_below(&gen->rand, 1000);
    uint64_t value = (uint64_t)border[rand_below(&gen->rand, ARRAY_LEN(border))];
    return (int64_t)(kind == 2 ? value : value + rand_below(&gen->rand, 3) - 1);
}

static struct bytes extreme_text(struct part_gen *gen)
{
    uint64_t kind = rand_below(&gen->rand, 40);
    if (kind > 3)
        return BYTES("");
    size_t len = kind == 0 ? 65534 + rand_below(&gen->rand, 4) : 1 + rand_below(&gen->rand, 40);
    uint8_t *text = arena_alloc(&gen->arena, len);
    rand_bytes(&gen->rand, text, len);
    return bytes_of(text, len);
}

static struct part_record extreme_next(struct part_gen *gen)
{
    int64_t duration_ms = extreme(gen);
    return (struct part_record){
        .id = extreme(gen),
        .min_id = extreme(gen),
        .max_id = extreme(gen),
        .worker = (uint32_t)extreme(gen),
        .status = (uint8_t)rand_below(&gen->rand, PART_STATUS_COUNT),
        .updated_s = extreme(gen),
        .created_s = extreme(gen),
        .duration_ms = duration_ms < 0 ? PART_DURATION_NONE : duration_ms,
        .version = (uint64_t)extreme(gen),
        .fence = (uint64_t)extreme(gen),
        .attempts = (uint64_t)extreme(gen),
        .options = extreme_text(gen),
        .error = extreme_text(gen),
    };
}

void part_gen_next(struct part_gen *gen, struct part_record *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (gen->kind) {
        case PART_GEN_REGULAR:
            to[i] = regular_next(gen);
            break;
        case PART_GEN_REALISTIC:
            to[i] = realistic_next(gen);
            break;
        case PART_GEN_RANDOM:
            to[i] = random_next(gen);
            break;
        case PART_GEN_EXTREME:
            to[i] = extreme_next(gen);
            break;
        }
    }
}

struct part_record part_gen_kept(struct part_record record, int64_t unit_ms)
{
    if (record.duration_ms > 0)
        record.duration_ms -= record.duration_ms % unit_ms;
    return record;
}

bool part_gen_same(const struct part_record *a, const struct part_record *b)
{
    return a->id == b->id && a->min_id == b->min_id && a->max_id == b->max_id &&
           a->worker == b->worker && a->status == b->status && a->updated_s == b->updated_s &&
           a->created_s == b->created_s && a->duration_ms == b->duration_ms &&
           a->version == b->version && a->fence == b->fence && a->attempts == b->attempts &&
           bytes_eq(a->options, b->options) && bytes_eq(a->error, b->error);
}
