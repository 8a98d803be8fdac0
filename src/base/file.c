// SPDX-License-Identifier: Apache-2.0
/* file.c - the real file system behind the file front, and helpers over any of them. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"

#include "base/banned.h"

enum { FILE_MODE = 0640, DIR_MODE = 0750, FILE_COPY_BYTES = 64 * 1024 };

struct real_file {
    struct file file;
    int fd;
};

static int fd_of(const struct file *file)
{
    return ((const struct real_file *)file)->fd;
}

/* The code for errno, and "could not VERB "PATH": why". */
static enum rc fail(struct err *err, const char *verb, const char *path)
{
    int number = errno;
    enum rc rc = RC_IO;
    if (number == ENOENT)
        rc = RC_NOT_FOUND;
    else if (number == ENOSPC || number == EDQUOT)
        rc = RC_FULL;
    return err_set(err, rc, "could not %s \"%s\": %s", verb, path, strerror(number));
}

static enum rc real_open(struct files *files, const char *path, unsigned flags,
                         struct file **ret_file, struct err *err)
{
    int how = O_CLOEXEC;
    if ((flags & FILE_WRITE) && (flags & FILE_READ))
        how |= O_RDWR;
    else if (flags & FILE_WRITE)
        how |= O_WRONLY;
    if (flags & FILE_CREATE)
        how |= O_CREAT;
    if (flags & FILE_EXCLUSIVE)
        how |= O_EXCL;
    if (flags & FILE_TRUNCATE)
        how |= O_TRUNC;

    int fd;
    do {
        fd = open(path, how, FILE_MODE);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == EEXIST)
        return err_set(err, RC_BUSY, "could not create \"%s\": it exists", path);
    if (fd < 0)
        return fail(err, "open", path);

    struct real_file *file = mem_alloc(sizeof *file);
    *file = (struct real_file){.file = {files, mem_dup(path, strlen(path) + 1)}, .fd = fd};
    *ret_file = &file->file;
    return RC_OK;
}

static void real_close(struct file *file)
{
    close(fd_of(file)); /* what had to be durable was synced, and checked, before */
    mem_free(file->path);
    mem_free(file);
}

static enum rc real_writev(struct file *file, uint64_t offset, const struct iovec *iov, int count,
                           struct err *err)
{
    size_t skip = 0; /* bytes from iov[0] on that are written */

