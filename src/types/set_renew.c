// SPDX-License-Identifier: Apache-2.0
/* set_renew.c - SPOP of very many members: those that stay are built aside. */
#include "types/set_renew.h"

#include "base/mem.h"

#include "base/banned.h"

struct set_renew {
    struct set_gone gone;
    struct kv *kv;
    uint64_t rest, left; /* members that are not asked about yet; how many of them go */
};

bool set_renew_is_begun(const struct build *build)
{
    return build && build->work;
}

static void work_free(void *arg)
{
    struct set_renew *work = arg;
    work->gone.arg_free(work->gone.arg);
    mem_free(work);
}

/* All choices of `left` among `rest` members have the same chance. */
static enum rc member_stays(void *arg, struct bytes member, struct bytes value, bool *ret_stays,
                            struct err *err)
{
    struct set_renew *work = arg;
    (void)value;
    if (work->rest == 0)
        return err_set(err, RC_CORRUPT, "a set has more rows than its count says");
    *ret_stays = rand_below(&work->kv->rand, work->rest) >= work->left;
    work->rest--;
    if (!*ret_stays) {
        work->left--;
        work->gone.tell(work->gone.arg, member);
    }
    return RC_OK;
}

enum rc set_renew_begin(const struct key *key, const struct set_gone *gone, struct build *build,
                        bool *ret_taken, struct err *err)
{
    ASSERT(!build->work);
    *ret_taken = false;
    enum rc rc = build_step(build, key->run, TYPE_SET, build_input(0, key), err);
    if (rc != RC_OK)
        return rc;
    struct set_renew *work = mem_zalloc(sizeof *work);
    *work = (struct set_renew){
        .gone = *gone, .kv = key->ns->kv, .rest = key->meta.count, .left = gone->count};
    build->work = work;
    build->work_free = work_free;
    *ret_taken = true;
    return RC_WAIT;
}

enum rc set_renew_step(struct key *key, struct build *build, void **ret_arg, struct err *err)
{
    enum rc rc = build_step(build, key->run, TYPE_SET, build_input(0, key), err);
    if (rc != RC_OK)
        return rc;
    struct set_renew *work = build->work;
    struct renew renew = {.build = build, .key = key, .stays = member_stays, .arg = work};
    if (build->phase == BUILD_FILLING)
        return renew_piece(&renew, err);
    if (work->rest != 0)
        return err_set(err, RC_CORRUPT, "a set has fewer rows than its count says");
    uint64_t count = key->meta.count - work->gone.count;
    if (count > 0) /* else its rows go with the key */
        rc = renew_end(build, key, err);
    key->meta.count = count;
    *ret_arg = work->gone.arg;
    return rc;
}
