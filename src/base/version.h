// SPDX-License-Identifier: Apache-2.0
/* version.h - what the programs say they are. */
#pragma once

#define TERRACE_VERSION "0.4.0"
