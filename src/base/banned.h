// SPDX-License-Identifier: Apache-2.0
/* banned.h - the last include of every .c file: what must not be called does not compile. */
#pragma once

#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol gets
