/* The part of memory that needs no device: host memory, and copies, which complete at once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { ALIGNMENT = 512 };

int aclrtMallocHost(void **pointer, size_t size) {
    return posix_memalign(pointer, ALIGNMENT, size ? size : 1) ? OUT_OF_MEMORY : OK;
}

int aclrtMallocHostWithCfg(void **pointer, size_t size, void *config) {
    (void)config;
    return aclrtMallocHost(pointer, size);
}

int aclrtFreeHost(void *pointer) {
    free(pointer);
    return OK;
}

int aclrtMemcpy(void *to, size_t room, const void *from, size_t size, int kind) {
    (void)kind;
    if (size > room) return INVALID_PARAM;
    memmove(to, from, size);
    return OK;
}

int aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t size, int kind, void *stream) {
    (void)stream;
    return aclrtMemcpy(to, room, from, size, kind);
}

int aclrtMemset(void *pointer, size_t room, int32_t value, size_t size) {
    if (size > room) return INVALID_PARAM;
    memset(pointer, value, size);
    return OK;
}

int aclrtMemsetAsync(void *pointer, size_t room, int32_t value, size_t size, void *stream) {
    (void)stream;
    return aclrtMemset(pointer, room, value, size);
}
