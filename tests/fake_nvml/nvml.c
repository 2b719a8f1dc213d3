/* A libnvidia-ml.so.1 for tests: two H200s, and the faults that the environment requests.
 *
 *   FAKE_COUNT, FAKE_NAME, FAKE_CAPABILITY=9.0, FAKE_MEMORY_MIB: other GPUs, at most eight
 *   FAKE_LOAD_SLEEP=1        the constructor never returns, like a hung driver
 *   FAKE_HANG=function[@gpu] the call never returns
 *   FAKE_CRASH=function[@gpu]
 *   FAKE_FAIL=function[@gpu]:code,...
 *   FAKE_REMAP_FAILED, FAKE_REMAP_PENDING, FAKE_UNCORRECTED, FAKE_CORRECTED, FAKE_ACTION,
 *   FAKE_PERSISTENCE, FAKE_CONFIDENTIAL, FAKE_MODE, FAKE_PROCESSES, FAKE_USED_MIB, FAKE_REASONS: values, FAKE_MIG=1: two slices
 *   FAKE_PROCESSES_ON=gpu: only there, FAKE_PIDS=12,34: their ids, with 2 GiB each
 *   FAKE_LISTED=file: created when the processes are listed
 *   FAKE_MORE_UNCORRECTED, FAKE_MORE_CORRECTED, FAKE_MORE_REMAPPED, FAKE_MORE_REPLAYS,
 *   FAKE_MORE_NVLINK_ERRORS: added once the clocks have been sampled
 *   FAKE_NVLINK_5: the errors of the links are fields, as on Blackwell
 *   FAKE_NVLINKS=1101: states of the links, FAKE_XIDS=79,13: events of GPU 0 after a sample
 *   FAKE_SAMPLED=file: created when the clocks are sampled, FAKE_HANGING=file: before a hang
 *   FAKE_LINK_GEN, FAKE_LINK_WIDTH: the PCIe link under load; idle it is at generation 1
 *
 * -DOLD omits what drivers before 570 lack, -DANCIENT what still older ones lack.
 * MEMORY_V2, FIELD_VALUE, PROCESS_INFO, PCI_INFO, EVENT_DATA and CONF_COMPUTE are the sizes that
 * the binding uses.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef struct device { int gpu, slice; } *nvmlDevice_t;

enum {
    OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, VERSION = 25
};

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType;
    nvmlReturn_t nvmlReturn;
    union { double dVal; unsigned int uiVal; unsigned long long ullVal; } value;
} nvmlFieldValue_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct { unsigned int environment, ccFeature, devToolsMode; } nvmlConfComputeSystemState_t;

_Static_assert(sizeof(nvmlConfComputeSystemState_t) == CONF_COMPUTE, "confidential computing");
_Static_assert(sizeof(nvmlEventData_t) == EVENT_DATA, "event");
_Static_assert(sizeof(nvmlMemory_v2_t) == MEMORY_V2, "memory");
_Static_assert(sizeof(nvmlPciInfo_t) == PCI_INFO, "pci");
_Static_assert(sizeof(nvmlProcessInfo_t) == PROCESS_INFO, "process");
_Static_assert(sizeof(nvmlFieldValue_t) == FIELD_VALUE, "field");

static struct device GPUS[8] = {{0, -1}, {1, -1}, {2, -1}, {3, -1},
                                {4, -1}, {5, -1}, {6, -1}, {7, -1}};
static struct device SLICES[2] = {{0, 0}, {0, 1}};

static const unsigned long long MIB = 1024ull * 1024;

static unsigned long long number(const char *name, unsigned long long otherwise) {
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

static unsigned long long total(void) { return number("FAKE_MEMORY_MIB", 143771) * MIB; }

static const char *name_of(void) {
    const char *name = getenv("FAKE_NAME");
    return name ? name : "NVIDIA H200";
}

static int busy; /* the clocks have been sampled: from now on there is load */

static unsigned long long counter(const char *name, const char *more) {
    return number(name, 0) + (busy ? number(more, 0) : 0);
}

/* Whether NAME lists this function, and this GPU if it names one; what follows the colon. */
static int requested(const char *name, const char *function, int gpu, int *code) {
    const char *value = getenv(name);
    char list[1024], *rest = list, *entry;
    if (!value) return 0;
    snprintf(list, sizeof list, "%s", value);
    while ((entry = strsep(&rest, ","))) {
        char *colon = strchr(entry, ':'), *at;
        if (colon) *colon++ = 0;
        at = strchr(entry, '@');
        if (at) *at++ = 0;
        if (strcmp(entry, function) || (at && atoi(at) != gpu)) continue;
        if (code && colon) *code = atoi(colon);
        return 1;
    }
    return 0;
}

