/* The simulated NPU driver and CANN runtime: devices and their memory, on the host's own memory.
 *
 * Devices come from the file $SIMHOST/devices, one line per logic id:
 *     <logic id> <npu id> <chip id> <total MB> <MB used when idle> <soc name> <physical id, the logic id if left out>
 * Without $SIMHOST there is one Ascend910B3 with 64 GB. A process that has set a device shows in
 * $SIMHOST/holders/<pid>, one line "<physical id> <MB>" per device it holds, and in $SIMHOST/use.log. Device pointers
 * are host pointers, every copy completes at once.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

enum {
    MAX_DEVICES = 64,
    CONTEXT_MB = 96,     /* what a process takes by setting a device, before its first tensor */
    REPORT_STEP_MB = 64, /* how much must change before the holder file is written again */
    HEADER = 512         /* before each device block: its size; keeps CANN's alignment of 512 */
};

typedef struct {
    int logic, total_mb, idle_mb;
    char soc[32];
    int phy;
} Device;

static Device devices[MAX_DEVICES];
static int device_count;
static int visible[MAX_DEVICES]; /* user device id -> index into devices */
static int visible_count;
static size_t used_bytes[MAX_DEVICES]; /* by user device id */
static int held[MAX_DEVICES];
static int reported_mb[MAX_DEVICES];
static __thread int current = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t holder_pid;

static const char *simhost(void) {
    const char *root = getenv("SIMHOST");
    return root && *root ? root : NULL;
}

static void read_devices(void) {
    char path[4096], line[256];
    FILE *file = NULL;
    if (simhost()) {
        snprintf(path, sizeof path, "%s/devices", simhost());
        file = fopen(path, "r");
    } else {
        devices[device_count++] = (Device){0, 65536, 2800, "Ascend910B3", 0};
    }
    while (file && device_count < MAX_DEVICES && fgets(line, sizeof line, file)) {
        Device *d = &devices[device_count];
        int got = sscanf(line, "%d %*d %*d %d %d %31s %d", &d->logic, &d->total_mb, &d->idle_mb, d->soc, &d->phy);
        if (got == 4) d->phy = d->logic;
        if (got >= 4) device_count++;
    }
    if (file) fclose(file);
}

/* As CANN reads ASCEND_RT_VISIBLE_DEVICES: a list of ascending logic ids; the first entry that is no number, no
 * device or not greater than the one before ends the list. */
static void read_visible(void) {
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (!text) {
        while (visible_count < device_count) visible[visible_count] = visible_count, visible_count++;
        return;
    }
    long last = -1;
    for (;;) {
        if (*text < '0' || *text > '9') return;
        char *end;
        long logic = strtol(text, &end, 10);
        if (logic <= last) return;
        int index = 0;
        while (index < device_count && devices[index].logic != logic) index++;
        if (index == device_count) return;
        visible[visible_count++] = index;
        last = logic;
        if (*end != ',') return;
        text = end + 1;
    }
}

static void drop_holder(void) {
    char path[4096];
    if (!simhost() || !holder_pid || holder_pid != getpid()) return;
    for (int id = 0; id < visible_count; id++) {
        if (held[id]) sim_note_close(simhost(), devices[visible[id]].phy);
    }
    snprintf(path, sizeof path, "%s/holders/%d", simhost(), (int)sim_pid(simhost()));
    unlink(path);
}

static void start(void) {
    read_devices();
    read_visible();
    atexit(drop_holder);
}

static void ready(void) { pthread_once(&once, start); }

/* Called with the lock held. */
static void report_holder(void) {
    char path[4096], part[4200];
    if (!simhost()) return;
    snprintf(path, sizeof path, "%s/holders", simhost());
    mkdir(path, 0777);
    holder_pid = getpid();
    snprintf(path, sizeof path, "%s/holders/%d", simhost(), (int)sim_pid(simhost()));
    snprintf(part, sizeof part, "%s.part", path);
    int holding = 0;
    for (int id = 0; id < visible_count; id++) holding += held[id];
    if (!holding) {
        unlink(path);
        return;
    }
    FILE *file = fopen(part, "w");
    if (!file) return;
    for (int id = 0; id < visible_count; id++) {
        if (!held[id]) continue;
        reported_mb[id] = CONTEXT_MB + (int)(used_bytes[id] >> 20);
        fprintf(file, "%d %d\n", devices[visible[id]].phy, reported_mb[id]);
    }
    if (fclose(file) == 0) rename(part, path);
}

