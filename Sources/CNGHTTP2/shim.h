// nghttp2 as Swift sees it, and the memory that a session works in.
#pragma once
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static inline int carillon_bytes_equal(const void *left, const void *right, size_t count) { return memcmp(left, right, count) == 0; }

// nghttp2 allocates some six times for a request. With a thousand streams open that is more than malloc's per-thread lists hold, so what it has freed is kept in
// lists of our own, by size: in a steady state nothing is allocated. The sessions of an event loop share them: most of what a session needs, it needs only until
// its requests are written, and a thousand sessions write one after the other.
enum { carillon_h2_step = 32, carillon_h2_class_count = 64, carillon_h2_header = 16, carillon_h2_unlisted = 255 };

typedef struct carillon_h2_memory {
  nghttp2_mem functions;
  void *lists[carillon_h2_class_count];
  // Bytes in the lists; what would exceed the limit is given back.
  size_t kept, limit;
  // Calls of malloc so far.
  size_t allocations;
  // The thread that the lists belong to: on any other one, a session that ends gives its blocks back to malloc.
  pthread_t owner;
} carillon_h2_memory;

static inline int carillon_h2_is_ours(const carillon_h2_memory *memory) { return pthread_equal(memory->owner, pthread_self()); }

// The class whose blocks have room for `size` bytes, as its number; carillon_h2_unlisted if there is none.
static inline unsigned carillon_h2_class(size_t size) {
  size_t class = size == 0 ? 0 : (size - 1) / carillon_h2_step;
  return class < carillon_h2_class_count ? (unsigned)class : carillon_h2_unlisted;
}

// A block's class is written in front of it; the header keeps what follows aligned as malloc does.
static inline void *carillon_h2_malloc(size_t size, void *data) {
  carillon_h2_memory *memory = (carillon_h2_memory *)data;
  unsigned class = carillon_h2_class(size);
  if (class != carillon_h2_unlisted && memory->lists[class] != NULL && carillon_h2_is_ours(memory)) {
    unsigned char *block = (unsigned char *)memory->lists[class];
    memory->lists[class] = *(void **)(block + carillon_h2_header);
    memory->kept -= ((size_t)class + 1) * carillon_h2_step;
    return block + carillon_h2_header;
  }
  size_t room = class == carillon_h2_unlisted ? size : ((size_t)class + 1) * carillon_h2_step;
  if (room > SIZE_MAX - carillon_h2_header) return NULL;
  unsigned char *block = (unsigned char *)malloc(room + carillon_h2_header);
  if (block == NULL) return NULL;
  if (carillon_h2_is_ours(memory)) memory->allocations++;
  ((size_t *)block)[0] = class;
  ((size_t *)block)[1] = room;
  return block + carillon_h2_header;
}

static inline void carillon_h2_free(void *pointer, void *data) {
  if (pointer == NULL) return;
  carillon_h2_memory *memory = (carillon_h2_memory *)data;
  unsigned char *block = (unsigned char *)pointer - carillon_h2_header;
  size_t class = ((size_t *)block)[0], room = ((size_t *)block)[1];
  if (class == carillon_h2_unlisted || memory->kept + room > memory->limit || !carillon_h2_is_ours(memory)) {
    free(block);
    return;
  }
  *(void **)pointer = memory->lists[class];
  memory->lists[class] = block;
  memory->kept += room;
}

static inline void *carillon_h2_calloc(size_t count, size_t size, void *data) {
  if (size != 0 && count > SIZE_MAX / size) return NULL;
  void *pointer = carillon_h2_malloc(count * size, data);
  if (pointer != NULL) memset(pointer, 0, count * size);
  return pointer;
}

static inline void *carillon_h2_realloc(void *pointer, size_t size, void *data) {
  if (pointer == NULL) return carillon_h2_malloc(size, data);
  size_t room = ((size_t *)((unsigned char *)pointer - carillon_h2_header))[1];
  if (size <= room) return pointer;
  void *moved = carillon_h2_malloc(size, data);
  if (moved == NULL) return NULL;
  memcpy(moved, pointer, room);
  carillon_h2_free(pointer, data);
  return moved;
}

static inline carillon_h2_memory *carillon_h2_memory_new(void) {
  carillon_h2_memory *memory = (carillon_h2_memory *)calloc(1, sizeof(carillon_h2_memory));
  if (memory == NULL) return NULL;
  memory->limit = 4 * 1024 * 1024;
  memory->owner = pthread_self();
  memory->functions.mem_user_data = memory;
  memory->functions.malloc = carillon_h2_malloc;
  memory->functions.free = carillon_h2_free;
  memory->functions.calloc = carillon_h2_calloc;
  memory->functions.realloc = carillon_h2_realloc;
  return memory;
}

// For a session that is made on this thread and used there.
static inline nghttp2_mem *carillon_h2_memory_functions(carillon_h2_memory *memory) {
  if (!carillon_h2_is_ours(memory)) memory->owner = pthread_self();
  return &memory->functions;
}

// After the sessions are gone: their blocks are all in the lists.
static inline void carillon_h2_memory_free(carillon_h2_memory *memory) {
  if (memory == NULL) return;
  for (unsigned class = 0; class < carillon_h2_class_count; class++) {
    unsigned char *block = (unsigned char *)memory->lists[class];
    while (block != NULL) {
      unsigned char *next = *(unsigned char **)(block + carillon_h2_header);
      free(block);
      block = next;
    }
  }
  free(memory);
}
