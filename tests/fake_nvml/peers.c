/* A libcuda.so.1 for tests of copies between GPUs: device memory is a file in FAKE_MEMORY that the
 * processes of all GPUs map.
 *
 *   FAKE_P2P=none            the GPUs cannot reach each other
 *   FAKE_P2P=lost            what a GPU stores into another's memory never gets there
 *   FAKE_P2P=garbled         every 1024th element gets there with another value
 *   FAKE_P2P=hang, crash     the first store never returns, or kills the process
 *   FAKE_HANGING=file        created before a hang
 *   FAKE_P2P_FAIL=function:code
 *   FAKE_P2P_FROM=index      only stores of this GPU; all by default
 *   FAKE_COUNT               GPUs there are
 *   FAKE_CONTEXTS=file       a line of JSON is appended for each context
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct { char reserved[64]; } handle_t;

enum { OK = 0, INVALID = 1, NO_MEMORY = 2 };
static int self = -1;
static struct { uint64_t address; size_t size; char name[64]; } own[4];
static int owned;
static uint64_t theirs;
static size_t their_size;

static int trouble(const char *function) {
    const char *value = getenv("FAKE_P2P_FAIL");
    size_t length = strlen(function);
    if (value && !strncmp(value, function, length) && value[length] == ':')
        return atoi(value + length + 1);
    return OK;
}

#define ENTER                                \
    do {                                     \
        int wrong = trouble(__func__);       \
        if (wrong) return wrong;             \
    } while (0)

static int mode(const char *name) {
    const char *value = getenv("FAKE_P2P"), *from = getenv("FAKE_P2P_FROM");
    return value && !strcmp(value, name) && (!from || atoi(from) == self);
}

static void *map(const char *name, size_t size, int flags) {
    char path[512];
    int file;
    void *memory;
    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_MEMORY"), name);
    file = open(path, flags, 0600);
    if (file < 0 || ((flags & O_CREAT) && ftruncate(file, (off_t)size))) return NULL;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

int cuInit(unsigned int flags) { (void)flags; ENTER; return OK; }

int cuDeviceGet(int *device, int index) {
    ENTER;
    *device = index;
    if (self < 0) self = index;
    return OK;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}

int cuDeviceGetCount(int *count) {
    const char *value = getenv("FAKE_COUNT");
    *count = value ? atoi(value) : 2;
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    const char *path = getenv("FAKE_CONTEXTS");
    ENTER;
    if (path) {
        int file = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
        if (file < 0 || dprintf(file, "{\"pid\": %d, \"context\": %d}\n", getpid(), device) < 0)
            return INVALID;
        close(file);
    }
    *context = &self;
    return OK;
}

int cuCtxSetCurrent(void *context) { (void)context; ENTER; return OK; }
int cuCtxSynchronize(void) { ENTER; return OK; }

int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER;
    *can = device != peer && !mode("none");
    return OK;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    void *memory;
    ENTER;
    snprintf(own[owned].name, sizeof own[owned].name, "%d.%d:%zu", self, owned, size);
    memory = map(own[owned].name, size, O_CREAT | O_RDWR);
    if (!memory) return NO_MEMORY;
    *address = own[owned].address = (uint64_t)memory;
    own[owned++].size = size;
    return OK;
}

int cuIpcGetMemHandle(handle_t *handle, uint64_t address) {
    ENTER;
    for (int i = 0; i < owned; i++) {
        if (own[i].address != address) continue;
        memcpy(handle->reserved, own[i].name, sizeof handle->reserved);
        return OK;
    }
    return INVALID;
}

int cuIpcOpenMemHandle_v2(uint64_t *address, handle_t handle, unsigned int flags) {
    char *size = strchr(handle.reserved, ':');
    ENTER;
    if (!size || flags != 1) return INVALID;
    their_size = strtoull(size + 1, NULL, 10);
    theirs = *address = (uint64_t)map(handle.reserved, their_size, O_RDWR);
    return theirs ? OK : INVALID;
}

int cuIpcCloseMemHandle(uint64_t address) {
    ENTER;
    return munmap((void *)address, their_size) ? INVALID : OK;
}

static void hang(void) {
    int file = open(getenv("FAKE_HANGING"), O_WRONLY | O_CREAT, 0600);
    if (file >= 0) close(file);
    for (;;) pause();
}

/* Whether a store to this address may be done; stores into another's memory go astray on request. */
static int stored(uint64_t address) {
    if (address < theirs || address >= theirs + their_size) return 1;
    if (mode("hang")) hang();
    if (mode("crash")) raise(SIGSEGV);
    return !mode("lost");
}

static void garble(uint64_t address, size_t words) {
    uint32_t *memory = (uint32_t *)address;
    if (address < theirs || address >= theirs + their_size || !mode("garbled")) return;
    for (size_t i = 0; i < words; i += 1024) memory[i] ^= 1;
}

int cuMemsetD32_v2(uint64_t address, unsigned int value, size_t count) {
    uint32_t *memory = (uint32_t *)address;
    ENTER;
    if (!stored(address)) return OK;
    for (size_t i = 0; i < count; i++) memory[i] = value;
    garble(address, count);
    return OK;
}

int cuMemcpyHtoD_v2(uint64_t address, const void *from, size_t size) {
    ENTER;
    memcpy((void *)address, from, size);
    return OK;
}

int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) {
    ENTER;
    if (!stored(to)) return OK;
    memcpy((void *)to, (void *)from, size);
    garble(to, size / 4);
    return OK;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    ENTER;
    memcpy(to, (void *)from, size);
    return OK;
}

int cuGetErrorName(int code, const char **text) {
    *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : NULL;
    return *text ? OK : INVALID;
}
