/* A shared library that is opened at run time, so that one program also starts where it is not installed. */
#ifndef PAWL_BASE_LIBRARY_H
#define PAWL_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* A function by its name, and where in a struct of function pointers it goes. */
struct library_entry {
    const char *name;
    size_t at;
};

/* What to install, for people: where the library is missing, and where it lacks a function. */
struct library_advice {
    const char *missing, *lacking;
};

/* Fills calls from `file`, looked for where the system looks and in /usr/local/cuda/lib64. False: reason (room bytes) says why not and what to do. The library stays open. */
bool library_load(void *calls, const char *file, const struct library_entry *entries, size_t n, struct library_advice install, char *reason, size_t room);

#endif
