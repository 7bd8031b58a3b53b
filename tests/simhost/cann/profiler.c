/* The simulated CANN profiler: makes the PROF_* directory and keeps what the operators report.
 *
 * Layout as CANN's, as far as torch_npu reads it: host/start_info and device_<n>/start_info.<n> tie the monotonic
 * clock to the time of day, device_<n>/end_info.<n> says that collection ended. What CANN keeps in binary files is
 * here one JSON line per operator in host/data/operators.jsonl, and the configuration in
 * device_<n>/simulation.json; the simulated msprof reads both.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

enum { REPEAT_INIT = 100041, NOT_STARTED = 100045 };

typedef struct {
    int metrics; /* aclprofAicoreMetrics */
    uint64_t what;
} Config;

int sim_recording; /* read by the operators before they measure anything */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[4096]; /* the PROF_* directory; empty when not initialised */
static FILE *operators;
static int device;

static void write_text(const char *where, const char *text) {
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", root, where);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fputs(text, file);
    fclose(file);
}

static void make_directory(const char *where) {
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", root, where);
    mkdir(path, 0750);
}

int aclprofInit(const char *path, size_t length) {
    static int number;
    struct timeval now;
    struct tm local;
    char stamp[32], letters[17];
    if (!path || !length) return INVALID_PARAM;
    if (root[0]) return REPEAT_INIT;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &local);
    uint64_t seed = ((uint64_t)getpid() << 32) ^ (uint64_t)sim_clock_ns(CLOCK_MONOTONIC_RAW);
    for (int i = 0; i < 16; i++, seed = seed * 6364136223846793005u + 1442695040888963407u)
        letters[i] = (char)('A' + (seed >> 33) % 26);
    letters[16] = 0;
    snprintf(root, sizeof root, "%.*s/PROF_%06d_%s%03d_%s", (int)length, path, ++number, stamp,
             (int)(now.tv_usec / 1000), letters);
    if (mkdir(root, 0750)) {
        root[0] = 0;
        return INVALID_PARAM;
    }
    make_directory("host");
    make_directory("host/data");
    return OK;
}

void *aclprofCreateConfig(uint32_t *devices, uint32_t count, int metrics, void *events, uint64_t what) {
    (void)devices, (void)count, (void)events;
    Config *config = malloc(sizeof *config);
    if (config) *config = (Config){metrics, what};
    return config;
}

int aclprofDestroyConfig(void *config) {
    free(config);
    return OK;
}

int aclprofStart(const void *config) {
    char where[64], text[256];
    const Config *asked = config;
    if (!root[0] || !asked) return INVALID_PARAM;
    pthread_mutex_lock(&lock);
    device = sim_current_logic_id();
    snprintf(where, sizeof where, "device_%d", device);
    make_directory(where);
    snprintf(where, sizeof where, "device_%d/data", device);
    make_directory(where);
    int64_t epoch = sim_clock_ns(CLOCK_REALTIME), raw = sim_clock_ns(CLOCK_MONOTONIC_RAW);
    snprintf(text, sizeof text, "{\"collectionTimeBegin\": \"%lld\", \"clockMonotonicRaw\": \"%lld\"}\n",
             (long long)(epoch / 1000), (long long)raw);
    write_text("host/start_info", text);
    snprintf(where, sizeof where, "device_%d/start_info.%d", device, device);
    write_text(where, text);
    snprintf(text, sizeof text, "{\"pid\": %d, \"device\": %d, \"soc\": \"%s\", \"metrics\": %d, \"what\": %llu}\n",
             (int)getpid(), device, aclrtGetSocName(), asked->metrics, (unsigned long long)asked->what);
    snprintf(where, sizeof where, "device_%d/simulation.json", device);
    write_text(where, text);
    char path[8192];
    snprintf(path, sizeof path, "%s/host/data/operators.jsonl", root);
    operators = fopen(path, "a");
    sim_recording = operators != NULL;
    pthread_mutex_unlock(&lock);
    return operators ? OK : INVALID_PARAM;
}

int aclprofStop(const void *config) {
    char where[64], text[256];
    (void)config;
    pthread_mutex_lock(&lock);
    sim_recording = 0;
    if (!operators) {
        pthread_mutex_unlock(&lock);
        return NOT_STARTED;
    }
    fclose(operators);
    operators = NULL;
    snprintf(text, sizeof text, "{\"collectionTimeEnd\": \"%lld\", \"clockMonotonicRaw\": \"%lld\"}\n",
             (long long)(sim_clock_ns(CLOCK_REALTIME) / 1000), (long long)sim_clock_ns(CLOCK_MONOTONIC_RAW));
    snprintf(where, sizeof where, "device_%d/end_info.%d", device, device);
    write_text(where, text);
    pthread_mutex_unlock(&lock);
    return OK;
}

int aclprofFinalize(void) {
    aclprofStop(NULL);
    root[0] = 0;
    return OK;
}

/* One operator, as a line of JSON without its line end. */
void sim_record(const char *line) {
    pthread_mutex_lock(&lock);
    if (operators) {
        fputs(line, operators);
        fputc('\n', operators);
    }
    pthread_mutex_unlock(&lock);
}
