/* Simulated streams and events, and what the framework asks CANN once. Work is done when it is asked for, so every
 * stream is always idle and an event is a time stamp of the host.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

int64_t sim_clock_ns(int clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

typedef struct {
    int32_t id;
} Stream;

int aclrtCreateStreamWithConfig(void **stream, uint32_t priority, uint32_t flag) {
    static int32_t next = 2;
    (void)priority, (void)flag;
    Stream *made = malloc(sizeof *made);
    if (!made) return OUT_OF_MEMORY;
    made->id = __sync_fetch_and_add(&next, 1);
    *stream = made;
    return OK;
}

int aclrtCreateStream(void **stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }

int aclrtDestroyStream(void *stream) {
    free(stream);
    return OK;
}

int aclrtDestroyStreamForce(void *stream) { return aclrtDestroyStream(stream); }

int aclrtStreamGetId(void *stream, int32_t *id) {
    *id = stream ? ((Stream *)stream)->id : 0;
    return OK;
}

int aclrtStreamQuery(void *stream, int *status) {
    (void)stream;
    *status = 0; /* complete */
    return OK;
}

int aclrtCreateEventExWithFlag(void **event, uint32_t flag) {
    (void)flag;
    return (*event = calloc(1, sizeof(int64_t))) ? OK : OUT_OF_MEMORY;
}

int aclrtCreateEventWithFlag(void **event, uint32_t flag) { return aclrtCreateEventExWithFlag(event, flag); }

int aclrtCreateEvent(void **event) { return aclrtCreateEventExWithFlag(event, 0); }

int aclrtDestroyEvent(void *event) {
    free(event);
    return OK;
}

int aclrtRecordEvent(void *event, void *stream) {
    (void)stream;
    *(int64_t *)event = sim_clock_ns(CLOCK_MONOTONIC_RAW);
    return OK;
}

int aclrtQueryEventStatus(void *event, int *status) {
    (void)event;
    *status = 1; /* complete */
    return OK;
}

int aclrtQueryEventWaitStatus(void *event, int *status) { return aclrtQueryEventStatus(event, status); }

int aclrtEventGetTimestamp(void *event, uint64_t *us) {
    *us = (uint64_t)(*(int64_t *)event / 1000);
    return OK;
}

int aclrtEventElapsedTime(float *ms, void *first, void *second) {
    *ms = (float)((double)(*(int64_t *)second - *(int64_t *)first) / 1e6);
    return OK;
}

/* --- what the framework asks once ------------------------------------------------------------------------- */

const char *aclGetRecentErrMsg(void) { return ""; }

size_t aclGetCompileoptSize(int option) {
    (void)option;
    return 64;
}

int aclGetCompileopt(int option, char *value, size_t size) {
    (void)option;
    snprintf(value, size, "disable");
    return OK;
}

typedef struct {
    char version[128], major[64], minor[64], release[64], patch[64], reserved[128];
} PackageVersion;

int aclsysGetCANNVersion(int package, PackageVersion *version) {
    (void)package;
    memset(version, 0, sizeof *version);
    snprintf(version->version, sizeof version->version, "%s", CANN_VERSION);
    return OK;
}

int aclsysGetVersionStr(const char *package, char *version) {
    (void)package;
    strcpy(version, CANN_VERSION);
    return OK;
}

uint64_t MsprofGetHashId(const char *text, size_t size) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return hash;
}

uint64_t MsprofSysCycleTime(void) { return (uint64_t)sim_clock_ns(CLOCK_MONOTONIC_RAW); }
