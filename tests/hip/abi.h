/* What the parts of the judge share: counting checks, fixtures, uploads, and a kernel that every part knows. */
#pragma once
#include "hip64.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int checks;
extern const char *fixtures;

#define HOLDS(condition)                                                                                                               \
    do {                                                                                                                               \
        checks++;                                                                                                                      \
        if (!(condition)) {                                                                                                            \
            fprintf(stderr, "%s line %d: %s\n", __FILE__, __LINE__, #condition);                                                        \
            exit(1);                                                                                                                   \
        }                                                                                                                              \
    } while (0)
#define STATUS(call, expected)                                                                                                         \
    do {                                                                                                                               \
        checks++;                                                                                                                      \
        int status_ = (call);                                                                                                          \
        if (status_ != (int)(expected)) {                                                                                              \
            fprintf(stderr, "%s line %d: %s gave %d (%s), not %s\n", __FILE__, __LINE__, #call, status_, hipGetErrorName(status_),      \
                    #expected);                                                                                                        \
            exit(1);                                                                                                                   \
        }                                                                                                                              \
    } while (0)
#define OK(call) STATUS(call, hipSuccess)

/* A file of the fixtures, to be freed. */
void *read_file(const char *name);
/* A kernel of a code object of the fixtures. */
hipFunction_t kernel(const char *object, const char *name, hipModule_t *module);
/* Device memory with these bytes. */
void *uploaded(const void *data, size_t bytes);

/* collatz(in: *const u32, out: *mut u32 pairs, n: u32); tests/fixtures/kernels/collatz__a: 90 numbers, 3 workgroups of 64. */
struct collatz {
    void *in, *out;
    uint32_t n;
};

void host_memory(void);
void boxes(void);
void callbacks(void);
void kernels(void);
void registered(void);
void captured(void);
void by_hand(void);
void misuse(void);
