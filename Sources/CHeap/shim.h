// What malloc tells of its memory. The C library's module does not have these.
#pragma once
#include <malloc.h>
#include <stddef.h>

// What malloc keeps for later: the bytes of all arenas that nobody uses.
static inline size_t carillon_heap_free_bytes(void) { return mallinfo2().fordblks; }
// Gives the whole pages among them back to the system.
static inline void carillon_heap_trim(void) { (void)malloc_trim(0); }
