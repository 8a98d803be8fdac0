// SPDX-License-Identifier: Apache-2.0
/* fs_model.h - the file system, as the server knows it. */
#pragma once

#include "command/model.h"

extern const struct model fs_model;
