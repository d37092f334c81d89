#include "kernels/base/library.h"

#include <dlfcn.h>
#include <stdio.h>

bool library_load(void *calls, const char *file, const struct library_entry *entries, size_t n, struct library_advice install, char *reason, size_t room)
{
    char elsewhere[256];
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    snprintf(elsewhere, sizeof elsewhere, "/usr/local/cuda/lib64/%s", file);
    if (!library && !(library = dlopen(elsewhere, RTLD_NOW | RTLD_LOCAL))) {
        snprintf(reason, room, "%s can't be opened (%.80s): install %s, or add its folder to LD_LIBRARY_PATH", file, dlerror(), install.missing);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        void *entry = dlsym(library, entries[i].name);

        if (!entry) {
            snprintf(reason, room, "%s lacks %s: install %s", file, entries[i].name, install.lacking);
            return false;
        }
        *(void **)((char *)calls + entries[i].at) = entry;
    }
    return true;
}
