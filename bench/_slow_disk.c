/* Delays every sync of the process that it is preloaded into: fsync, fdatasync, synced writes.
 *
 * SLOW_DISK_FILE names a file; while it exists, each call waits the milliseconds in it first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_first(void) {
    const char *path = getenv("SLOW_DISK_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    long milliseconds = 0;
    if (file == NULL) return;
    if (fscanf(file, "%ld", &milliseconds) == 1) usleep((useconds_t)(milliseconds * 1000));
    fclose(file);
}

int fsync(int descriptor) {
    wait_first();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}

int fdatasync(int descriptor) {
    wait_first();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}

/* Under the name that programs with 64-bit offsets call it by. */
ssize_t pwritev64v2(int descriptor, const struct iovec *pieces, int count, off64_t at, int flags) {
    typedef ssize_t (*write_pieces)(int, const struct iovec *, int, off64_t, int);
    if (flags & (RWF_SYNC | RWF_DSYNC)) wait_first();
    return ((write_pieces)dlsym(RTLD_NEXT, "pwritev64v2"))(descriptor, pieces, count, at, flags);
}