static void create(const char *path) {
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) fclose(file);
}

static void hang(void) {
    create(getenv("FAKE_HANGING"));
    /* The parent of a vfork waits in the kernel, in state D, as a call in a driver that hangs. */
    if (getenv("FAKE_HANG_IN_KERNEL") && vfork() == 0) for (;;) pause();
    for (;;) pause();
}

static nvmlReturn_t fault(const char *function, int gpu) {
    int code = OK;
    if (requested("FAKE_HANG", function, gpu, NULL)) hang();
    if (requested("FAKE_CRASH", function, gpu, NULL)) raise(SIGSEGV);
    requested("FAKE_FAIL", function, gpu, &code);
    return code;
}

#define ENTER(gpu)                                         \
    do {                                                   \
        nvmlReturn_t wrong = fault(__func__, gpu);       \
        if (wrong) return wrong;                           \
    } while (0)

__attribute__((constructor)) static void load(void) {
    if (getenv("FAKE_LOAD_SLEEP")) hang();
}

const char *nvmlErrorString(nvmlReturn_t code) {
    return code == 888 ? "An error that no binding knows" : "Unknown Error";
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    ENTER(-1);
    return OK;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    ENTER(-1);
    snprintf(version, length, "13.580.159");
    return OK;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    ENTER(-1);
    snprintf(version, length, "580.95.05");
    return OK;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    ENTER(-1);
    *version = 13000;
    return OK;
}

#ifndef ANCIENT
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    ENTER(-1);
    *version = 13000;
    return OK;
}
#endif

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER(-1);
    *count = (unsigned int)number("FAKE_COUNT", 2);
    return OK;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    ENTER((int)index);
    if (index >= number("FAKE_COUNT", 2) || index > 7) return INVALID;
    *device = &GPUS[index];
    return OK;
}

static void uuid_of(nvmlDevice_t device, char *uuid, unsigned int length) {
    snprintf(uuid, length, "%s-%d000000%d-1111-2222-3333-444444444444",
             device->slice < 0 ? "GPU" : "MIG", device->slice + 1, device->gpu);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    ENTER(device->gpu);
    uuid_of(device, uuid, length);
    return OK;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    ENTER(-1);
    for (int i = 0; i < 10; i++) {
        char known[96];
        *device = i < 8 ? &GPUS[i] : &SLICES[i - 8];
        uuid_of(*device, known, sizeof known);
        if (!strcmp(known, uuid)) return OK;
    }
    return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    ENTER(device->gpu);
    snprintf(name, length, device->slice < 0 ? "%s" : "%s MIG 1g.18gb", name_of());
    return OK;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ENTER(device->gpu);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%d9:00.0", device->gpu + 1);
    pci->pciDeviceId = (unsigned int)number("FAKE_PCI_ID", 0x2335) << 16 | 0x10DE;
    return OK;
}

typedef struct { unsigned int max, high, partial, low, none; } nvmlRowRemapperHistogramValues_t;

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                               nvmlRowRemapperHistogramValues_t *banks) {
    ENTER(device->gpu);
    memset(banks, 0, sizeof *banks);
    banks->max = 2560 - (unsigned int)number("FAKE_BANKS_USED", 0);
    banks->none = (unsigned int)number("FAKE_BANKS_USED", 0);
    return OK;
}

typedef struct {
    unsigned int version;
    unsigned long counts[11];
    unsigned int exceeded;
} nvmlEccSramErrorStatus_t;

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                             nvmlEccSramErrorStatus_t *status) {
    ENTER(device->gpu);
    if (status->version != (sizeof *status | 1 << 24)) return VERSION;
    status->exceeded = (unsigned int)number("FAKE_SRAM", 0);
    return OK;
}

