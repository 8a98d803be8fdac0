// SPDX-License-Identifier: Apache-2.0
/* landing_stats.c - landing's rows of INFO and /metrics. */
#include "models/landing/landing_model.h"

#include <stdio.h>

#include "models/landing/landing_int.h"

#include "base/banned.h"

/* ---- totals of all rules; LAND.STATUS has them one by one ---- */

struct sums {
    uint64_t rules, failing, missing, backlog, errors, orphans;
    struct land_status status;
};

static bool sums_read(void *owner, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    const struct landing *landing = owner;
    struct sums *sums = values;
    struct land_rule *rule = NULL;
    size_t tables;
    (void)labels;
    if (n > 0)
        return false;
    const struct land_count *table = landing_counts(landing, &tables);
    *sums = (struct sums){.orphans = landing_orphans(landing)};
    while ((rule = landing_rule_next(landing, rule))) {
        struct land_status one;
        land_rule_status(rule, &one);
        sums->rules++;
        sums->failing += one.trouble[0] != 0;
        sums->missing += one.missing;
        sums->status.landed_rows += one.landed_rows;
        sums->status.refused_rows += one.refused_rows;
        sums->status.batches += one.batches;
        sums->status.failures += one.failures;
        sums->status.lifts += one.lifts;
        sums->status.lifted_rows += one.lifted_rows;
        sums->status.lift_failures += one.lift_failures;
    }
    for (size_t i = 0; i < tables; i++) {
        sums->backlog += table[i].marked + table[i].saving;
        sums->errors += table[i].errors;
    }
    return true;
}

#define SUM(info, member, help)                                             \
    {                                                                       \
        info, NULL, STATISTIC_GAUGE, help, offsetof(struct sums, member), 0 \
    }
#define SUM_COUNTER(info, member, help)                                              \
    {                                                                                \
        info, NULL, STATISTIC_COUNTER, help, offsetof(struct sums, status.member), 0 \
    }
static const struct statistic sums_rows[] = {
    SUM("landing_rules", rules, "Rules."),
    SUM("landing_rules_failing", failing,
        "Rules whose database is away, or whose last pass failed."),
    SUM("landing_sinks_missing", missing, "Rules whose database is gone."),
    SUM("landing_backlog", backlog, "Changes that have not landed."),
    SUM("landing_errors", errors, "Changes the database refused."),
    SUM("landing_orphans", orphans, "Entries that no rule takes."),
    SUM_COUNTER("landing_landed_rows", landed_rows, "Rows landed."),
    SUM_COUNTER("landing_refused_rows", refused_rows, "Rows the database refused."),
    SUM_COUNTER("landing_batches", batches, "Batches landed."),
    SUM_COUNTER("landing_failures", failures, "Batches that found the database away."),
    SUM_COUNTER("landing_lifts", lifts, "Queries for what was not here."),
    SUM_COUNTER("landing_lifted_rows", lifted_rows, "Fields they brought."),
    SUM_COUNTER("landing_lift_failures", lift_failures, "Lifts that failed."),
};

/* ---- rules ---- */

struct of_rule {
    struct land_status status;
    uint64_t failing, missing, oldest_ms;
};

static bool rule_read(void *owner, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    const struct landing *landing = owner;
    struct of_rule *of = values;
    struct land_rule *rule = landing_rule_next(landing, NULL);
    for (; rule && n > 0; n--)
        rule = landing_rule_next(landing, rule);
    if (!rule)
        return false;
    land_rule_status(rule, &of->status);
    uint64_t now_ms = clock_unix_ms(landing->options.clock), oldest_ms = of->status.oldest_ms;
    of->failing = of->status.trouble[0] != 0;
    of->missing = land_rule_is_missing(rule);
    of->oldest_ms = oldest_ms != 0 && oldest_ms < now_ms ? now_ms - oldest_ms : 0;
    snprintf(labels, STATISTIC_LABELS_BYTES, "rule=\"%s\"", land_rule_spec(rule)->name);
    return true;
}

static bool has_rules(void *landing)
{
    return landing_rule_next(landing, NULL) != NULL;
}

#define RULE(metric, kind, member, divisor, help)                                       \
    {                                                                                   \
        NULL, metric, STATISTIC_##kind, help, offsetof(struct of_rule, member), divisor \
    }
static const struct statistic rule_rows[] = {
    RULE("landing_rows_total", COUNTER, status.landed_rows, 0, "Rows landed."),
    RULE("landing_refused_rows_total", COUNTER, status.refused_rows, 0,
         "Rows the database refused."),
    RULE("landing_rows_per_second", GAUGE, status.rows_per_s, 0,
         "Rows a second of the last pass that landed any."),
    RULE("landing_batches_total", COUNTER, status.batches, 0,
         "Batches landed; rows by batches is their size."),
    RULE("landing_failures_total", COUNTER, status.failures, 0,
         "Batches that found the database away."),
    RULE("landing_sql_microseconds_total", COUNTER, status.sql_ns, 1000, "Time of SQL in batches."),
    RULE("landing_lifts_total", COUNTER, status.lifts, 0, "Queries for what was not here."),
    RULE("landing_lifted_rows_total", COUNTER, status.lifted_rows, 0, "Fields they brought."),
    RULE("landing_lift_failures_total", COUNTER, status.lift_failures, 0, "Lifts that failed."),
    RULE("landing_lift_microseconds_total", COUNTER, status.lift_ns, 1000, "Time of lifts."),
    RULE("landing_hits_total", COUNTER, status.hits, 0, "Lookups answered here."),
    RULE("landing_misses_total", COUNTER, status.misses, 0, "Lookups that needed a lift."),
    RULE("landing_absent_total", COUNTER, status.absences, 0,
         "Lookups of what SQL is known not to have."),
    RULE("landing_failing", GAUGE, failing, 0, "1: the database is away, or the last pass failed."),
    RULE("landing_missing", GAUGE, missing, 0,
         "1 while the database that a rule has landed in is gone."),
    RULE("landing_oldest_dirty_milliseconds", GAUGE, oldest_ms, 0,
         "For how long the oldest change of this run has been waiting."),
};

/* ---- dirty tables: they belong to a database, and all its rules share them ---- */

static bool table_read(void *owner, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    size_t count;
    const struct land_count *table = landing_counts(owner, &count);
    if (n >= count)
        return false;
    memcpy(values, &table[n], sizeof *table);
    snprintf(labels, STATISTIC_LABELS_BYTES, "db=\"%u\",table=\"%u\"", table[n].db, table[n].table);
    return true;
}

#define TABLE(metric, member, help)                                                 \
    {                                                                               \
        NULL, metric, STATISTIC_GAUGE, help, offsetof(struct land_count, member), 0 \
    }
static const struct statistic table_rows[] = {
    TABLE("landing_dirty_entries", marked, "Changes that wait in a dirty table."),
    TABLE("landing_saving_entries", saving, "Changes that are being landed."),
    TABLE("landing_error_entries", errors, "Changes the database refused."),
};

const struct statistics landing_statistics[LANDING_STATISTICS_COUNT] = {
    {"landing", "Landing", sums_rows, ARRAY_LEN(sums_rows), sizeof(struct sums), .read = sums_read},
    {NULL, NULL, rule_rows, ARRAY_LEN(rule_rows), sizeof(struct of_rule), .read = rule_read,
     .labels = "rule", .is_shown = has_rules},
    {NULL, NULL, table_rows, ARRAY_LEN(table_rows), sizeof(struct land_count), .read = table_read,
     .labels = "db, table", .is_shown = has_rules},
};
