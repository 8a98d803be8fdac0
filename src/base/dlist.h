// SPDX-License-Identifier: Apache-2.0
/* dlist.h - a doubly linked list of things that hold their own link.
 *
 *   struct waiter { struct dlink link; ... };
 *   dlist_add_last(&list, &waiter->link);
 *   for (struct waiter *at = DLIST_ITEM(list.first, struct waiter, link); at;
 *        at = DLIST_ITEM(at->link.next, struct waiter, link))
 *   dlist_remove(&list, &waiter->link);
 *
 * A struct dlist of zeros is an empty list. A thing may be in several lists by several links.
 *
 * Ownership: the list owns nothing; a member stays where it is while it is in the list.
 * Threads: those of whoever holds the list. */
#pragma once

#include <stddef.h>

#include "base/macros.h"

struct dlink {
    struct dlink *prev, *next;
};

struct dlist {
    struct dlink *first, *last;
};

/* What the link is in; NULL for NULL. */
#define DLIST_ITEM(link, type, member) ((type *)dlist__item(link, offsetof(type, member)))

static inline void *dlist__item(struct dlink *link, size_t offset)
{
    return link ? (char *)link - offset : NULL;
}

static inline void dlist_add_first(struct dlist *list, struct dlink *link)
{
    *link = (struct dlink){.next = list->first};
    *(list->first ? &list->first->prev : &list->last) = link;
    list->first = link;
}

static inline void dlist_add_last(struct dlist *list, struct dlink *link)
{
    *link = (struct dlink){.prev = list->last};
    *(list->last ? &list->last->next : &list->first) = link;
    list->last = link;
}

static inline void dlist_remove(struct dlist *list, struct dlink *link)
{
    ASSERT(link->prev ? link->prev->next == link : list->first == link);
    *(link->prev ? &link->prev->next : &list->first) = link->next;
    *(link->next ? &link->next->prev : &list->last) = link->prev;
    *link = (struct dlink){0};
}

/* NULL: the list is empty. */
static inline struct dlink *dlist_take_first(struct dlist *list)
{
    struct dlink *link = list->first;
    if (link)
        dlist_remove(list, link);
    return link;
}
