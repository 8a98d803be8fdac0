// SPDX-License-Identifier: Apache-2.0
/* query.c - DU, TREE and FIND: at once over the open commit, or in a job over a frozen view. */
#include "models/fs/query.h"

#include "base/mem.h"
#include "models/fs/fs_int.h"
#include "models/fs/job.h"

#include "base/banned.h"

enum rc fs_query_try(struct fs *fs, const struct fs_query *query, struct fs_answer *answer,
                     struct err *err)
{
    struct fs_source source;
    const struct fs_walk_limits limits = {.row_count_max = FS_WALK_COMMIT_ROWS};
    arena_clear(&fs->arena);
    fs_source_init_commit(&source, fs);
    enum rc rc = fs_query_run(query, &source, &limits, answer, err);
    fs_source_done(&source);
    return rc;
}

/* ---- jobs ---- */

struct fs_query_job {
    struct fs_job job;
    struct fs_query query;
    struct arena arena; /* its words */
    struct fs_answer answer;
};

static enum rc job_read(struct fs_job *job, struct fs_source *source, struct err *err)
{
    struct fs_query_job *query = (struct fs_query_job *)job;
    const struct fs_walk_limits limits = {.stopped = &job->stopped};
    return fs_query_run(&query->query, source, &limits, &query->answer, err);
}

static void job_free(struct fs_job *job)
{
    struct fs_query_job *query = (struct fs_query_job *)job;
    fs_answer_done(&query->answer);
    arena_done(&query->arena);
    mem_free(query);
}

struct fs_query_job *fs_query_start(struct fs *fs, const struct fs_query *query)
{
    struct fs_query_job *job = mem_zalloc(sizeof *job);
    job->job.read = job_read;
    job->job.free = job_free;
    arena_init(&job->arena);
    fs_answer_init(&job->answer);
    job->query = *query;
    job->query.path = arena_copy(&job->arena, query->path);
    job->query.pattern = arena_copy(&job->arena, query->pattern);
    fs_job_start(fs, &job->job);
    return job;
}

void fs_query_end(void *job)
{
    fs_job_end(&((struct fs_query_job *)job)->job);
}

enum rc fs_query_result(struct fs_query_job *job, struct task *task,
                        const struct fs_answer **ret_answer, struct err *err)
{
    enum rc rc = fs_job_result(&job->job, task, err);
    *ret_answer = &job->answer;
    return rc;
}
