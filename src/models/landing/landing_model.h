// SPDX-License-Identifier: Apache-2.0
/* landing_model.h - landing, as the server knows it, and its rows of INFO and /metrics. */
#pragma once

#include "command/model.h"

extern const struct model landing_model;
enum { LANDING_STATISTICS_COUNT = 3 };
extern const struct statistics landing_statistics[LANDING_STATISTICS_COUNT];
