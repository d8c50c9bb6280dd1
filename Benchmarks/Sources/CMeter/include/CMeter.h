// What a benchmark counts besides time: allocations and, under valgrind, instructions.
#pragma once
#include <stdint.h>

/// The number of allocations since the process began, by all threads: malloc, calloc, realloc and
/// their aligned variants.
uint64_t meter_allocations(void);

/// From here on callgrind counts the instructions of all threads. Without callgrind it has no
/// effect.
void meter_begin(void);

/// Ends what meter_begin began. callgrind writes its counts into a file of its own under this name.
void meter_end(const char *name);