    for (;;) {
        while (count > 0 && skip >= iov->iov_len) {
            skip -= iov->iov_len;
            iov++;
            count--;
        }
        if (count == 0)
            return RC_OK;
        ssize_t written;
        if (skip > 0)
            written = pwrite(fd_of(file), (const char *)iov->iov_base + skip, iov->iov_len - skip,
                             (off_t)offset);
        else
            written = pwritev(fd_of(file), iov, count < IOV_MAX ? count : IOV_MAX, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail(err, "write", file->path);
        if (written == 0)
            return err_set(err, RC_IO, "could not write \"%s\": no progress", file->path);
        offset += (uint64_t)written;
        skip += (size_t)written;
    }
}

static enum rc real_read(struct file *file, uint64_t offset, void *to, size_t len, size_t *ret_len,
                         struct err *err)
{
    size_t have = 0;
    while (have < len) {
        ssize_t got = pread(fd_of(file), (char *)to + have, len - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(err, "read", file->path);
        if (got == 0)
            break;
        have += (size_t)got;
    }
    *ret_len = have;
    return RC_OK;
}

static enum rc real_sync(struct file *file, struct err *err)
{
    /* Not repeated after an error: the kernel may have dropped the pages and would say yes. */
    if (fdatasync(fd_of(file)) != 0)
        return fail(err, "sync", file->path);
    return RC_OK;
}

static enum rc real_truncate(struct file *file, uint64_t len, struct err *err)
{
    int failed;
    do {
        failed = ftruncate(fd_of(file), (off_t)len);
    } while (failed && errno == EINTR);
    return failed ? fail(err, "truncate", file->path) : RC_OK;
}

static enum rc real_allocate(struct file *file, uint64_t len, struct err *err)
{
    int failed;
    do {
        failed = fallocate(fd_of(file), FALLOC_FL_KEEP_SIZE, 0, (off_t)len);
    } while (failed && errno == EINTR);
    if (failed && errno == EOPNOTSUPP)
        return err_set(err, RC_INVALID, "the file system of \"%s\" allocates nothing ahead",
                       file->path);
    return failed ? fail(err, "allocate", file->path) : RC_OK;
}

static enum rc real_size(struct file *file, uint64_t *ret_len, struct err *err)
{
    struct stat found;
    if (fstat(fd_of(file), &found) != 0)
        return fail(err, "stat", file->path);
    *ret_len = (uint64_t)found.st_size;
    return RC_OK;
}

static enum rc real_lock(struct file *file, struct err *err)
{
    /* Of the open file, not of the process: closing another descriptor does not drop it. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd_of(file), F_OFD_SETLK, &lock) == 0)
        return RC_OK;
    if (errno == EAGAIN || errno == EACCES)
        return err_set(err, RC_BUSY, "could not lock \"%s\": it is in use", file->path);
    return fail(err, "lock", file->path);
}

static enum rc real_rename(struct files *files, const char *from, const char *to, struct err *err)
{
    (void)files;
    return rename(from, to) == 0 ? RC_OK : fail(err, "rename", from);
}

static enum rc copy_content(struct file *from, struct file *to, struct err *err)
{
    uint8_t part[FILE_COPY_BYTES];
    uint64_t offset = 0;
    for (;;) {
        size_t len;
        enum rc rc = real_read(from, offset, part, sizeof part, &len, err);
        if (rc != RC_OK)
            return rc;
        if (len == 0)
            return real_sync(to, err);
        rc = file_write(to, offset, bytes_of(part, len), err);
        if (rc != RC_OK)
            return rc;
        offset += len;
    }
}

static enum rc copy_file(struct files *files, const char *from, const char *to, struct err *err)
{
    CLEANUP(file_closep) struct file *source = NULL;
    CLEANUP(file_closep) struct file *target = NULL;

    enum rc rc = real_open(files, from, FILE_READ, &source, err);
    if (rc != RC_OK)
        return rc;
    rc = real_open(files, to, FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &target, err);
    if (rc != RC_OK)
        return rc;
    rc = copy_content(source, target, err);
    if (rc != RC_OK)
        unlink(to);
    return rc;
}

static enum rc real_link(struct files *files, const char *from, const char *to, struct err *err)
{
    if (link(from, to) == 0)
        return RC_OK;
    switch (errno) {
    case EEXIST:
        return err_set(err, RC_BUSY, "could not link \"%s\": it exists", to);
    case EPERM: /* what a file system without hard links answers */
    case EOPNOTSUPP:
    case ENOSYS:
    case EXDEV:
    case EMLINK:
        return copy_file(files, from, to, err);
    }
    return fail(err, "link", from);
}

static enum rc real_remove(struct files *files, const char *path, struct err *err)
{
    (void)files;
    return remove(path) == 0 ? RC_OK : fail(err, "remove", path);
}

static enum rc real_make_dir(struct files *files, const char *path, struct err *err)
{
    (void)files;
    struct stat found;
    if (mkdir(path, DIR_MODE) == 0)
        return RC_OK;
    if (errno == EEXIST && stat(path, &found) == 0) {
        if (S_ISDIR(found.st_mode))
            return RC_OK;
        errno = EEXIST;
    }
    return fail(err, "make directory", path);
}

static enum rc real_sync_dir(struct files *files, const char *path, struct err *err)
{
    (void)files;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, "open directory", path);
    enum rc rc = fsync(fd) == 0 ? RC_OK : fail(err, "sync directory", path);
    close(fd);
    return rc;
}

struct name_list {
    char **name;
    size_t count;
    size_t cap;
};

static void name_list_done(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        mem_free(list->name[i]);
    mem_free(list->name);
}

static void name_list_add(struct name_list *list, const char *name)
{
    if (list->count == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 16;
        list->name = mem_realloc(list->name, list->cap * sizeof *list->name);
    }
    list->name[list->count++] = mem_dup(name, strlen(name) + 1);
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum rc name_list_read(struct name_list *list, const char *path, struct err *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return fail(err, "open directory", path);
    const struct dirent *entry;
    errno = 0;
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            name_list_add(list, entry->d_name);
        errno = 0;
    }
    enum rc rc = errno == 0 ? RC_OK : fail(err, "read directory", path);
    closedir(dir);
    return rc;
}

