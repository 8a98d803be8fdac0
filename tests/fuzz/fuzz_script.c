// SPDX-License-Identifier: Apache-2.0
/* fuzz_script.c - hostile scripts, hostile libraries, and any bytes as the reply of a command: an
 * error or a reply, within memory, and the interpreter as it was.
 *
 * The first byte says which. A run ends with its third tick. */
#include <stdint.h>

#include "script/script.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TICKS_MAX = 3, MEMORY_BYTES = 4 << 20, REPLY_BYTES_MAX = 1 << 20 };

struct world {
    struct bytes reply; /* of every command */
    unsigned ticks;
};

static enum rc host_call(void *arg, const struct bytes *argv, size_t argc, uint8_t proto,
                         struct bytes *ret_reply, struct err *err)
{
    const struct world *world = arg;
    size_t bytes = proto;
    (void)err;
    for (size_t i = 0; i < argc; i++)
        for (size_t n = 0; n < argv[i].len; n++)
            bytes += argv[i].ptr[n]; /* they can be read */
    *ret_reply = bytes == SIZE_MAX ? (struct bytes){0} : world->reply;
    return RC_OK;
}

static enum rc host_tick(void *arg, struct err *err)
{
    struct world *world = arg;
    return ++world->ticks < TICKS_MAX ? RC_OK : err_set(err, RC_TIMEOUT, "it took too long");
}

static void host_log(void *arg, enum script_log_level level, struct bytes text)
{
    (void)arg;
    (void)level;
    (void)text;
}

static bool host_is_command(void *arg, const struct bytes *argv, size_t argc)
{
    (void)arg;
    (void)argv;
    return argc > 0;
}

static void script_play(struct script_vm *vm, const struct script_host *host, struct bytes text)
{
    struct resp_out out;
    struct err err = {0};
    int ref;
    resp_out_init(&out, REPLY_BYTES_MAX);
    struct script_run run = {.host = host, .name = "fuzz", .reply = &out};
    if (script_compile(vm, text, &ref, &err) == RC_OK) {
        enum rc rc = script_run(vm, ref, &run, &err);
        ASSERT(rc == RC_OK || rc == RC_TIMEOUT);
        ASSERT(rc != RC_OK || out.buf.len > 0 || out.failed);
        script_forget(vm, ref);
    }
    resp_out_done(&out);
    ASSERT(script_vm_bytes(vm) <= MEMORY_BYTES);
}

static void library_play(struct script_vm *vm, const struct script_host *host, struct bytes code)
{
    struct script_lib *lib;
    struct err err = {0};
    if (script_lib_new(vm, host, code, &lib, &err) != RC_OK)
        return;
    for (size_t i = 0; i < lib->function_count; i++) {
        struct resp_out out;
        resp_out_init(&out, REPLY_BYTES_MAX);
        struct script_run run = {.host = host, .name = "fuzz", .reply = &out};
        CLEANUP(buf_done) struct buf name; /* the library's own goes when it is loaded again */
        buf_init(&name, lib->function[i].name.len);
        bool copied = buf_add_bytes(&name, lib->function[i].name);
        ASSERT(copied);
        enum rc rc = script_lib_run(vm, lib, buf_bytes(&name), &run, &err);
        ASSERT(rc == RC_OK || rc == RC_TIMEOUT || rc == RC_INVALID);
        resp_out_done(&out);
    }
    script_lib_free(vm, lib);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes text = bytes_of(data + 1, size - 1);
    struct world world = {.reply = data[0] % 3 == 2 ? text : BYTES("+OK\r\n")};
    const struct script_host host = {host_call, host_tick, host_log, host_is_command, &world};
    struct script_vm *vm = script_vm_new(&(struct script_vm_options){
        .memory_bytes_max = MEMORY_BYTES, .for_functions = data[0] % 3 == 1, .seed = 1});
    switch (data[0] % 3) {
    case 0:
        script_play(vm, &host, text);
        script_play(vm, &host, BYTES("return redis.call('GET', 'x')"));
        break;
    case 1:
        library_play(vm, &host, text);
        break;
    default:
        script_play(vm, &host, BYTES("return redis.call('GET', 'x')"));
        script_play(vm, &host, BYTES("redis.setresp(3) return redis.pcall('GET', 'x')"));
    }
    script_vm_free(vm);
    return 0;
}
