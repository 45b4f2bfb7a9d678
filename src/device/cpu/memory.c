/* memory.c: how much memory the machine has, and how much of it is left. */
#include "device/cpu/cpu.h"

#include <unistd.h>
#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

#ifdef __linux__
/* MemAvailable counts what the kernel would drop from its caches, which free pages do not. */
static bool read_meminfo(loam_device_memory *out)
{
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f)
        return false;
    char line[128];
    unsigned long long kib;
    bool has_total = false, has_free = false;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1) {
            out->total_bytes = (size_t)kib * 1024;
            has_total = true;
        } else if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            out->free_bytes = (size_t)kib * 1024;
            has_free = true;
        }
    }
    fclose(f);
    return has_total && has_free;
}
#endif

void loam_cpu_memory(loam_device_memory *out)
{
    *out = (loam_device_memory){0};
#ifdef __APPLE__
    uint64_t total = 0;
    size_t size = sizeof total;
    if (sysctlbyname("hw.memsize", &total, &size, NULL, 0) == 0)
        out->total_bytes = (size_t)total;
    vm_statistics64_data_t vm;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&vm, &count) ==
        KERN_SUCCESS)
        out->free_bytes = ((size_t)vm.free_count + vm.inactive_count) * (size_t)getpagesize();
    return;
#else
#ifdef __linux__
    if (read_meminfo(out))
        return;
#endif
    long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
    if (page > 0 && pages > 0)
        out->total_bytes = out->free_bytes = (size_t)page * (size_t)pages;
#endif
}
