/* What a network disk, or a bind mount from elsewhere, says of the files below $ODD_DISK: preloaded into every program of
   a session.  $ODD_DISK_SAYS is "foreign" (they belong to nobody), "open" (anybody may write to them) or "unlockable". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int says(const char *what) {
    const char *said = getenv("ODD_DISK_SAYS");
    return said && strcmp(said, what) == 0;
}

static int inside(const char *path) {
    const char *disk = getenv("ODD_DISK");
    return disk && path && strncmp(path, disk, strlen(disk)) == 0;
}

static int inside_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

/* On 64-bit machines a struct stat64 is a struct stat. */
static int told(int result, int odd, void *found) {
    struct stat *file = found;
    if (result == 0 && odd) {
        if (says("foreign")) file->st_uid = file->st_gid = 65534;
        if (says("open")) file->st_mode |= 0022;
    }
    return result;
}

#define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

/* Programs that are built for large files use the second name of each. */
#define STATS(suffix)                                                                               \
    int stat##suffix(const char *path, struct stat##suffix *found) {                                \
        return told(REAL("stat" #suffix, const char *, void *)(path, found), inside(path), found);  \
    }                                                                                               \
    int fstat##suffix(int fd, struct stat##suffix *found) {                                         \
        return told(REAL("fstat" #suffix, int, void *)(fd, found), inside_fd(fd), found);           \
    }                                                                                               \
    int fstatat##suffix(int at, const char *path, struct stat##suffix *found, int flags) {          \
        int (*real)(int, const char *, void *, int) = dlsym(RTLD_NEXT, "fstatat" #suffix);          \
        return told(real(at, path, found, flags), inside(path), found);                             \
    }

STATS()
STATS(64)

static int locks(int fd, int command) {
    return (command == F_SETLK || command == F_SETLKW) && says("unlockable") && inside_fd(fd);
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    long argument = va_arg(rest, long);
    va_end(rest);
    if (locks(fd, command)) { errno = ENOLCK; return -1; }
    return REAL("fcntl", int, int, long)(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    long argument = va_arg(rest, long);
    va_end(rest);
    if (locks(fd, command)) { errno = ENOLCK; return -1; }
    return REAL("fcntl64", int, int, long)(fd, command, argument);
}
