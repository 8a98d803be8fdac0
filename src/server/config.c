// SPDX-License-Identifier: Apache-2.0
/* config.c - options from the command line, files and CONFIG SET, into one struct. */
#include "server/config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/config_int.h"
#include "server/models.h"
#include "types/glob.h"

#include "base/banned.h"

enum { NAME_SHOWN_BYTES = 128 };

/* ---- life ---- */

static char *text_copy(const char *text)
{
    return mem_dup(text, strlen(text) + 1);
}

void config_init(struct config *config, struct files *files)
{
    const struct option *row;
    struct config_words words;
    struct err err = {0};

    *config = (struct config){.files = files ? files : (struct files *)(uintptr_t)&files_real,
                              .file = text_copy("")};
    for (size_t i = 0; i < MODEL_COUNT; i++)
        config->model[i] = mem_zalloc(models[i]->options_bytes);
    config__words_init(&words);
    for (size_t i = 0; (row = config__row(i)); i++) {
        ASSERT(i < CONFIG_ROWS_MAX);
        bool quoted = row->kind->many && *row->start;
        enum rc rc = RC_OK;
        struct bytes start = bytes_of(row->start, strlen(row->start));
        if (quoted)
            rc = config__words_split(&words, start, &err);
        if (rc == RC_OK)
            rc = config__row_set(row, config, quoted ? words.word : &start,
                                 quoted ? words.count : 1, &err);
        ASSERT(rc == RC_OK);
    }
    config__words_done(&words);
}

/* Texts and lists of the options, which may be another's. */
static void fields_dup(struct config *config)
{
    const struct option *row;
    for (size_t i = 0; i < MODEL_COUNT; i++)
        config->model[i] = mem_dup(config->model[i], models[i]->options_bytes);
    for (size_t i = 0; (row = config__row(i)); i++)
        if (row->kind->dup)
            row->kind->dup(config__field(row, config));
}

static void fields_done(struct config *config)
{
    const struct option *row;
    for (size_t i = 0; (row = config__row(i)); i++)
        if (row->kind->done)
            row->kind->done(config__field(row, config));
    for (size_t i = 0; i < MODEL_COUNT; i++)
        mem_free(config->model[i]);
}

void config_done(struct config *config)
{
    if (!config || !config->file)
        return;
    fields_done(config);
    mem_free(config->file);
    *config = (struct config){0};
}

/* ---- starting ---- */

static enum rc stdin_read(struct config *config, struct err *err)
{
    struct buf text;
    enum rc rc = RC_OK;
    ssize_t got = 1;

    buf_init(&text, CONFIG_FILE_BYTES_MAX);
    while (rc == RC_OK && got > 0) {
        if (!buf_reserve(&text, BUFSIZ))
            rc = err_set(err, RC_TOO_BIG, "standard input is longer than %d bytes",
                         CONFIG_FILE_BYTES_MAX);
        else if ((got = read(STDIN_FILENO, text.ptr + text.len, BUFSIZ)) < 0)
            rc = err_set(err, RC_IO, "could not read standard input: %s", strerror(errno));
        else
            text.len += (size_t)got;
    }
    if (rc == RC_OK)
        rc = config_parse(config, buf_bytes(&text), "standard input", err);
    buf_done(&text);
    return rc;
}

/* CONFIG REWRITE and INFO want a path that stays right, and the file behind a link. */
static enum rc file_read_first(struct config *config, const char *name, struct err *err)
{
    char path[PATH_MAX];
    enum rc rc = config__read(config, name, 0, err);
    if (rc != RC_OK)
        return rc;
    if (config->files->ops == files_real.ops && !realpath(name, path))
        return err_set(err, RC_IO, "could not find \"%s\": %s", name, strerror(errno));
    mem_free(config->file);
    config->file = text_copy(config->files->ops == files_real.ops ? path : name);
    return RC_OK;
}

static enum config_wish wish_of(const char *arg)
{
    static const struct {
        const char *name;
        enum config_wish wish;
    } names[] = {{"--help", CONFIG_WISH_HELP},
                 {"-h", CONFIG_WISH_HELP},
                 {"--version", CONFIG_WISH_VERSION},
                 {"-v", CONFIG_WISH_VERSION},
                 {"--help-markdown", CONFIG_WISH_MARKDOWN},
                 {"--help-example", CONFIG_WISH_EXAMPLE}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(arg, names[i].name) == 0)
            return names[i].wish;
    return CONFIG_WISH_RUN;
}

