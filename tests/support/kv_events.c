// SPDX-License-Identifier: Apache-2.0
/* kv_events.c - collects the events of a keyspace as text. */
#include "support/kv_events.h"

#include <stdio.h>

#include "test.h"

#include "base/banned.h"

static void changed(void *arg, const struct run *run, struct bytes key, enum kv_event kind,
                    const char *event, bool exists)
{
    struct kv_events *events = arg;
    size_t len = strlen(events->text);
    (void)run;
    (void)kind;
    ASSERT_TRUE(exists || strcmp(event, "del") == 0 || strcmp(event, "expired") == 0);
    int added = snprintf(events->text + len, sizeof events->text - len, "%s%s %.*s",
                         len > 0 ? ", " : "", event, (int)key.len, (const char *)key.ptr);
    ASSERT_LT(len + (size_t)added, sizeof events->text);
}

void kv_events_listen(struct kv_events *events, struct kv_fix *fix)
{
    events->text[0] = 0;
    fix->kv.hooks = (struct kv_hooks){.changed = changed, .arg = events};
    fix->kv.listening = 1;
}

void kv_events_expect(struct kv_events *events, const char *text)
{
    ASSERT_STR(events->text, text);
    events->text[0] = 0;
}
