// nghttp2 as Swift sees it, and the memory that a session works in.
#pragma once
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// nghttp2 allocates some six times for a request. With a thousand streams open that is more than
// malloc's per-thread lists hold, so what it has freed is kept in lists of our own, by size: in a
// steady state nothing is allocated. The sessions of an event loop share them: most of what a
// session needs, it needs only until its requests are written, and a thousand sessions write one
// after the other.
enum { carillon_h2_step = 32, carillon_h2_class_count = 64, carillon_h2_header = 16, carillon_h2_unlisted = 255, carillon_h2_mapped = 256, carillon_h2_large = 16 * 1024 };

typedef struct carillon_h2_memory {
  void *lists[carillon_h2_class_count];
  // Bytes in the lists; what would exceed the limit is given back.
  size_t kept, limit;
  // Calls of malloc so far.
  size_t allocations;
  // For tests: after so many calls, so many get no memory.
  size_t failing_after, failing_count;
} carillon_h2_memory;

// What one session knows of it.
typedef struct carillon_h2_share {
  nghttp2_mem functions;
  carillon_h2_memory *memory;
  // The thread that the session was made on, and so the one that the lists belong to.
  pthread_t owner;
  // The session ends on another thread: its blocks go back to malloc.
  int is_elsewhere;
} carillon_h2_share;

// The class whose blocks have room for `size` bytes, as its number; carillon_h2_unlisted if there
// is none.
static inline unsigned carillon_h2_class(size_t size) {
  size_t class = size == 0 ? 0 : (size - 1) / carillon_h2_step;
  return class < carillon_h2_class_count ? (unsigned)class : carillon_h2_unlisted;
}

// A block's class is written in front of it; the header keeps what follows aligned as malloc does.
static inline void *carillon_h2_malloc(size_t size, void *data) {
  const carillon_h2_share *share = (const carillon_h2_share *)data;
  carillon_h2_memory *memory = share->memory;
  unsigned class = carillon_h2_class(size);
  if (class != carillon_h2_unlisted && memory->lists[class] != NULL && !share->is_elsewhere) {
    unsigned char *block = (unsigned char *)memory->lists[class];
    memory->lists[class] = *(void **)(block + carillon_h2_header);
    memory->kept -= ((size_t)class + 1) * carillon_h2_step;
    return block + carillon_h2_header;
  }
  size_t room = class == carillon_h2_unlisted ? size : ((size_t)class + 1) * carillon_h2_step;
  if (room > SIZE_MAX - carillon_h2_header) return NULL;
  if (!share->is_elsewhere && memory->allocations++ - memory->failing_after < memory->failing_count) return NULL;
  unsigned char *block;
  if (room >= carillon_h2_large) {
    // Each session has a buffer for the longest frame, most of which it never uses. What malloc
    // gives has been used by TLS and is all in memory; fresh pages are not.
    block = (unsigned char *)mmap(NULL, room + carillon_h2_header, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return NULL;
    (void)madvise(block, room + carillon_h2_header, MADV_NOHUGEPAGE);
    class = carillon_h2_mapped;
  } else {
    block = (unsigned char *)malloc(room + carillon_h2_header);
    if (block == NULL) return NULL;
  }
  ((size_t *)block)[0] = class;
  ((size_t *)block)[1] = room;
  return block + carillon_h2_header;
}

static inline void carillon_h2_free(void *pointer, void *data) {
  if (pointer == NULL) return;
  const carillon_h2_share *share = (const carillon_h2_share *)data;
  carillon_h2_memory *memory = share->memory;
  unsigned char *block = (unsigned char *)pointer - carillon_h2_header;
  size_t class = ((size_t *)block)[0], room = ((size_t *)block)[1];
  if (class == carillon_h2_mapped) {
    munmap(block, room + carillon_h2_header);
    return;
  }
  if (class == carillon_h2_unlisted || share->is_elsewhere || memory->kept + room > memory->limit) {
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
  if (memory != NULL) memory->limit = 4 * 1024 * 1024;
  return memory;
}

// For a session that is made and used on this thread.
static inline carillon_h2_share *carillon_h2_share_new(carillon_h2_memory *memory) {
  carillon_h2_share *share = (carillon_h2_share *)calloc(1, sizeof(carillon_h2_share));
  if (share == NULL) return NULL;
  share->memory = memory;
  share->owner = pthread_self();
  share->functions.mem_user_data = share;
  share->functions.malloc = carillon_h2_malloc;
  share->functions.free = carillon_h2_free;
  share->functions.calloc = carillon_h2_calloc;
  share->functions.realloc = carillon_h2_realloc;
  return share;
}

static inline nghttp2_mem *carillon_h2_share_functions(carillon_h2_share *share) { return &share->functions; }

// Of a session that could not be made.
static inline void carillon_h2_share_free(carillon_h2_share *share) { free(share); }

static inline void carillon_h2_session_end(nghttp2_session *session, carillon_h2_share *share) {
  share->is_elsewhere = !pthread_equal(share->owner, pthread_self());
  nghttp2_session_del(session);
  free(share);
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