typedef struct {
    unsigned int version;
    unsigned char cluster[16];
    unsigned int status, clique, state, health;
} nvmlGpuFabricInfo_t;

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_t *fabric) {
    ENTER(device->gpu);
    if (fabric->version != (sizeof *fabric | 2 << 24)) return VERSION;
    fabric->state = (unsigned int)number("FAKE_FABRIC", 3);
    fabric->status = (unsigned int)number("FAKE_FABRIC_ERROR", 0);
    return OK;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores) {
    ENTER(device->gpu);
    *cores = (unsigned int)number("FAKE_CORES", 132 * 128);
    return OK;
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length) {
    const char *given = getenv("FAKE_VBIOS_VERSION");
    ENTER(device->gpu);
    snprintf(version, length, "%s", given ? given : "96.00.74.00.01");
    return OK;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *milliwatts) {
    ENTER(device->gpu);
    *milliwatts = (unsigned int)number("FAKE_POWER_LIMIT", 700000);
    return OK;
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *milliwatts) {
    ENTER(device->gpu);
    *milliwatts = 700000;
    return OK;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int kind, unsigned int *megahertz) {
    ENTER(device->gpu);
    if (kind != 1) return INVALID;
    *megahertz = busy ? (unsigned int)number("FAKE_CLOCK", 1980) : 345;
    return OK;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    ENTER(device->gpu);
    const char *capability = getenv("FAKE_CAPABILITY");
    *major = 9;
    *minor = 0;
    if (capability) sscanf(capability, "%d.%d", major, minor);
    return OK;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ENTER(device->gpu);
    memory->total = total();
    memory->used = 600 * MIB;
    memory->free = memory->total - memory->used;
    return OK;
}

#ifndef ANCIENT
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    ENTER(device->gpu);
    if (memory->version != (sizeof *memory | (2u << 24))) return VERSION;
    memory->total = device->slice < 0 ? total() : total() / 8;
    memory->reserved = 600 * MIB;
    memory->used = number("FAKE_USED_MIB", 4) * MIB;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}
#endif

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode) {
    ENTER(device->gpu);
    *mode = (unsigned int)number("FAKE_MODE", 0);
    return OK;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode) {
    ENTER(device->gpu);
    *mode = (unsigned int)number("FAKE_PERSISTENCE", 1);
    return OK;
}

#ifndef OLD
nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state) {
    ENTER(-1);
    memset(state, 0, sizeof *state);
    state->ccFeature = (unsigned int)number("FAKE_CONFIDENTIAL", 0);
    return OK;
}
#endif

static nvmlReturn_t list(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *found) {
    const char *pids = getenv("FAKE_PIDS");
    unsigned int room = *count, there = (unsigned int)number("FAKE_PROCESSES", 0);
    for (const char *p = pids; p; p = strchr(p + 1, ',')) there++;
    create(getenv("FAKE_LISTED"));
    if (number("FAKE_PROCESSES_ON", device->gpu) != (unsigned)device->gpu) there = 0;
    *count = there;
    if (there == 0) return OK;
    if (!found || room < there) return TOO_SMALL;
    for (unsigned int i = 0; i < there; i++) {
        memset(&found[i], 0, sizeof found[i]);
        found[i].pid = 4000 + i;
        if (!pids) continue;
        found[i].pid = (unsigned int)atoi(pids + (*pids == ','));
        found[i].usedGpuMemory = 2048 * MIB;
        pids = strchr(pids + 1, ',');
    }
    return OK;
}

#ifndef ANCIENT
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *found) {
    ENTER(device->gpu);
    return list(device, count, found);
}
#endif

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *found) {
    ENTER(device->gpu);
    return list(device, count, found);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, unsigned int *active) {
    ENTER(device->gpu);
    *active = (unsigned int)number("FAKE_DISPLAY", 0);
    return OK;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending) {
    ENTER(device->gpu);
    *now = *pending = device->gpu == 0 && getenv("FAKE_MIG");
    return OK;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    ENTER(device->gpu);
    *count = 7;
    return OK;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *part) {
    ENTER(device->gpu);
    if (index > 1) return NOT_FOUND;
    *part = &SLICES[index];
    return OK;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t part, nvmlDevice_t *device) {
    ENTER(part->gpu);
    *device = &GPUS[part->gpu];
    return OK;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending) {
    ENTER(device->gpu);
    *now = *pending = 1;
    return OK;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int kind,
                                         unsigned int span, unsigned long long *count) {
    ENTER(device->gpu);
    if (span != 0) return INVALID; /* volatile only */
    if (device->gpu) *count = 0;
    else if (kind) *count = counter("FAKE_UNCORRECTED", "FAKE_MORE_UNCORRECTED");
    else *count = counter("FAKE_CORRECTED", "FAKE_MORE_CORRECTED");
    return OK;
}