static enum rc real_list(struct files *files, const char *path,
                         enum rc (*fn)(const char *name, void *arg, struct err *err), void *arg,
                         struct err *err)
{
    (void)files;
    CLEANUP(name_list_done) struct name_list list = {0};

    enum rc rc = name_list_read(&list, path, err);
    if (rc != RC_OK)
        return rc;
    if (list.count > 1)
        qsort(list.name, list.count, sizeof *list.name, name_order);
    for (size_t i = 0; i < list.count && rc == RC_OK; i++)
        rc = fn(list.name[i], arg, err);
    return rc;
}

static enum rc real_free_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                               struct err *err)
{
    (void)files;
    struct statvfs found;
    if (statvfs(path, &found) != 0)
        return fail(err, "stat", path);
    *ret_bytes = (uint64_t)found.f_bavail * found.f_frsize;
    return RC_OK;
}

static enum rc real_total_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                                struct err *err)
{
    (void)files;
    struct statvfs found;
    if (statvfs(path, &found) != 0)
        return fail(err, "stat", path);
    *ret_bytes = (uint64_t)found.f_blocks * found.f_frsize;
    return RC_OK;
}

static enum rc real_mode_copy(struct file *file, const char *from, struct err *err)
{
    struct stat found;
    if (stat(from, &found) != 0)
        return errno == ENOENT ? RC_OK : fail(err, "stat", from);
    if (fchmod(fd_of(file), found.st_mode & 07777) != 0)
        return fail(err, "set the permissions of", file->path);
    return RC_OK;
}

static const struct file_ops real_ops = {
    .name = "real",
    .open = real_open,
    .close = real_close,
    .writev = real_writev,
    .read = real_read,
    .sync = real_sync,
    .truncate = real_truncate,
    .allocate = real_allocate,
    .size = real_size,
    .lock = real_lock,
    .rename = real_rename,
    .link = real_link,
    .remove = real_remove,
    .make_dir = real_make_dir,
    .sync_dir = real_sync_dir,
    .list = real_list,
    .free_bytes = real_free_bytes,
    .total_bytes = real_total_bytes,
    .mode_copy = real_mode_copy,
};
const struct files files_real = {.ops = &real_ops};

enum rc file_open(struct files *files, const char *path, unsigned flags, struct file **ret_file,
                  struct err *err)
{
    ASSERT(flags & (FILE_READ | FILE_WRITE));
    ASSERT((flags & FILE_WRITE) || !(flags & (FILE_CREATE | FILE_TRUNCATE)));
    ASSERT((flags & FILE_CREATE) || !(flags & FILE_EXCLUSIVE));
    return files->ops->open(files, path, flags, ret_file, err);
}

void file_close(struct file *file)
{
    if (file)
        file->files->ops->close(file);
}

void file_closep(struct file **file)
{
    file_close(*file);
}

enum rc file_writev(struct file *file, uint64_t offset, const struct iovec *iov, int count,
                    struct err *err)
{
    return file->files->ops->writev(file, offset, iov, count, err);
}

enum rc file_write(struct file *file, uint64_t offset, struct bytes bytes, struct err *err)
{
    struct iovec iov = {(void *)bytes.ptr, bytes.len};
    return file_writev(file, offset, &iov, 1, err);
}

enum rc file_read(struct file *file, uint64_t offset, void *to, size_t len, size_t *ret_len,
                  struct err *err)
{
    return file->files->ops->read(file, offset, to, len, ret_len, err);
}

enum rc file_sync(struct file *file, struct err *err)
{
    return file->files->ops->sync(file, err);
}

enum rc file_truncate(struct file *file, uint64_t len, struct err *err)
{
    return file->files->ops->truncate(file, len, err);
}

enum rc file_allocate(struct file *file, uint64_t len, struct err *err)
{
    return file->files->ops->allocate(file, len, err);
}

enum rc file_size(struct file *file, uint64_t *ret_len, struct err *err)
{
    return file->files->ops->size(file, ret_len, err);
}

