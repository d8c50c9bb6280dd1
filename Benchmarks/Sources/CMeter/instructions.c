// Requests to callgrind. In a process that does not run under it they are a few instructions
// without effect. The header is part of valgrind.
#include "CMeter.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>

void meter_begin(void) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
}

void meter_end(const char *name) {
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(name);
}
#else
void meter_begin(void) {}
void meter_end(const char *name) { (void)name; }
#endif