/* Called with the lock held. */
static void report_if_changed(int id) {
    int mb = CONTEXT_MB + (int)(used_bytes[id] >> 20);
    if (held[id] && abs(mb - reported_mb[id]) >= REPORT_STEP_MB) report_holder();
}

int sim_current_logic_id(void) {
    ready();
    int id = current < 0 ? 0 : current;
    return id < visible_count ? devices[visible[id]].logic : 0;
}

/* --- devices and contexts --------------------------------------------------------------------------------- */

int aclrtGetDeviceCount(uint32_t *count) {
    ready();
    *count = (uint32_t)visible_count;
    return visible_count ? OK : INVALID_DEVICE;
}

int aclrtSetDevice(int32_t id) {
    ready();
    if (id < 0 || id >= visible_count) return INVALID_DEVICE;
    current = id;
    pthread_mutex_lock(&lock);
    if (holder_pid != getpid()) memset(held, 0, sizeof held); /* a fork: what the parent had open is not open here */
    if (!held[id]) {
        held[id] = 1;
        report_holder();
        sim_note_open(simhost(), devices[visible[id]].phy);
    }
    pthread_mutex_unlock(&lock);
    return OK;
}

int aclrtResetDevice(int32_t id) {
    ready();
    if (id < 0 || id >= visible_count) return INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (held[id] && holder_pid == getpid()) {
        held[id] = 0;
        report_holder();
        sim_note_close(simhost(), devices[visible[id]].phy);
    }
    pthread_mutex_unlock(&lock);
    return OK;
}

int aclrtGetDevice(int32_t *id) {
    if (current < 0) return CONTEXT_NULL;
    *id = current;
    return OK;
}

int aclrtGetCurrentContext(void **context) {
    if (current < 0) return CONTEXT_NULL;
    *context = &held[current];
    return OK;
}

int aclrtSetCurrentContext(void *context) {
    if (!context) return INVALID_PARAM;
    return aclrtSetDevice((int32_t)((int *)context - held));
}

int aclrtGetPrimaryCtxState(int32_t id, uint32_t *flags, int32_t *active) {
    ready();
    if (id < 0 || id >= visible_count) return INVALID_DEVICE;
    if (flags) *flags = 0;
    *active = held[id];
    return OK;
}

int aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t *logic) {
    ready();
    if (user < 0 || user >= visible_count) return INVALID_DEVICE;
    *logic = devices[visible[user]].logic;
    return OK;
}

/* 0 cube cores, 1 vector cores, 2 bytes of L2 cache. */
int aclGetDeviceCapability(uint32_t id, int what, int64_t *value) {
    static const int64_t values[] = {20, 40, 192 << 20};
    (void)id;
    if (what < 0 || what > 2) return INVALID_PARAM;
    *value = values[what];
    return OK;
}

int aclrtGetDeviceInfo(uint32_t id, int attribute, int64_t *value) {
    return aclGetDeviceCapability(id, attribute == 201 ? 1 : 0, value);
}

int aclrtDeviceGetUuid(int32_t id, unsigned char *uuid) {
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)id;
    return OK;
}

int aclmdlRICaptureGetInfo(void *stream, int *status, void **model) {
    (void)stream;
    *status = 0; /* no graph is being captured */
    *model = NULL;
    return OK;
}

int aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer) {
    *can = device != peer;
    return OK;
}

const char *aclrtGetSocName(void) {
    ready();
    return device_count ? devices[visible_count ? visible[current < 0 ? 0 : current] : 0].soc : NULL;
}

/* --- memory ----------------------------------------------------------------------------------------------- */

