// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb_quiet.cc - two things that RocksDB does by itself, turned off.
 *
 * Both abort the process after an I/O error where RocksDB has its assertions on, as Debian's has. Its
 * C interface of 7.8 cannot turn them off, so this one file is C++ (docs/design/0016-cxx.md).
 *
 * LOG, a file of text: when an append to it fails, the next line is an assertion, and some lines are
 * written at every level. What went wrong is in the statuses that we read anyway.
 *
 * The recovery from a full disk: after a MANIFEST that could not be written, a thread of RocksDB
 * clears the error as soon as there is room, and 7.8 forgets to clear "the database is stopped" with
 * it. The next unit is then ingested as file number 0. We open the database again instead. */
#include <cstdarg>

#include <memory>

#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>

#include "store/engine/engine_rocksdb_quiet.h"

struct rocksdb_options_t { /* as RocksDB's c.cc has it in every version */
    rocksdb::Options rep;
};

namespace
{

class silent_log : public rocksdb::Logger
{
  public:
    silent_log() : rocksdb::Logger(rocksdb::InfoLogLevel::FATAL_LEVEL)
    {
    }
    using rocksdb::Logger::Logv;
    void Logv(const char *, va_list) override
    {
    }
};

class no_recovery : public rocksdb::EventListener
{
  public:
    void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                              bool *auto_recovery) override
    {
        *auto_recovery = false;
    }
};

} // namespace

void rocks__options_set_quiet(rocksdb_options_t *options)
{
    options->rep.info_log = std::make_shared<silent_log>();
    options->rep.listeners.push_back(std::make_shared<no_recovery>());
    options->rep.max_bgerror_resume_count = 0;
}
