// SPDX-License-Identifier: Apache-2.0
#include "base/dlist.h"

#include <stdbool.h>

#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

enum { ITEM_COUNT = 12, STEPS = 20000 };

struct item {
    int number;
    struct dlink link;
    bool is_in;
};

static struct item *item_of(struct dlink *link)
{
    return DLIST_ITEM(link, struct item, link);
}

/* The numbers in the list from the first to the last are those given, and backwards as well. */
static void expect(const struct dlist *list, const int *number, size_t count)
{
    size_t at = 0;
    for (struct item *item = item_of(list->first); item; item = item_of(item->link.next), at++)
        ASSERT_TRUE(at < count && item->number == number[at]);
    ASSERT_EQ(at, count);
    for (struct item *item = item_of(list->last); item; item = item_of(item->link.prev)) {
        at--;
        ASSERT_TRUE(item->number == number[at]);
    }
    ASSERT_EQ(at, 0);
}

TEST(dlist_of_zeros_is_empty)
{
    struct dlist list = {0};
    expect(&list, NULL, 0);
    ASSERT_TRUE(!dlist_take_first(&list));
    ASSERT_TRUE(!item_of(NULL));
}

TEST(dlist_keeps_the_order_in_which_things_were_added)
{
    struct item item[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct dlist list = {0};
    dlist_add_last(&list, &item[1].link);
    dlist_add_last(&list, &item[2].link);
    dlist_add_first(&list, &item[0].link);
    expect(&list, (int[]){1, 2, 3}, 3);
    ASSERT_EQ(item_of(dlist_take_first(&list))->number, 1);
    dlist_remove(&list, &item[2].link);
    expect(&list, (int[]){2}, 1);
    dlist_remove(&list, &item[1].link);
    expect(&list, NULL, 0);
}

TEST(dlist_agrees_with_an_array_after_every_random_step)
{
    struct item item[ITEM_COUNT] = {0};
    int number[ITEM_COUNT];
    size_t count = 0;
    struct dlist list = {0};
    struct rand rand;
    rand_init_seed(&rand, 7);
    for (int step = 0; step < STEPS; step++) {
        struct item *one = &item[rand_below(&rand, ITEM_COUNT)];
        one->number = (int)(one - item);
        if (one->is_in) {
            size_t at = 0;
            while (number[at] != one->number)
                at++;
            memmove(&number[at], &number[at + 1], (--count - at) * sizeof *number);
            dlist_remove(&list, &one->link);
        } else if (rand_below(&rand, 2)) {
            number[count++] = one->number;
            dlist_add_last(&list, &one->link);
        } else {
            memmove(&number[1], &number[0], count++ * sizeof *number);
            number[0] = one->number;
            dlist_add_first(&list, &one->link);
        }
        one->is_in = !one->is_in;
        expect(&list, number, count);
    }
}

static void remove_what_is_not_there(void)
{
    struct dlist list = {0};
    struct item one = {0};
    dlist_remove(&list, &one.link);
}

TEST(dlist_stops_the_process_when_something_is_removed_that_is_not_in_it)
{
    ASSERT_ABORTS(remove_what_is_not_there());
}