static size_t free_bytes(int id) {
    Device *d = &devices[visible[id]];
    size_t total = (size_t)d->total_mb << 20, taken = used_bytes[id] + ((size_t)(d->idle_mb + CONTEXT_MB) << 20);
    return taken < total ? total - taken : 0;
}

int aclrtGetMemInfo(int attribute, size_t *available, size_t *total) {
    (void)attribute;
    ready();
    int id = current < 0 ? 0 : current;
    if (id >= visible_count) return INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    *available = free_bytes(id);
    *total = (size_t)devices[visible[id]].total_mb << 20;
    pthread_mutex_unlock(&lock);
    return OK;
}

typedef struct {
    size_t size;
    int device;
} Block;

int aclrtMalloc(void **pointer, size_t size, int policy) {
    (void)policy;
    ready();
    int id = current < 0 ? 0 : current;
    if (id >= visible_count) return INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    int full = size > free_bytes(id);
    if (!full) used_bytes[id] += size;
    pthread_mutex_unlock(&lock);
    void *raw = NULL;
    if (full) return OUT_OF_MEMORY;
    if (posix_memalign(&raw, HEADER, size + 2 * HEADER)) {
        pthread_mutex_lock(&lock);
        used_bytes[id] -= size;
        pthread_mutex_unlock(&lock);
        return OUT_OF_MEMORY;
    }
    *(Block *)raw = (Block){size, id};
    *pointer = (char *)raw + HEADER;
    pthread_mutex_lock(&lock);
    report_if_changed(id);
    pthread_mutex_unlock(&lock);
    return OK;
}

int aclrtMallocAlign32(void **pointer, size_t size, int policy) { return aclrtMalloc(pointer, size, policy); }

int aclrtMallocWithCfg(void **pointer, size_t size, int policy, void *config) {
    (void)config;
    return aclrtMalloc(pointer, size, policy);
}

int aclrtFree(void *pointer) {
    if (!pointer) return INVALID_PARAM;
    Block *block = (Block *)((char *)pointer - HEADER);
    pthread_mutex_lock(&lock);
    used_bytes[block->device] -= block->size;
    report_if_changed(block->device);
    pthread_mutex_unlock(&lock);
    free(block);
    return OK;
}

/* Virtual memory, which expandable segments are made of: address space first, physical pages later. */
int aclrtReserveMemAddress(void **pointer, size_t size, size_t alignment, void *expected, uint64_t flags) {
    (void)alignment, (void)expected, (void)flags;
    void *space = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return OUT_OF_MEMORY;
    *pointer = space;
    return OK;
}

int aclrtReleaseMemAddress(void *pointer) {
    (void)pointer; /* only address space, and only until the process ends */
    return OK;
}

int aclrtMallocPhysical(void **handle, size_t size, const void *property, uint64_t flags) {
    (void)property, (void)flags;
    ready();
    int id = current < 0 ? 0 : current;
    if (id >= visible_count) return INVALID_DEVICE;
    Block *block = malloc(sizeof *block);
    if (!block) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    int full = size > free_bytes(id);
    if (!full) used_bytes[id] += size;
    report_if_changed(id);
    pthread_mutex_unlock(&lock);
    if (full) {
        free(block);
        return OUT_OF_MEMORY;
    }
    *block = (Block){size, id};
    *handle = block;
    return OK;
}

int aclrtFreePhysical(void *handle) {
    Block *block = handle;
    pthread_mutex_lock(&lock);
    used_bytes[block->device] -= block->size;
    report_if_changed(block->device);
    pthread_mutex_unlock(&lock);
    free(block);
    return OK;
}

int aclrtMapMem(void *pointer, size_t size, size_t offset, void *handle, uint64_t flags) {
    (void)offset, (void)handle, (void)flags;
    return mprotect(pointer, size, PROT_READ | PROT_WRITE) ? OUT_OF_MEMORY : OK;
}

int aclrtUnmapMem(void *pointer) {
    (void)pointer; /* CANN names no size here; the pages go with the process */
    return OK;
}
