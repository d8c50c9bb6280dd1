// The yardstick's receiver of HTTP/2 requests: a service that does as little as possible.
//
// It answers each request that has ended with :status 200, in five bytes more than the header of a
// frame, which are the same for all of them. It looks at no header: whatever was sent to it would
// be accepted. It acknowledges SETTINGS and PING, and gives the client a window that is never used
// up. All connections share one thread. It requests no client certificate.
//
//   http2sink PORT CERTIFICATE.pem KEY.pem STREAMS      on 127.0.0.1; ends on SIGTERM or SIGINT
//
// STREAMS are the requests that a connection may have in flight. At the end it prints
// requests=N bytes=B connections=C
#define _GNU_SOURCE // accept4
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  IN_BYTES = 512 * 1024,
  READ_AHEAD_BYTES = 256 * 1024,
  HEADER_BYTES = 9,
  PREFACE_BYTES = 24,
  FRAME_LIMIT = 16384,
  EVENT_LIMIT = 64
};
enum { DATA = 0, HEADERS = 1, SETTINGS = 4, PING = 6, WINDOW_UPDATE = 8 };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4 };

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// What the window of a connection is kept at, and when it is filled again (RFC 9113, section 6.9.1).
static const uint32_t window = 1u << 30;

struct connection {
  int descriptor;
  int is_open; // the handshake is over, and the preface was read
  int wants_to_write;
  SSL *ssl;
  uint8_t *in;
  size_t in_count;
  uint8_t *out;
  size_t out_count, out_capacity, out_begin;
  uint32_t used_window;
};

static SSL_CTX *context;
static uint32_t stream_limit;
static unsigned long request_count, byte_count, connection_count;

static uint32_t uint24_at(const uint8_t *at) { return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2]; }
static uint32_t uint32_at(const uint8_t *at) { return (uint32_t)at[0] << 24 | uint24_at(at + 1); }
static void put_uint32(uint8_t *at, uint32_t number) {
  for (int place = 0; place < 4; place++) at[place] = (uint8_t)(number >> (24 - 8 * place));
}

// Room for a frame of so many bytes behind its header, and the header in it.
static uint8_t *frame(struct connection *to, uint32_t length, uint8_t type, uint8_t flags, uint32_t stream) {
  size_t needed = to->out_count + HEADER_BYTES + length;
  if (needed > to->out_capacity) {
    size_t capacity = needed * 2;
    uint8_t *grown = realloc(to->out, capacity);
    if (grown == NULL) exit(3);
    to->out = grown;
    to->out_capacity = capacity;
  }
  uint8_t *at = to->out + to->out_count;
  at[0] = (uint8_t)(length >> 16);
  at[1] = (uint8_t)(length >> 8);
  at[2] = (uint8_t)length;
  at[3] = type;
  at[4] = flags;
  put_uint32(at + 5, stream);
  to->out_count = needed;
  return at + HEADER_BYTES;
}

static void begin(struct connection *with) {
  // SETTINGS_MAX_CONCURRENT_STREAMS.
  uint8_t *settings = frame(with, 6, SETTINGS, 0, 0);
  settings[0] = 0;
  settings[1] = 3;
  put_uint32(settings + 2, stream_limit);
  put_uint32(frame(with, 4, WINDOW_UPDATE, 0, 0), window - 65535);
}

// Reads the frame at the beginning of some bytes. Its length; 0: it is not whole; -1: it is none.
static long read_frame(struct connection *from, const uint8_t *bytes, size_t count) {
  if (count < HEADER_BYTES) return 0;
  uint32_t length = uint24_at(bytes), stream = uint32_at(bytes + 5) & 0x7fffffff;
  uint8_t type = bytes[3], flags = bytes[4];
  if (length > FRAME_LIMIT) return -1;
  if (count < HEADER_BYTES + length) return 0;
  const uint8_t *payload = bytes + HEADER_BYTES;
  switch (type) {
    case DATA:
      from->used_window += length;
      if (from->used_window > window / 2) {
        put_uint32(frame(from, 4, WINDOW_UPDATE, 0, 0), from->used_window);
        from->used_window = 0;
      }
      // fallthrough
    case HEADERS:
      if (flags & END_STREAM) {
        // :status 200 (RFC 7541, appendix A: entry 8).
        *frame(from, 1, HEADERS, END_STREAM | END_HEADERS, stream) = 0x88;
        request_count++;
      }
      break;
    case SETTINGS:
      if (!(flags & ACK)) frame(from, 0, SETTINGS, ACK, 0);
      break;
    case PING:
      if (length != 8) return -1;
      if (!(flags & ACK)) memcpy(frame(from, 8, PING, ACK, 0), payload, 8);
      break;
    default: break;
  }
  return (long)(HEADER_BYTES + length);
}

static int read_frames(struct connection *from) {
  size_t at = 0;
  if (!from->is_open) {
    if (from->in_count < PREFACE_BYTES) return 1;
    if (memcmp(from->in, preface, PREFACE_BYTES) != 0) return 0;
    from->is_open = 1;
    at = PREFACE_BYTES;
    begin(from);
  }
  for (;;) {
    long length = read_frame(from, from->in + at, from->in_count - at);
    if (length < 0) {
      fprintf(stderr, "http2sink: a frame that cannot be read\n");
      return 0;
    }
    if (length == 0) break;
    at += (size_t)length;
  }
  from->in_count -= at;
  if (at > 0 && from->in_count > 0) memmove(from->in, from->in + at, from->in_count);
  return 1;
}

