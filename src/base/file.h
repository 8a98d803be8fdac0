// SPDX-License-Identifier: Apache-2.0
/* file.h - the file front: everything of ours that touches a disk passes here.
 *
 * `struct files` is a backend: the real one (file.c), or one in memory (file_sim.c) that a test can
 * make fail, cut short, or lose what was not synced at a simulated power cut.
 *
 * Errors: RC_IO with the path and strerror in the text; RC_NOT_FOUND where a file does not exist;
 * RC_FULL for ENOSPC and EDQUOT; RC_BUSY for a lock held by another process.
 * Threads: any; one struct file at a time by one thread, except file_sync() beside file_write().
 * Ownership: a struct file is closed by file_close(). Paths are copied. */
#pragma once

#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

struct files;
struct file;

enum file_open_flags {
    FILE_READ = 1,
    FILE_WRITE = 2,
    FILE_CREATE = 4,    /* with FILE_WRITE */
    FILE_EXCLUSIVE = 8, /* with FILE_CREATE: RC_BUSY if it exists */
    FILE_TRUNCATE = 16,
};

struct file_ops { /* one row a backend; members as the functions below */
    const char *name;
    enum rc (*open)(struct files *files, const char *path, unsigned flags, struct file **ret_file,
                    struct err *err);
    void (*close)(struct file *file);
    enum rc (*writev)(struct file *file, uint64_t offset, const struct iovec *iov, int count,
                      struct err *err);
    enum rc (*read)(struct file *file, uint64_t offset, void *to, size_t len, size_t *ret_len,
                    struct err *err);
    enum rc (*sync)(struct file *file, struct err *err);
    enum rc (*truncate)(struct file *file, uint64_t len, struct err *err);
    enum rc (*allocate)(struct file *file, uint64_t len, struct err *err);
    enum rc (*size)(struct file *file, uint64_t *ret_len, struct err *err);
    enum rc (*lock)(struct file *file, struct err *err);
    enum rc (*rename)(struct files *files, const char *from, const char *to, struct err *err);
    enum rc (*link)(struct files *files, const char *from, const char *to, struct err *err);
    enum rc (*remove)(struct files *files, const char *path, struct err *err);
    enum rc (*make_dir)(struct files *files, const char *path, struct err *err);
    enum rc (*sync_dir)(struct files *files, const char *path, struct err *err);
    enum rc (*list)(struct files *files, const char *path,
                    enum rc (*fn)(const char *name, void *arg, struct err *err), void *arg,
                    struct err *err);
    enum rc (*free_bytes)(struct files *files, const char *path, uint64_t *ret_bytes,
                          struct err *err);
    enum rc (*total_bytes)(struct files *files, const char *path, uint64_t *ret_bytes,
                           struct err *err);
    /* The permissions of another file, if it exists. NULL: this backend has none. */
    enum rc (*mode_copy)(struct file *file, const char *from, struct err *err);
};

struct files { /* embedded first in a backend's own struct */
    const struct file_ops *ops;
};
struct file { /* embedded first in a backend's own struct */
    struct files *files;
    char *path;
};

extern const struct files files_real; /* stateless; cast away const is fine: nothing is written */

enum rc file_open(struct files *files, const char *path, unsigned flags, struct file **ret_file,
                  struct err *err) NODISCARD;
void file_close(struct file *file); /* NULL is allowed */
void file_closep(struct file **file);
/* All or an error; after an error any part may have been written. */
enum rc file_writev(struct file *file, uint64_t offset, const struct iovec *iov, int count,
                    struct err *err) NODISCARD;
enum rc file_write(struct file *file, uint64_t offset, struct bytes bytes,
                   struct err *err) NODISCARD;
/* Reads up to len bytes; less only at the end of the file. */
enum rc file_read(struct file *file, uint64_t offset, void *to, size_t len, size_t *ret_len,
                  struct err *err) NODISCARD;
enum rc file_sync(struct file *file, struct err *err) NODISCARD; /* fdatasync */
enum rc file_truncate(struct file *file, uint64_t len, struct err *err) NODISCARD;
/* Reserves room up to len without changing the size seen by file_size(). RC_INVALID: the file
 * system cannot, and nothing has happened. */
enum rc file_allocate(struct file *file, uint64_t len, struct err *err) NODISCARD;
enum rc file_size(struct file *file, uint64_t *ret_len, struct err *err) NODISCARD;
enum rc file_lock(struct file *file, struct err *err) NODISCARD; /* exclusive, till close */

enum rc files_rename(struct files *files, const char *from, const char *to,
                     struct err *err) NODISCARD;
/* Hard link; a copy where the file system has none. RC_BUSY if to exists. */
enum rc files_link(struct files *files, const char *from, const char *to,
                   struct err *err) NODISCARD;
enum rc files_remove(struct files *files, const char *path,
                     struct err *err) NODISCARD; /* missing: RC_NOT_FOUND */
enum rc files_make_dir(struct files *files, const char *path,
                       struct err *err) NODISCARD; /* existing: RC_OK */
enum rc files_sync_dir(struct files *files, const char *path, struct err *err) NODISCARD;
/* Names in byte order, without "." and "..". fn's first error ends the walk and is returned. */
enum rc files_list(struct files *files, const char *path,
                   enum rc (*fn)(const char *name, void *arg, struct err *err), void *arg,
                   struct err *err) NODISCARD;
enum rc files_free_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                         struct err *err) NODISCARD;
/* Of the file system; UINT64_MAX: it has no bound. */
enum rc files_total_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                          struct err *err) NODISCARD;
/* The whole file, at most buf's limit (else RC_TOO_BIG). */
enum rc files_read_all(struct files *files, const char *path, struct buf *to,
                       struct err *err) NODISCARD;
/* Writes to a temporary name, syncs, renames over path, syncs the directory: all or nothing. The
 * permissions stay those of the file that was there. */
enum rc files_replace(struct files *files, const char *path, struct bytes content,
                      struct err *err) NODISCARD;
/* "dir/name"; RC_TOO_BIG: it has no room in PATH_BYTES_MAX. */
enum rc path_join(char to[PATH_BYTES_MAX], const char *dir, const char *name,
                  struct err *err) NODISCARD;
