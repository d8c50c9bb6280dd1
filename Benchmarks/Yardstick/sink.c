// The yardstick's receiver: a gateway that does as little as possible.
//
// It walks the frames of commands 0, 1 and 2 by their lengths, counts them and discards them. It
// reads a frame only far enough to recognise a known-bad probe, a frame without a token. It answers
// a probe as a gateway does, with an error response of status 2. Then it ends its side and reads
// the rest without counting. There is one thread for each connection. It requests no client
// certificate.
//
//   sink PORT CERTIFICATE.pem KEY.pem      on 127.0.0.1; ends on SIGTERM or SIGINT
//
// At the end it prints  frames=N bytes=B connections=C
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1024 * 1024, READ_AHEAD_BYTES = 256 * 1024, FRAME_LIMIT = 64 * 1024 };

static SSL_CTX *context;
static atomic_ulong frame_count, byte_count, connection_count;

static uint32_t uint16_at(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
static uint32_t uint32_at(const uint8_t *at) { return uint16_at(at) << 16 | uint16_at(at + 2); }

// The frame at the beginning of some bytes.
struct frame {
  size_t byte_count; // of the whole frame; 0 if more bytes are needed to tell, or to have all of it
  int is_garbage;
  int is_probe;
  uint8_t identifier[4];
};

// The items of a command-2 frame. Only token and identifier are needed.
static void read_items(struct frame *frame, const uint8_t *items, size_t count) {
  int has_token = 0;
  size_t at = 0;
  while (at + 3 <= count) {
    uint8_t number = items[at];
    size_t length = uint16_at(items + at + 1);
    at += 3;
    if (at + length > count) return;
    if (number == 1 && length > 0) has_token = 1;
    if (number == 3 && length == 4) memcpy(frame->identifier, items + at, 4);
    // Every sender puts the token first, so an ordinary frame is decided here.
    if (has_token) return;
    at += length;
  }
  frame->is_probe = 1;
}

static struct frame read_frame(const uint8_t *bytes, size_t count) {
  struct frame frame = {0, 0, 0, {0, 0, 0, 0}};
  if (count < 5) return frame;
  size_t header, total;
  switch (bytes[0]) {
    case 2:
      total = 5 + (size_t)uint32_at(bytes + 1);
      if (total > FRAME_LIMIT) frame.is_garbage = 1;
      if (frame.is_garbage || count < total) return frame;
      read_items(&frame, bytes + 5, total - 5);
      break;
    case 0:
    case 1:
      // Command 1 has identifier and expiration first. Then both have the token's length, the
      // token, the payload's length and the payload.
      header = bytes[0] == 1 ? 9 : 1;
      if (count < header + 2) return frame;
      total = header + 2 + uint16_at(bytes + header);
      if (count < total + 2) return frame;
      total += 2 + uint16_at(bytes + total);
      if (count < total) return frame;
      frame.is_probe = bytes[0] == 1 && uint16_at(bytes + header) == 0;
      if (bytes[0] == 1) memcpy(frame.identifier, bytes + 1, 4);
      break;
    default: frame.is_garbage = 1; return frame;
  }
  frame.byte_count = total;
  return frame;
}

static void answer(SSL *ssl, int descriptor, const uint8_t identifier[4]) {
  uint8_t response[6] = {8, 2, identifier[0], identifier[1], identifier[2], identifier[3]};
  SSL_write(ssl, response, sizeof response);
  SSL_shutdown(ssl);
  shutdown(descriptor, SHUT_WR);
}

static void read_all(SSL *ssl, int descriptor, uint8_t *buffer) {
  size_t filled = 0;
  int is_draining = 0;
  for (;;) {
    size_t count = 0;
    if (SSL_read_ex(ssl, buffer + filled, BUFFER_BYTES - filled, &count) != 1) return;
    atomic_fetch_add_explicit(&byte_count, count, memory_order_relaxed);
    if (is_draining) continue;
    filled += count;
    size_t at = 0;
    unsigned long seen = 0;
    for (;;) {
      struct frame frame = read_frame(buffer + at, filled - at);
      if (frame.is_garbage) {
        fprintf(stderr, "sink: a frame that cannot be read\n");
        return;
      }
      if (frame.byte_count == 0) break;
      if (frame.is_probe) {
        answer(ssl, descriptor, frame.identifier);
        is_draining = 1;
        break;
      }
      at += frame.byte_count;
      seen++;
    }
    atomic_fetch_add_explicit(&frame_count, seen, memory_order_relaxed);
    filled = is_draining ? 0 : filled - at;
    if (at > 0 && filled > 0) memmove(buffer, buffer + at, filled);
  }
}

static void *serve(void *argument) {
  int descriptor = (int)(intptr_t)argument;
  SSL *ssl = SSL_new(context);
  uint8_t *buffer = malloc(BUFFER_BYTES);
  if (ssl != NULL && buffer != NULL && SSL_set_fd(ssl, descriptor) == 1 && SSL_accept(ssl) == 1) {
    atomic_fetch_add(&connection_count, 1);
    read_all(ssl, descriptor, buffer);
  }
  free(buffer);
  SSL_free(ssl);
  close(descriptor);
  return NULL;
}

// Waits for the signal in a thread of its own, so that there is no signal handler.
static void *wait_for_the_end(void *argument) {
  int signal_number = 0;
  sigwait(argument, &signal_number);
  printf("frames=%lu bytes=%lu connections=%lu\n", atomic_load(&frame_count), atomic_load(&byte_count), atomic_load(&connection_count));
  fflush(stdout);
  _exit(0);
}

static int listen_on(uint16_t port) {
  int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0) {
    perror("sink");
    exit(3);
  }
  return listener;
}

int main(int count, char **arguments) {
  if (count != 4) {
    fprintf(stderr, "usage: sink PORT CERTIFICATE.pem KEY.pem\n");
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);
  signal(SIGPIPE, SIG_IGN);
  pthread_t waiter;
  if (pthread_create(&waiter, NULL, wait_for_the_end, &ends) != 0) return 3;

  context = SSL_CTX_new(TLS_server_method());
  if (context == NULL || SSL_CTX_use_certificate_chain_file(context, arguments[2]) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, arguments[3], SSL_FILETYPE_PEM) != 1) {
    fprintf(stderr, "sink: the certificate or its key cannot be read\n");
    return 3;
  }
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD_BYTES);
  int listener = listen_on((uint16_t)atoi(arguments[1]));
  for (;;) {
    int descriptor = accept(listener, NULL, NULL);
    if (descriptor < 0) continue;
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)descriptor) != 0) {
      close(descriptor);
    } else {
      pthread_detach(thread);
    }
  }
}
