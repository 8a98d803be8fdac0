# SPDX-License-Identifier: Apache-2.0
"""The differential test: the same commands to Redis and to terraced, every reply compared.

From the root of the repository: /usr/bin/python3 -m tests.wire.diff --help
"""
