// What a benchmark counts besides time: allocations and, under valgrind, instructions.
#pragma once
#include <stdint.h>

/// How often memory has been allocated since the process began, by all threads: malloc, calloc, realloc and their aligned relatives.
uint64_t meter_allocations(void);

/// From here on callgrind counts instructions, of all threads. Nothing without it.
void meter_begin(void);

/// Ends what meter_begin began, and lets callgrind write what it has counted into a file of its own, under this name.
void meter_end(const char *name);
