// Requests to callgrind: a few instructions that do nothing in a process that does not run under it. The header comes with valgrind.
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
