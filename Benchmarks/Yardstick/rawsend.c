// The yardstick's sender: the limit of a single connection with nothing but packing frames, TLS and
// the socket.
//
// It has no input, no window, no account and no resending. Command-2 frames of one size go into a
// buffer of 64 KiB, and a full buffer is one SSL_write. The time runs from the end of the handshake
// until the receiver has read everything and closes.
//
//   rawsend PORT FRAMES PAYLOAD_BYTES [BATCH_BYTES]
//
// It prints  frames=N seconds=S perSecond=R cpuNanosPerFrame=C cipher=NAME batch=B payload=P
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TOKEN_BYTES = 32, PAYLOAD_LIMIT = 4096, BATCH_DEFAULT = 64 * 1024, BATCH_LIMIT = 16 * 1024 * 1024 };

// The five items of a command-2 frame in the order of their numbers. Each is preceded by its number
// (one byte) and its length (two bytes).
enum item { ITEM_TOKEN = 1, ITEM_PAYLOAD = 2, ITEM_IDENTIFIER = 3, ITEM_EXPIRATION = 4, ITEM_PRIORITY = 5 };
enum { ITEM_HEADER = 3, FRAME_HEADER = 5 };

static void fail(const char *what) {
  fprintf(stderr, "rawsend: %s\n", what);
  exit(3);
}

static uint8_t *put_uint16(uint8_t *at, uint32_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
  return at + 2;
}

static uint8_t *put_uint32(uint8_t *at, uint32_t value) { return put_uint16(put_uint16(at, value >> 16), value & 0xffff); }

static uint8_t *put_item(uint8_t *at, enum item item, uint32_t byte_count) {
  *at = (uint8_t)item;
  return put_uint16(at + 1, byte_count);
}

// Builds a frame with identifier 0, stores the identifier's offset, and returns the frame's size.
static size_t make_frame(uint8_t *frame, uint32_t payload_bytes, size_t *identifier_offset) {
  uint32_t items = ITEM_HEADER + TOKEN_BYTES + ITEM_HEADER + payload_bytes + 2 * (ITEM_HEADER + 4) + ITEM_HEADER + 1;
  uint8_t *at = frame;
  *at++ = 2;
  at = put_uint32(at, items);
  at = put_item(at, ITEM_TOKEN, TOKEN_BYTES);
  for (int index = 0; index < TOKEN_BYTES; index++) *at++ = (uint8_t)(index * 7 + 1);
  at = put_item(at, ITEM_PAYLOAD, payload_bytes);
  memset(at, 'x', payload_bytes);
  at += payload_bytes;
  at = put_item(at, ITEM_IDENTIFIER, 4);
  *identifier_offset = (size_t)(at - frame);
  at = put_uint32(at, 0);
  at = put_item(at, ITEM_EXPIRATION, 4);
  at = put_uint32(at, 0);
  at = put_item(at, ITEM_PRIORITY, 1);
  *at++ = 10;
  return (size_t)(at - frame);
}

static int connect_to(uint16_t port) {
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0) fail("cannot connect to the port on this machine");
  return descriptor;
}

static double seconds_between(struct timespec from, struct timespec to) {
  return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void write_all(SSL *ssl, const uint8_t *bytes, size_t count) {
  size_t written = 0;
  if (SSL_write_ex(ssl, bytes, count, &written) != 1 || written != count) fail("the write failed");
}

// Reads a number from `least` to `most`, or exits.
static long number(const char *text, long least, long most, const char *name) {
  char *end = NULL;
  long value = strtol(text, &end, 10);
  if (end == text || *end != 0 || value < least || value > most) {
    fprintf(stderr, "rawsend: %s must be a number from %ld to %ld\n", name, least, most);
    exit(2);
  }
  return value;
}

int main(int count, char **arguments) {
  if (count != 4 && count != 5) {
    fprintf(stderr, "usage: rawsend PORT FRAMES PAYLOAD_BYTES [BATCH_BYTES]\n");
    return 2;
  }
  uint16_t port = (uint16_t)number(arguments[1], 1, 65535, "PORT");
  long frames = number(arguments[2], 1, 2147483647L, "FRAMES");
  uint32_t payload_bytes = (uint32_t)number(arguments[3], 1, PAYLOAD_LIMIT, "PAYLOAD_BYTES");
  size_t batch_bytes = count == 5 ? (size_t)number(arguments[4], 1, BATCH_LIMIT, "BATCH_BYTES") : BATCH_DEFAULT;

  uint8_t frame[FRAME_HEADER + PAYLOAD_LIMIT + 256];
  size_t identifier_offset = 0;
  size_t frame_bytes = make_frame(frame, payload_bytes, &identifier_offset);
  uint8_t *batch = malloc(batch_bytes + frame_bytes);
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (batch == NULL || context == NULL) fail("no memory");
  SSL *ssl = SSL_new(context);
  int descriptor = connect_to(port);
  if (ssl == NULL || SSL_set_fd(ssl, descriptor) != 1 || SSL_connect(ssl) != 1) fail("the TLS handshake failed");

  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  size_t filled = 0;
  for (long identifier = 1; identifier <= frames; identifier++) {
    memcpy(batch + filled, frame, frame_bytes);
    put_uint32(batch + filled + identifier_offset, (uint32_t)identifier);
    filled += frame_bytes;
    if (filled >= batch_bytes) {
      write_all(ssl, batch, filled);
      filled = 0;
    }
  }
  if (filled > 0) write_all(ssl, batch, filled);
  SSL_shutdown(ssl);
  shutdown(descriptor, SHUT_WR);
  uint8_t rest[512];
  while (read(descriptor, rest, sizeof rest) > 0) {}
  clock_gettime(CLOCK_MONOTONIC, &end);

  double seconds = seconds_between(start, end);
  printf(
    "frames=%ld seconds=%.3f perSecond=%.0f cpuNanosPerFrame=%.0f cipher=%s batch=%zu payload=%u\n", frames, seconds, (double)frames / seconds,
    cpu_seconds() * 1e9 / (double)frames, SSL_get_cipher(ssl), batch_bytes, payload_bytes);
  SSL_free(ssl);
  close(descriptor);
  SSL_CTX_free(context);
  free(batch);
  return 0;
}