static bool is_name(const char *arg)
{
    return arg[0] == '-' && arg[1] == '-';
}

/* One option from the front of argv: "--name value", "--name value value", or all of it in one
 * argument. What follows a name directly is its value, whatever it looks like. */
static enum rc arg_apply(struct config *config, char **argv, int argc, int *ret_used,
                         struct err *err)
{
    struct config_words words;
    int used = 1;

    if (!is_name(argv[0]))
        return err_set(err, RC_INVALID, "command line: \"%s\" is not an option; --help lists them",
                       argv[0]);
    config__words_init(&words);
    const char *name = argv[0] + 2;
    enum rc rc = config__words_split(&words, bytes_of(name, strlen(name)), err);
    if (rc == RC_OK && words.count == 0)
        rc = err_set(err, RC_INVALID, "\"%s\" names no option", argv[0]);
    bool first = words.count == 1;
    while (rc == RC_OK && used < argc && (first || !is_name(argv[used]))) {
        if (words.count == CONFIG_WORDS_MAX)
            rc = err_set(err, RC_INVALID, "option --%s has too many values", name);
        else
            words.word[words.count++] = bytes_of(argv[used], strlen(argv[used]));
        used++;
        first = false;
    }
    if (rc == RC_OK)
        rc = config__line_apply(config, &words, 0, err);
    if (rc != RC_OK)
        err_prefix(err, "command line: ");
    config__words_done(&words);
    *ret_used = used;
    return rc;
}

enum rc config_load(struct config *config, int argc, char **argv, enum config_wish *ret_wish,
                    struct err *err)
{
    enum rc rc = RC_OK;
    bool has_stdin = false;
    int at = 1;

    *ret_wish = argc > 1 ? wish_of(argv[1]) : CONFIG_WISH_RUN;
    if (*ret_wish != CONFIG_WISH_RUN)
        return RC_OK;
    if (argc > 1 && strcmp(argv[argc - 1], "-") == 0) {
        has_stdin = true;
        argc--;
    }
    if (argc > at && strcmp(argv[at], "-") == 0) {
        has_stdin = true;
        at++;
    } else if (argc > at && argv[at][0] != '-') {
        rc = file_read_first(config, argv[at++], err);
    }
    if (rc == RC_OK && has_stdin)
        rc = stdin_read(config, err);
    while (rc == RC_OK && at < argc) {
        int used = 0;
        rc = arg_apply(config, argv + at, argc - at, &used, err);
        at += used;
    }
    return rc;
}

/* ---- running ---- */

bool config__row_same(const struct option *row, const struct config *a, const struct config *b)
{
    struct buf text_a, text_b;
    buf_init(&text_a, CONFIG_FILE_BYTES_MAX);
    buf_init(&text_b, CONFIG_FILE_BYTES_MAX);
    config__row_text(row, a, OPTION_PLAIN, &text_a);
    config__row_text(row, b, OPTION_PLAIN, &text_b);
    bool same = bytes_eq(buf_bytes(&text_a), buf_bytes(&text_b));
    buf_done(&text_a);
    buf_done(&text_b);
    return same;
}

void config_listen(struct config *config, void (*changed)(void *arg, const struct option *row),
                   void *arg)
{
    config->changed = changed;
    config->changed_arg = arg;
}

static enum rc set_failed(const char *name, struct err *err)
{
    return err_prefix(err, "CONFIG SET failed (possibly related to argument '%s') - ", name);
}