#ifndef ANCIENT
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
                                       unsigned int *uncorrected, unsigned int *pending,
                                       unsigned int *failed) {
    ENTER(device->gpu);
    if (device->gpu == 0 && getenv("FAKE_MIG")) return NOT_SUPPORTED;
    *corrected = 0;
    *uncorrected = 1 + (device->gpu ? 0 : (unsigned int)counter("", "FAKE_MORE_REMAPPED"));
    *pending = device->gpu ? 0 : (unsigned int)number("FAKE_REMAP_PENDING", 0);
    *failed = device->gpu ? 0 : (unsigned int)number("FAKE_REMAP_FAILED", 0);
    return OK;
}
#endif

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int *pending) {
    ENTER(device->gpu);
    (void)pending;
    return NOT_SUPPORTED; /* rows are remapped instead since Ampere */
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    ENTER(device->gpu);
    for (int i = 0; i < count; i++) {
#if defined(OLD) || defined(ANCIENT)
        values[i].nvmlReturn = NOT_SUPPORTED;
#else
        int of_link = values[i].fieldId >= 206 && values[i].fieldId <= 215;
        values[i].nvmlReturn = values[i].fieldId == 230 || (of_link && getenv("FAKE_NVLINK_5")) ? OK : INVALID;
        values[i].valueType = of_link ? 3 : 1;
        if (of_link) {
            int first = !device->gpu && !values[i].scopeId && values[i].fieldId == 215;
            values[i].value.ullVal = first ? counter("", "FAKE_MORE_NVLINK_ERRORS") : 0;
            continue;
        }
        values[i].value.ullVal = 0;
        values[i].value.uiVal = device->gpu ? 0 : (unsigned int)number("FAKE_ACTION", 0);
#endif
    }
    return OK;
}

#if !defined(OLD) && !defined(ANCIENT)
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long *reasons) {
    create(getenv("FAKE_SAMPLED"));
    ENTER(device->gpu);
    if (device->slice >= 0) return NOT_SUPPORTED;
    busy = 1;
    *reasons = number("FAKE_REASONS", 1);
    return OK;
}
#endif

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long *reasons) {
    create(getenv("FAKE_SAMPLED"));
    ENTER(device->gpu);
    if (device->slice >= 0) return NOT_SUPPORTED;
    busy = 1;
    *reasons = number("FAKE_REASONS", 1);
    return OK;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *degrees) {
    ENTER(device->gpu);
    if (sensor != 0) return INVALID;
    *degrees = busy ? 71 : 34;
    return OK;
}

#ifndef OLD
typedef struct { unsigned int version; int sensor, degrees; } nvmlTemperature_t;

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
    ENTER(device->gpu);
    if (temperature->version != (sizeof *temperature | 1 << 24)) return VERSION;
    if (temperature->sensor != 0) return INVALID;
    temperature->degrees = busy ? 72 : 35;
    return OK;
}
#endif

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation) {
    ENTER(device->gpu);
    *generation = busy ? (unsigned int)number("FAKE_LINK_GEN", 5) : 1;
    return OK;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width) {
    ENTER(device->gpu);
    *width = (unsigned int)number("FAKE_LINK_WIDTH", 16);
    return OK;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation) {
    ENTER(device->gpu);
    *generation = 5;
    return OK;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width) {
    ENTER(device->gpu);
    *width = 16;
    return OK;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *count) {
    ENTER(device->gpu);
    *count = device->gpu ? 0 : (unsigned int)counter("", "FAKE_MORE_REPLAYS");
    return OK;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, int *active) {
    const char *links = getenv("FAKE_NVLINKS");
    ENTER(device->gpu);
    if (!links) return NOT_SUPPORTED;
    if (link >= strlen(links)) return INVALID;
    *active = links[link] == '1';
    return OK;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, int kind,
                                             unsigned long long *count) {
    ENTER(device->gpu);
    if (getenv("FAKE_NVLINK_5")) return NOT_SUPPORTED;
    *count = device->gpu || link || kind ? 0 : counter("", "FAKE_MORE_NVLINK_ERRORS");
    return OK;
}

nvmlReturn_t nvmlEventSetCreate(void **set) {
    static int any;
    ENTER(-1);
    *set = &any;
    return OK;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long kinds, void *set) {
    (void)set;
    ENTER(device->gpu);
    return kinds == 8 ? OK : NOT_SUPPORTED;
}

#ifndef ANCIENT
nvmlReturn_t nvmlEventSetWait_v2(void *set, nvmlEventData_t *data, unsigned int timeout) {
    static const char *rest;
    static int begun;
    char *end;
    (void)set;
    ENTER(-1);
    if (busy && !begun++) rest = getenv("FAKE_XIDS");
    if (!rest || !*rest) {
        usleep(timeout * 1000);
        return TIMEOUT;
    }
    memset(data, 0, sizeof *data);
    data->device = &GPUS[0];
    data->eventType = 8;
    data->eventData = strtoull(rest, &end, 10);
    rest = *end == ',' ? end + 1 : end;
    return OK;
}
#endif
