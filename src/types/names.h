// SPDX-License-Identifier: Apache-2.0
/* names.h - which namespace has which index: SELECT's numbers, SWAPDB and NAMESPACE.
 *
 * DB 0 is default.default, 1..15 are default.01 to default.15: they are there from the start.
 * Others are registered. Where a namespace stands is a counter, "place:<name>" = index + 1, so it
 * is changed by the commit of the command, taken back with it, and known at the start without a
 * read.
 *
 * Threads: the executor. */
#pragma once

#include "types/kv.h"

/* Before the first command: opens all of them. */
enum rc names_open(struct kv *kv, struct err *err) NODISCARD;

/* Inside a commit that has changed nothing, which is closed and opened again: the prefixes of a new
 * namespace are made outside. RC_INVALID, RC_BUSY, RC_TOO_BIG. */
enum rc names_register(struct kv *kv, struct bytes name, uint32_t index, struct err *err) NODISCARD;
/* Its keys, its name and its index. Nobody may be using it. RC_INVALID: it has been there from the
 * start, or stands where one of these has to. */
enum rc names_drop(const struct run *run, struct err *err) NODISCARD;
struct ns *names_find(const struct kv *kv, struct bytes name); /* NULL: none */
/* SWAPDB: who has selected one sees the other's keys from here on. */
enum rc names_swap(const struct run *run, struct ns *one, struct ns *other,
                   struct err *err) NODISCARD;
