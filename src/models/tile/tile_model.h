// SPDX-License-Identifier: Apache-2.0
/* tile_model.h - tiles, as the server knows them: their rows of INFO and /metrics, their pages. */
#pragma once

#include "command/model.h"

extern const struct model tile_model;
enum { TILE_STATISTICS_COUNT = 2 };
extern const struct statistics tile_statistics[TILE_STATISTICS_COUNT];

/* tile_page.c: see struct model */
enum page_found tile_page_find(const struct page_asked *asked, struct page *page);
enum rc tile_page_make(void *tiles, const struct run *run, struct page *page,
                       struct err *err) NODISCARD;
