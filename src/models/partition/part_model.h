// SPDX-License-Identifier: Apache-2.0
/* part_model.h - partitions, as the server knows them, and their rows of INFO and /metrics. */
#pragma once

#include "command/model.h"

extern const struct model partition_model;
enum { PART_STATISTICS_COUNT = 2 };
extern const struct statistics part_statistics[PART_STATISTICS_COUNT];