enum rc file_lock(struct file *file, struct err *err)
{
    return file->files->ops->lock(file, err);
}

enum rc files_rename(struct files *files, const char *from, const char *to, struct err *err)
{
    return files->ops->rename(files, from, to, err);
}

enum rc files_link(struct files *files, const char *from, const char *to, struct err *err)
{
    return files->ops->link(files, from, to, err);
}

enum rc files_remove(struct files *files, const char *path, struct err *err)
{
    return files->ops->remove(files, path, err);
}

enum rc files_make_dir(struct files *files, const char *path, struct err *err)
{
    return files->ops->make_dir(files, path, err);
}

enum rc files_sync_dir(struct files *files, const char *path, struct err *err)
{
    return files->ops->sync_dir(files, path, err);
}

enum rc files_list(struct files *files, const char *path,
                   enum rc (*fn)(const char *name, void *arg, struct err *err), void *arg,
                   struct err *err)
{
    return files->ops->list(files, path, fn, arg, err);
}

enum rc files_free_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                         struct err *err)
{
    return files->ops->free_bytes(files, path, ret_bytes, err);
}

enum rc files_total_bytes(struct files *files, const char *path, uint64_t *ret_bytes,
                          struct err *err)
{
    return files->ops->total_bytes(files, path, ret_bytes, err);
}

static enum rc read_into(struct file *file, uint64_t file_bytes, struct buf *to, struct err *err)
{
    if (file_bytes > to->bytes_max - to->len)
        return err_set(err, RC_TOO_BIG, "\"%s\" has %llu bytes, more than %zu", file->path,
                       (unsigned long long)file_bytes, to->bytes_max);
    if (!buf_reserve(to, file_bytes))
        return err_set(err, RC_NOMEM, "could not allocate %llu bytes for \"%s\"",
                       (unsigned long long)file_bytes, file->path);
    size_t len = 0;
    enum rc rc = file_bytes ? file_read(file, 0, to->ptr + to->len, file_bytes, &len, err) : RC_OK;
    if (rc != RC_OK)
        return rc;
    to->len += len;
    return RC_OK;
}

enum rc files_read_all(struct files *files, const char *path, struct buf *to, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;

    enum rc rc = file_open(files, path, FILE_READ, &file, err);
    if (rc != RC_OK)
        return rc;
    uint64_t file_bytes;
    rc = file_size(file, &file_bytes, err);
    if (rc != RC_OK)
        return rc;
    return read_into(file, file_bytes, to, err);
}

/* The permissions come before the content: it may be a secret. */
static enum rc write_new(struct files *files, const char *path, const char *mode_from,
                         struct bytes content, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;

    enum rc rc = file_open(files, path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file, err);
    if (rc != RC_OK)
        return rc;
    rc = files->ops->mode_copy ? files->ops->mode_copy(file, mode_from, err) : RC_OK;
    if (rc != RC_OK)
        return rc;
    rc = file_write(file, 0, content, err);
    if (rc != RC_OK)
        return rc;
    return file_sync(file, err);
}

enum rc files_replace(struct files *files, const char *path, struct bytes content, struct err *err)
{
    char name[PATH_BYTES_MAX];
    int len = snprintf(name, sizeof name, "%s.tmp", path);
    if (len < 0 || (size_t)len >= sizeof name)
        return err_set(err, RC_TOO_BIG, "path \"%.100s...\" is too long", path);

    enum rc rc = write_new(files, name, path, content, err);
    if (rc == RC_OK)
        rc = files_rename(files, name, path, err);
    if (rc != RC_OK) {
        enum rc ignored = files_remove(files, name, NULL); /* the first error is the one to tell */
        (void)ignored;
        return rc;
    }

    char *slash = strrchr(name, '/');
    if (!slash)
        return files_sync_dir(files, ".", err);
    slash[slash == name ? 1 : 0] = '\0';
    return files_sync_dir(files, name, err);
}

enum rc path_join(char to[PATH_BYTES_MAX], const char *dir, const char *name, struct err *err)
{
    int len = snprintf(to, PATH_BYTES_MAX, "%s/%s", dir, name);
    if (len < 0 || len >= PATH_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "the path of \"%s\" is too long", name);
    return RC_OK;
}
