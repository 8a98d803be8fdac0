// SPDX-License-Identifier: Apache-2.0
/* replay.c - feeds every file of the directories given as arguments to a fuzz target, in the order
 * of their names, so that the corpus is an ordinary test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    struct stat stat_of;
    FILE *file = fopen(path, "rb");
    if (!file)
        return -1;
    if (fstat(fileno(file), &stat_of) != 0) {
        fclose(file);
        return -1;
    }
    /* Exactly as large as the input: a sanitizer sees a read of the byte after it. */
    size_t size = (size_t)stat_of.st_size;
    uint8_t *data = malloc(size ? size : 1);
    size_t got = data ? fread(data, 1, size, file) : 0;
    fclose(file);
    if (data && got == size)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    return data && got == size ? 0 : -1;
}

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay_dir(const char *dir, unsigned *passed_count, unsigned *failed_count)
{
    struct dirent **entry = NULL;
    int count = scandir(dir, &entry, is_input, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, entry[i]->d_name);
        printf("%s\n", path); /* before the call: a crash is then known by its file */
        fflush(stdout);
        if (replay_file(path) == 0)
            ++*passed_count;
        else
            ++*failed_count;
        free(entry[i]);
    }
    free(entry);
}

int main(int argc, char **argv)
{
    unsigned passed_count = 0;
    unsigned failed_count = 0;

    for (int i = 1; i < argc; i++)
        replay_dir(argv[i], &passed_count, &failed_count);
    printf("%u passed, %u failed\n", passed_count, failed_count);
    return failed_count ? 1 : 0;
}
