// SPDX-License-Identifier: Apache-2.0
/* landing_model.c - landing as a model: its options, and what the server calls. */
#include "models/landing/landing_model.h"

#include "base/mem.h"
#include "models/landing/landing.h"

#include "base/banned.h"

/* ---- options ---- */

struct landing_config {
    struct option_list land; /* rules, as rule.h reads them */
    char *land_dir;
    bool land_remote;
};

static enum rc rules_set(const struct option *row, void *field, const struct bytes *word,
                         size_t word_count, struct err *err)
{
    struct option_list *list = field;
    struct rule_spec *spec;
    (void)row;
    if (word_count == 1 && word[0].len == 0) {
        option_list_done(list);
        return RC_OK;
    }
    if (list->count == CONFIG_RULES_MAX)
        return err_set(err, RC_INVALID, "there must not be more than %d of them", CONFIG_RULES_MAX);
    enum rc rc = rule_parse(word, word_count, &spec, err);
    if (rc != RC_OK)
        return rc;
    list->text = mem_realloc(list->text, (list->count + 1) * sizeof *list->text);
    list->text[list->count++] = option_text_new(spec->text);
    rule_free(spec);
    return RC_OK;
}

/* In a file every rule has a line of its own. */
static void rules_text(const struct option *row, const void *field, enum option_style style,
                       struct buf *to)
{
    const struct option_list *list = field;
    (void)row;
    for (size_t i = 0; i < list->count; i++) {
        CLEANUP(buf_done) struct buf bare;
        buf_init(&bare, LAND_RULE_BYTES_MAX);
        struct bytes text = bytes_of(list->text[i], strlen(list->text[i]));
        if (style != OPTION_FILE && rule_text_bare(text, &bare)) /* clients see no password */
            text = buf_bytes(&bare);
        option_add(to, "%s%.*s",
                   i == 0                 ? ""
                   : style == OPTION_FILE ? "\nland "
                                          : "\n",
                   (int)text.len, (const char *)text.ptr);
    }
    if (list->count == 0 && style == OPTION_FILE)
        option_add(to, "\"\"");
}

static const struct option_kind rules_kind = {"RULE",
                                              .many = true,
                                              .set = rules_set,
                                              .text = rules_text,
                                              .dup = option_list_dup,
                                              .done = option_list_done};

#define FIELD(member) OPTION_FIELD(struct landing_config, member)
static const struct option options[] = {
    {"land", NULL, "Landing", &rules_kind, OPTION_LIVE_NO, FIELD(land), "",
     .help = "a rule of landing, one a line: name pattern sink [shape object | shape columns table "
             "T key K] [db N] [tables N] [batch N] [delay MS] [keep MS] [password-file PATH] "
             "[flush store-only] [expire delete]; see docs/landing.md"},
    {"land-dir", NULL, "Landing", &option_text, OPTION_LIVE_NO, FIELD(land_dir), "", 0,
     CONFIG_VALUE_BYTES_MAX,
     .help = "SQLite files of rules made by LAND.RULE ADD are below it; empty: the data directory"},
    {"land-remote", NULL, "Landing", &option_bool, OPTION_LIVE_NO, FIELD(land_remote), "no",
     .help =
         "LAND.RULE ADD makes rules of remote databases, too; otherwise they stand in this file"},
};

/* ---- life ---- */

static void model_close(void *landing)
{
    landing_free(landing);
}

static enum rc rules_add(struct landing *landing, const struct option_list *rules, struct err *err)
{
    for (size_t i = 0; i < rules->count; i++) {
        struct rule_spec *spec;
        struct bytes text = bytes_of(rules->text[i], strlen(rules->text[i]));
        enum rc rc = rule_parse_text(text, &spec, err);
        if (rc == RC_OK)
            rc = landing_rule_add(landing, spec, true, err);
        if (rc != RC_OK)
            return err_prefix(err, "land %s: ", rules->text[i]);
    }
    return landing_rules_load(landing, err);
}

static enum rc model_open(const struct model_host *host, const void *of, void **ret_landing,
                          struct err *err)
{
    const struct landing_config *config = of;
    struct landing *landing =
        landing_new(&(struct landing_options){.kv = host->kv,
                                              .tasks = host->tasks,
                                              .clock = host->clock,
                                              .dir = host->dir,
                                              .land_dir = config->land_dir,
                                              .land_remote = config->land_remote});
    enum rc rc = rules_add(landing, &config->land, err);
    if (rc != RC_OK)
        landing_free(landing);
    else
        *ret_landing = landing;
    return rc;
}

static bool model_turn(void *landing)
{
    landing_turn(landing);
    return false;
}

static bool model_wait(void *landing, void **waiter, struct task *task)
{
    return landing_wait(landing, waiter, task);
}

const struct model landing_model = {.name = "landing",
                                    .options = options,
                                    .option_count = ARRAY_LEN(options),
                                    .options_bytes = sizeof(struct landing_config),
                                    .statistics = landing_statistics,
                                    .statistics_count = LANDING_STATISTICS_COUNT,
                                    .open = model_open,
                                    .close = model_close,
                                    .turn = model_turn,
                                    .wait = model_wait,
                                    .waiter_free = land_waiter_free};
