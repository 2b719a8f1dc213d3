/* A libcuda.so.1 for tests.
 *
 *   FAKE_CUDA_LOAD_SLEEP=1, FAKE_CUDA_HANG=1 (in cuInit), FAKE_CUDA_CRASH=1 (in cuInit)
 *   FAKE_CUDA_INIT=code, FAKE_CUDA_COUNT=code
 *   FAKE_HANGING=file: created before a hang
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

static void hang(void) {
    const char *path = getenv("FAKE_HANGING");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) fclose(file);
    /* The parent of a vfork waits in the kernel, in state D, as a call in a driver that hangs. */
    if (getenv("FAKE_HANG_IN_KERNEL") && vfork() == 0) for (;;) pause();
    for (;;) pause();
}

__attribute__((constructor)) static void load(void) {
    if (getenv("FAKE_CUDA_LOAD_SLEEP")) hang();
}

int cuInit(unsigned int flags) {
    (void)flags;
    if (getenv("FAKE_CUDA_HANG")) hang();
    if (getenv("FAKE_CUDA_CRASH")) raise(SIGSEGV);
    return number("FAKE_CUDA_INIT", 0);
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = 2;
    return number("FAKE_CUDA_COUNT", 0);
}

int cuGetErrorName(int code, const char **text) {
    *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : NULL;
    return *text ? 0 : 1;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == 802 ? "system not yet initialized" : NULL;
    return *text ? 0 : 1;
}
