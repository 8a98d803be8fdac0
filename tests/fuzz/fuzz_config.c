// SPDX-License-Identifier: Apache-2.0
/* fuzz_config.c - any bytes as a configuration file. What is taken must survive being rewritten:
 * into the same file, which then has no reason to change, and into an empty one. */
#include "base/file_sim.h"
#include "server/config_int.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void file_put(struct files *files, struct bytes content)
{
    struct err err = {0};
    enum rc rc = files_replace(files, "f", content, &err);
    ASSERT(rc == RC_OK);
}

static enum rc load(struct config *config, struct files *files)
{
    struct err err = {0};
    char *argv[] = {"terraced", "f"};
    enum config_wish wish;
    config_init(config, files);
    enum rc rc = config_load(config, 2, argv, &wish, &err);
    ASSERT(rc == RC_OK || err.text[0] != 0);
    return rc;
}

static void same_check(const struct config *a, const struct config *b)
{
    const struct option *row;
    for (size_t i = 0; (row = config__row(i)); i++)
        ASSERT(config__row_same(row, a, b));
}

static void rewrite_check(const struct config *config, struct files *files)
{
    struct config again;
    struct err err = {0};
    enum rc rc = config_rewrite(config, &err);
    ASSERT(rc == RC_OK);
    rc = load(&again, files);
    ASSERT(rc == RC_OK);
    same_check(config, &again);
    config_done(&again);
}

/* The file as it was, with a line end behind its last line. */
static void unchanged_check(struct files *files, struct bytes input)
{
    struct buf text;
    struct err err = {0};
    buf_init(&text, (size_t)2 * CONFIG_FILE_BYTES_MAX);
    enum rc rc = files_read_all(files, "f", &text, &err);
    ASSERT(rc == RC_OK);
    ASSERT(text.len - input.len <= 1);
    ASSERT(bytes_start_with(buf_bytes(&text), input));
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct file_sim *sim = file_sim_new();
    struct files *files = file_sim_files(sim);
    struct config config;

    file_put(files, bytes_of(data, size));
    if (load(&config, files) == RC_OK) {
        rewrite_check(&config, files);
        unchanged_check(files, bytes_of(data, size));
        file_put(files, BYTES(""));
        rewrite_check(&config, files);
    }
    config_done(&config);
    file_sim_free(sim);
    return 0;
}
