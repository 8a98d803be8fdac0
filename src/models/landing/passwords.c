// SPDX-License-Identifier: Apache-2.0
/* passwords.c - passwords of stored rules.
 *
 * A build before took them in the URL, so they stand in the journal. At the start such a rule is
 * rewritten: the password goes to land-RULE.password in the data directory, which nobody else can
 * read, and the rule names that file. The file is on disk before the rule is stored anew: after a
 * kill between the two it is written again. If it cannot be written the rule stays as it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/landing/landing_int.h"
#include "models/landing/place.h"

#include "base/banned.h"

enum { PASSWORD_LINE_BYTES_MAX = 8 * 1024 };

/* files_replace() keeps the permissions of the file that is there. */
static enum rc file_write_secret(const char *path, const char *text, struct err *err)
{
    CLEANUP(buf_done) struct buf line;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    bool is_made = fd >= 0 && fchmod(fd, S_IRUSR | S_IWUSR) == 0;
    int error = errno;
    buf_init(&line, PASSWORD_LINE_BYTES_MAX);
    if (fd >= 0)
        close(fd);
    if (!is_made)
        return err_set(err, RC_IO, "could not make \"%s\": %s", path, strerror(error));
    if (strpbrk(text, "\r\n") || !buf_printf(&line, "%s\n", text))
        return err_set(err, RC_INVALID, "the password has more than a line");
    return files_replace((struct files *)&files_real, path, buf_bytes(&line), err);
}

/* The rule without its password, and with the file. */
static enum rc spec_rewrite(const struct landing *landing, const struct rule_spec *spec,
                            const char *bare, const char *password, struct rule_spec **ret_spec,
                            struct err *err)
{
    CLEANUP(buf_done) struct buf text;
    char path[PATH_BYTES_MAX], word[2 * PATH_BYTES_MAX];
    buf_init(&text, STORE_SUFFIX_BYTES_MAX);
    bool is_whole = rule_text_shown(spec, bare, &text);
    if (!spec->password_file[0]) { /* else it has counted, and not the one in the URL */
        int len = snprintf(path, sizeof path, "%s/land-%s.password", landing->dir, spec->name);
        if (len < 0 || (size_t)len >= sizeof path)
            return err_set(err, RC_INVALID, "the path of the data directory is too long");
        enum rc rc = file_write_secret(path, password, err);
        if (rc == RC_OK)
            rc = place_word(landing->dir, path, word, sizeof word, err);
        if (rc != RC_OK)
            return rc;
        is_whole = is_whole && buf_printf(&text, " password-file %s", word);
    }
    if (!is_whole)
        return err_set(err, RC_NOMEM, "could not allocate memory for a rule");
    return rule_parse_text(buf_bytes(&text), ret_spec, err);
}

bool passwords_move(const struct landing *landing, struct rule_spec **spec)
{
    struct rule_spec *rewritten = NULL;
    struct err err;
    char *password, *bare;
    if (!sink_url_password((*spec)->url, &password, &bare))
        return false;
    enum rc rc = spec_rewrite(landing, *spec, bare, password, &rewritten, &err);
    if (rc == RC_OK) {
        log_info("landing: rule %s: its password stands in land-%s.password of the data directory "
                 "from now on, and not in the rule",
                 (*spec)->name, (*spec)->name);
        rule_free(*spec);
        *spec = rewritten;
    } else {
        log_warn("landing: rule %s: its password stays in the rule: %s", (*spec)->name, err.text);
    }
    mem_free(password);
    mem_free(bare);
    return rc == RC_OK;
}