// Writes what there is. False: the connection is over.
static int write_answers(struct connection *to) {
  while (to->out_begin < to->out_count) {
    size_t written = 0;
    if (SSL_write_ex(to->ssl, to->out + to->out_begin, to->out_count - to->out_begin, &written) != 1) {
      int error = SSL_get_error(to->ssl, 0);
      to->wants_to_write = error == SSL_ERROR_WANT_WRITE;
      return to->wants_to_write || error == SSL_ERROR_WANT_READ;
    }
    to->out_begin += written;
  }
  to->out_begin = to->out_count = 0;
  to->wants_to_write = 0;
  return 1;
}

// The socket is ready. False: the connection is over.
static int serve(struct connection *one) {
  for (;;) {
    size_t count = 0;
    if (SSL_read_ex(one->ssl, one->in + one->in_count, IN_BYTES - one->in_count, &count) != 1) {
      int error = SSL_get_error(one->ssl, 0);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return 0;
      return write_answers(one);
    }
    byte_count += count;
    one->in_count += count;
    if (!read_frames(one)) return 0;
    // What was read at once is answered at once.
    if (one->out_count - one->out_begin >= FRAME_LIMIT && !write_answers(one)) return 0;
  }
}

static void watch(int poll, struct connection *one, int operation) {
  struct epoll_event event = {.events = EPOLLIN | (one->wants_to_write ? EPOLLOUT : 0), .data.ptr = one};
  if (epoll_ctl(poll, operation, one->descriptor, &event) != 0) perror("http2sink: epoll");
}

static void end(struct connection *one) {
  close(one->descriptor);
  SSL_free(one->ssl);
  free(one->in);
  free(one->out);
  free(one);
}

static void take(int poll, int listener) {
  int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK), yes = 1;
  if (descriptor < 0) return;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  struct connection *one = calloc(1, sizeof *one);
  if (one == NULL) exit(3);
  one->descriptor = descriptor;
  one->ssl = SSL_new(context);
  one->in = malloc(IN_BYTES);
  if (one->ssl == NULL || one->in == NULL || SSL_set_fd(one->ssl, descriptor) != 1) exit(3);
  SSL_set_accept_state(one->ssl);
  connection_count++;
  watch(poll, one, EPOLL_CTL_ADD);
}

static int choose_http2(SSL *ssl, const uint8_t **chosen, uint8_t *length, const uint8_t *offered, unsigned int count, void *nothing) {
  (void)ssl;
  (void)nothing;
  static const uint8_t h2[] = {2, 'h', '2'};
  int found = SSL_select_next_proto((uint8_t **)chosen, length, h2, sizeof h2, offered, count);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int listen_on(uint16_t port) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0) {
    perror("http2sink");
    exit(3);
  }
  return listener;
}

int main(int count, char **arguments) {
  if (count != 5) {
    fprintf(stderr, "usage: http2sink PORT CERTIFICATE.pem KEY.pem STREAMS\n");
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  signal(SIGPIPE, SIG_IGN);
  stream_limit = (uint32_t)atoi(arguments[4]);
  context = SSL_CTX_new(TLS_server_method());
  if (context == NULL || SSL_CTX_use_certificate_chain_file(context, arguments[2]) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, arguments[3], SSL_FILETYPE_PEM) != 1) {
    fprintf(stderr, "http2sink: the certificate or its key cannot be read\n");
    return 3;
  }
  SSL_CTX_set_alpn_select_cb(context, choose_http2, NULL);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD_BYTES);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  int listener = listen_on((uint16_t)atoi(arguments[1])), poll = epoll_create1(0);
  int signals = signalfd(-1, &ends, SFD_NONBLOCK);
  struct epoll_event listening = {.events = EPOLLIN, .data.ptr = &listener};
  struct epoll_event ending = {.events = EPOLLIN, .data.ptr = &signals};
  if (poll < 0 || signals < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, listener, &listening) != 0 ||
      epoll_ctl(poll, EPOLL_CTL_ADD, signals, &ending) != 0) {
    perror("http2sink: epoll");
    return 3;
  }
  for (;;) {
    struct epoll_event events[EVENT_LIMIT];
    int ready = epoll_wait(poll, events, EVENT_LIMIT, -1);
    if (ready < 0 && errno != EINTR) return 3;
    for (int place = 0; place < ready; place++) {
      if (events[place].data.ptr == &listener) {
        take(poll, listener);
      } else if (events[place].data.ptr == &signals) {
        printf("requests=%lu bytes=%lu connections=%lu\n", request_count, byte_count, connection_count);
        return 0;
      } else {
        struct connection *one = events[place].data.ptr;
        int was_waiting = one->wants_to_write;
        if (!serve(one)) {
          end(one);
        } else if (one->wants_to_write != was_waiting) {
          watch(poll, one, EPOLL_CTL_MOD);
        }
      }
    }
  }
}
