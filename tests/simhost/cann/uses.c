/* The log of device use, $SIMHOST/use.log: a line "open <pid> <phy> <seconds> <pid that had it open, or ->" and, of a
 * process that is not killed, "close <pid> <phy> <seconds>"; seconds of CLOCK_MONOTONIC. While a device is open its
 * file in $SIMHOST/in-use is locked, so that the kernel knows, also of killed processes, who has it open.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

enum { MAX_PHYS = 64 };

static int locks[MAX_PHYS]; /* descriptor + 1, by physical id */

/* The number of this process on the host: a container with pids of its own has the host's procfs in $SIMHOST/proc. */
pid_t sim_pid(const char *simhost) {
    char path[4096], pid[32];
    snprintf(path, sizeof path, "%s/proc/self", simhost);
    ssize_t length = readlink(path, pid, sizeof pid - 1);
    if (length <= 0) return getpid();
    pid[length] = 0;
    return atoi(pid);
}

/* Who holds the lock of a file, by the host's table of locks where that is another; `pid` elsewhere. */
static int locker(const char *simhost, int file, int pid) {
    char path[4096], line[256], name[64], kind[16], found[64];
    struct stat about;
    snprintf(path, sizeof path, "%s/proc/locks", simhost);
    FILE *table = fopen(path, "r");
    if (!table || fstat(file, &about)) return pid;
    snprintf(name, sizeof name, "%02x:%02x:%llu", major(about.st_dev), minor(about.st_dev),
             (unsigned long long)about.st_ino);
    for (pid = 0; !pid && fgets(line, sizeof line, table);) {
        int holder;
        if (sscanf(line, "%*s %15s %*s %*s %d %63s", kind, &holder, found) == 3 && !strcmp(kind, "POSIX") &&
            !strcmp(found, name)) {
            pid = holder;
        }
    }
    fclose(table);
    return pid;
}

static void note(const char *simhost, const char *what, int phy, const char *more) {
    char path[4096], line[128];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s/use.log", simhost);
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log < 0) return;
    int length = snprintf(line, sizeof line, "%s %d %d %lld.%06ld%s\n", what, (int)sim_pid(simhost), phy,
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
            snprintf(more, sizeof more, " %d", locker(simhost, file, (int)wanted.l_pid));
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
