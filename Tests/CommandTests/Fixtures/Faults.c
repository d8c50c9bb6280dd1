// Makes one call of the C library fail in a program that is started with this in LD_PRELOAD.
//
// CARILLON_FAULT is "CALLERS:CALLS:N:KIND". CALLERS are the files whose calls count, by the
// beginnings of their names, joined by "+" ("libcrypto+libssl"); "program" is the program itself.
// CALLS is "memory" or the name of a call. The N-th of these calls fails (0: none does), and with
// KIND "always" all later ones. CARILLON_FAULT_COUNT names a file that gets their number at the end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static struct { uintptr_t from, to; } callers[64];
static int caller_count;
static char names[128] = "", calls[64] = "";
static unsigned long failing;
static int always;
static atomic_ulong count;

static int concerned(const char *path) {
  const char *base = path == NULL || *path == 0 ? "program" : strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  char list[sizeof names], *rest = list, *name;
  strcpy(list, names);
  while ((name = strsep(&rest, "+")) != NULL)
    if (*name && strncmp(base, name, strlen(name)) == 0) return 1;
  return 0;
}

static int note(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size, (void)data;
  if (!concerned(info->dlpi_name)) return 0;
  for (int i = 0; i < info->dlpi_phnum && caller_count < 64; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    callers[caller_count].from = from;
    callers[caller_count++].to = from + info->dlpi_phdr[i].p_memsz;
  }
  return 0;
}

__attribute__((constructor)) static void begin(void) {
  const char *fault = getenv("CARILLON_FAULT");
  char kind[16] = "";
  if (fault == NULL || sscanf(fault, "%127[^:]:%63[^:]:%lu:%15s", names, calls, &failing, kind) != 4) return;
  always = strcmp(kind, "always") == 0;
  dl_iterate_phdr(note, NULL);
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("CARILLON_FAULT_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%lu\n", atomic_load(&count));
  fclose(file);
}

static int fails(const char *call, void *caller) {
  if (caller_count == 0 || strcmp(call, calls) != 0) return 0;
  uintptr_t address = (uintptr_t)caller;
  for (int i = 0; i < caller_count; i++) {
    if (address < callers[i].from || address >= callers[i].to) continue;
    unsigned long number = atomic_fetch_add(&count, 1) + 1;
    return failing > 0 && (number == failing || (always && number > failing));
  }
  return 0;
}

#define NEXT(name) static __typeof__(&name) next; if (next == NULL) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAILS(call, code) if (fails(call, __builtin_return_address(0))) { errno = code; return -1; }
// Files and sockets fail. The descriptors of an event loop (eventfd, timerfd) have no such errors.
static int error_of(int file, int of_socket) {
  struct stat status;
  if (fstat(file, &status) != 0) return 0;
  if (S_ISSOCK(status.st_mode)) return of_socket;
  return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) ? EIO : 0;
}
#define TRANSFER_FAILS(call, of_socket) { int code = error_of(file, of_socket); if (code) FAILS(call, code) }

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t size) {
  return fails("memory", __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}
void *calloc(size_t number, size_t size) {
  return fails("memory", __builtin_return_address(0)) ? NULL : __libc_calloc(number, size);
}
void *realloc(void *pointer, size_t size) {
  return fails("memory", __builtin_return_address(0)) ? NULL : __libc_realloc(pointer, size);
}
void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  NEXT(mmap);
  if (fails("memory", __builtin_return_address(0))) { errno = ENOMEM; return MAP_FAILED; }
  return next(address, length, protection, flags, file, offset);
}
ssize_t read(int file, void *buffer, size_t size) {
  NEXT(read);
  TRANSFER_FAILS("read", ECONNRESET);
  return next(file, buffer, size);
}
ssize_t write(int file, const void *bytes, size_t size) {
  NEXT(write);
  TRANSFER_FAILS("write", EPIPE);
  return next(file, bytes, size);
}
ssize_t writev(int file, const struct iovec *parts, int number) {
  NEXT(writev);
  TRANSFER_FAILS("write", EPIPE);
  return next(file, parts, number);
}
ssize_t pread(int file, void *buffer, size_t size, off_t offset) {
  NEXT(pread);
  FAILS("read", EIO);
  return next(file, buffer, size, offset);
}
ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
  NEXT(pwrite);
  FAILS("write", EIO);
  return next(file, bytes, size, offset);
}
ssize_t recv(int file, void *buffer, size_t size, int flags) {
  NEXT(recv);
  FAILS("read", ECONNRESET);
  return next(file, buffer, size, flags);
}
ssize_t send(int file, const void *bytes, size_t size, int flags) {
  NEXT(send);
  FAILS("write", EPIPE);
  return next(file, bytes, size, flags);
}
int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static int (*next)(const char *, int, ...);
  if (next == NULL) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  FAILS("open", EMFILE);
  return next(path, flags, mode);
}
int fstat(int file, struct stat *status) {
  NEXT(fstat);
  FAILS("fstat", EIO);
  return next(file, status);
}
int fsync(int file) {
  NEXT(fsync);
  FAILS("sync", EIO);
  return next(file);
}
int fdatasync(int file) {
  NEXT(fdatasync);
  FAILS("sync", EIO);
  return next(file);
}
int ftruncate(int file, off_t size) {
  NEXT(ftruncate);
  FAILS("ftruncate", EIO);
  return next(file, size);
}
int rename(const char *from, const char *to) {
  NEXT(rename);
  FAILS("rename", EIO);
  return next(from, to);
}
int unlink(const char *path) {
  NEXT(unlink);
  FAILS("unlink", EIO);
  return next(path);
}
int socket(int domain, int type, int protocol) {
  NEXT(socket);
  FAILS("socket", EMFILE);
  return next(domain, type, protocol);
}
int connect(int file, const struct sockaddr *address, socklen_t size) {
  NEXT(connect);
  FAILS("connect", ENETUNREACH);
  return next(file, address, size);
}
int setsockopt(int file, int level, int option, const void *value, socklen_t size) {
  NEXT(setsockopt);
  FAILS("setsockopt", ENOBUFS);
  return next(file, level, option, value, size);
}
int epoll_ctl(int poll, int operation, int file, struct epoll_event *event) {
  NEXT(epoll_ctl);
  FAILS("epoll_ctl", ENOSPC);
  return next(poll, operation, file, event);
}
