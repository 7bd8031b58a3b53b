/* The log of device use, $SIMHOST/use.log: a line "open <pid> <phy> <seconds> <pid that had it open, or ->" and, of a
 * process that is not killed, "close <pid> <phy> <seconds>"; seconds of CLOCK_MONOTONIC. While a device is open its
 * file in $SIMHOST/in-use is locked, so that the kernel knows, also of killed processes, who has it open.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

enum { MAX_PHYS = 64 };

static int locks[MAX_PHYS]; /* descriptor + 1, by physical id */

static void note(const char *simhost, const char *what, int phy, const char *more) {
    char path[4096], line[128];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s/use.log", simhost);
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log < 0) return;
    int length = snprintf(line, sizeof line, "%s %d %d %lld.%06ld%s\n", what, (int)getpid(), phy,
                          (long long)now.tv_sec, now.tv_nsec / 1000, more);
    if (write(log, line, (size_t)length) < 0) perror(path);
    close(log);
}

void sim_note_open(const char *simhost, int phy) {
    char path[4096], more[32] = " -";
    if (!simhost || phy < 0 || phy >= MAX_PHYS) return;
    snprintf(path, sizeof path, "%s/in-use", simhost);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/in-use/%d", simhost, phy);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return;
    for (;;) {
        struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(file, F_SETLK, &wanted) == 0 || (errno != EAGAIN && errno != EACCES)) break;
        if (fcntl(file, F_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK) {
            snprintf(more, sizeof more, " %d", (int)wanted.l_pid);
            break;
        }
    }
    locks[phy] = file + 1;
    note(simhost, "open", phy, more);
}

void sim_note_close(const char *simhost, int phy) {
    if (!simhost || phy < 0 || phy >= MAX_PHYS || !locks[phy]) return;
    note(simhost, "close", phy, "");
    close(locks[phy] - 1);
    locks[phy] = 0;
}
