/* Delays every fsync and fdatasync of the process that it is preloaded into.
 *
 * SLOW_DISK_FILE names a file; while it exists, each call waits the milliseconds in it first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
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