/* Names first, as Redis: no value is looked at while a name is wrong. */
static enum rc names_check(const struct bytes *name_value, size_t pair_count, struct err *err)
{
    bool seen[CONFIG_ROWS_MAX] = {false};
    for (size_t i = 0; i < pair_count; i++) {
        struct bytes name = name_value[2 * i];
        const char *known;
        const struct option *row = config__row_find(name, &known);
        if (!row)
            return err_set(err, RC_INVALID,
                           "Unknown option or number of arguments for CONFIG SET - '%.*s'",
                           (int)(name.len < NAME_SHOWN_BYTES ? name.len : NAME_SHOWN_BYTES),
                           (const char *)name.ptr);
        if (!row->live) {
            err_set(err, RC_INVALID, "can't set immutable config");
            return set_failed(known, err);
        }
        size_t at = config__row_index(row);
        if (seen[at]) {
            err_set(err, RC_INVALID, "duplicate parameter");
            return set_failed(known, err);
        }
        seen[at] = true;
    }
    return RC_OK;
}

/* As Redis splits it: at every single space. */
static size_t value_split(struct bytes value, struct bytes *word, size_t word_count_max)
{
    size_t count = 0;
    while (count < word_count_max - 1) {
        const uint8_t *space = value.len ? memchr(value.ptr, ' ', value.len) : NULL;
        if (!space)
            break;
        size_t len = (size_t)(space - value.ptr);
        word[count++] = bytes_of(value.ptr, len);
        value = bytes_from(value, len + 1);
    }
    word[count++] = value;
    return count;
}

static enum rc values_set(struct config *next, const struct bytes *name_value, size_t pair_count,
                          struct err *err)
{
    for (size_t i = 0; i < pair_count; i++) {
        const char *known;
        const struct option *row = config__row_find(name_value[2 * i], &known);
        struct bytes word[CONFIG_WORDS_MAX] = {name_value[2 * i + 1]};
        size_t word_count = 1;
        if (row->kind->many)
            word_count = value_split(word[0], word, CONFIG_WORDS_MAX);
        enum rc rc = config__row_set(row, next, word, word_count, err);
        if (rc == RC_OK && row->possible && next->changed)
            rc = row->possible(next, err);
        if (rc != RC_OK)
            return set_failed(known, err);
    }
    return RC_OK;
}

enum rc config_set(struct config *config, const struct bytes *name_value, size_t pair_count,
                   struct err *err)
{
    enum rc rc = names_check(name_value, pair_count, err);
    if (rc != RC_OK)
        return rc;
    struct config next = *config;
    fields_dup(&next);
    rc = values_set(&next, name_value, pair_count, err);
    if (rc != RC_OK) {
        fields_done(&next);
        return rc;
    }
    struct config old = *config;
    *config = next;
    for (size_t i = 0; config->changed && i < pair_count; i++) {
        const struct option *row = config__row_find(name_value[2 * i], NULL);
        if (!config__row_same(row, &old, config))
            config->changed(config->changed_arg, row);
    }
    fields_done(&old);
    return RC_OK;
}

/* The first pattern that fits a name. A name as such is shown as it was asked for. */
static bool name_match(const char *name, const struct bytes *pattern, size_t pattern_count,
                       struct bytes *ret_shown)
{
    struct bytes text = bytes_of(name, strlen(name));
    for (size_t i = 0; i < pattern_count; i++) {
        bool is_glob = false;
        for (size_t n = 0; n < pattern[i].len; n++)
            is_glob |= pattern[i].ptr[n] && strchr("*?[", pattern[i].ptr[n]);
        bool same = pattern[i].len == text.len &&
                    strncasecmp((const char *)pattern[i].ptr, name, text.len) == 0;
        if (is_glob ? !glob_match(pattern[i], text, true) : !same)
            continue;
        *ret_shown = is_glob ? text : pattern[i];
        return true;
    }
    return false;
}

void config_get(const struct config *config, const struct bytes *pattern, size_t pattern_count,
                void (*fn)(void *arg, struct bytes name, struct bytes value), void *arg)
{
    const struct option *row;
    struct buf value;

    buf_init(&value, CONFIG_FILE_BYTES_MAX);
    for (size_t i = 0; (row = config__row(i)); i++) {
        const char *const names[] = {row->name, row->alias};
        for (size_t n = 0; n < ARRAY_LEN(names); n++) {
            struct bytes shown;
            if (!names[n] || !name_match(names[n], pattern, pattern_count, &shown))
                continue;
            buf_cut(&value, 0);
            config__row_text(row, config, OPTION_PLAIN, &value);
            fn(arg, shown, buf_bytes(&value));
        }
    }
    buf_done(&value);
}
