/* NVIDIA's management library with two devices, which notes each call in a file: its name and the process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note(const char *name) {
    FILE *log = fopen(getenv("FAKE_NVML_LOG"), "a");
    fprintf(log, "%s %d\n", name, (int)getpid());
    fclose(log);
}

static int initialised = 0;

#define UNINITIALIZED 1
#define NOT_SUPPORTED 3
#define CHECK(name) note(name); if (!initialised) return UNINITIALIZED

struct memory { unsigned long long total, free, used; };
struct rates { unsigned int gpu, memory; };

int nvmlInitWithFlags(unsigned int flags) { note("nvmlInitWithFlags"); initialised++; return 0; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { CHECK("nvmlShutdown"); initialised--; return 0; }
const char *nvmlErrorString(int error) { return "an error"; }
int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    CHECK("nvmlSystemGetDriverVersion");
    strncpy(version, "555.42.06", length);
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned int *count) { CHECK("nvmlDeviceGetCount"); *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    CHECK("nvmlDeviceGetHandleByIndex");
    *device = (void *)(unsigned long)(index + 1);
    return 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
    CHECK("nvmlDeviceGetUUID");
    snprintf(uuid, length, "GPU-%lu", (unsigned long)device);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    CHECK("nvmlDeviceGetMemoryInfo");
    memory->total = (unsigned long)device << 30;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates) {
    CHECK("nvmlDeviceGetUtilizationRates");
    if (device != (void *)1) return NOT_SUPPORTED;
    rates->gpu = 75;
    return 0;
}
