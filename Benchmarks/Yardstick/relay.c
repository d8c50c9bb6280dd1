// A long line between a client and a server: what comes from either side reaches the other one
// half of the round trip later, however much it is.
//
//   relay PORT SERVER-PORT ROUND-TRIP-MS      both on 127.0.0.1; ends on SIGTERM or SIGINT
//
// Nobody may have more than LINE_BYTES on the line in one direction; whoever has is not read.
#define _GNU_SOURCE // accept4
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 * 1024, LINE_BYTES = 64 * 1024 * 1024, EVENT_LIMIT = 64 };

struct piece {
  struct piece *next;
  uint64_t due; // nanoseconds
  size_t begin, count;
  uint8_t bytes[];
};

// One end of a connection, and what is on its way to it.
struct end {
  int descriptor;
  struct end *other;
  struct piece *first, *last;
  size_t waiting;
  int has_ended; // nothing more comes from it
  int is_closed; // nothing more can be sent to it
  uint32_t watched;
};
struct pair {
  struct end ends[2];
  struct pair *next;
};

static int poll_descriptor;
static uint64_t delay;
static struct pair *pairs;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void watch(struct end *one, int is_blocked) {
  uint32_t wanted = (one->has_ended || one->other->waiting >= LINE_BYTES ? 0 : EPOLLIN) | (is_blocked ? EPOLLOUT : 0);
  if (wanted == one->watched) return;
  struct epoll_event event = {.events = wanted, .data.ptr = one};
  if (epoll_ctl(poll_descriptor, EPOLL_CTL_MOD, one->descriptor, &event) != 0) perror("relay: epoll");
  one->watched = wanted;
}

// Sends what is due. When the next piece is; 0: none waits, or the socket is full.
static uint64_t deliver(struct end *to, uint64_t time) {
  int is_blocked = 0;
  while (to->first != NULL && to->first->due <= time) {
    struct piece *piece = to->first;
    ssize_t count = to->is_closed ? (ssize_t)(piece->count - piece->begin)
                                  : send(to->descriptor, piece->bytes + piece->begin, piece->count - piece->begin, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno == EINTR) continue;
      is_blocked = errno == EAGAIN;
      if (is_blocked) break;
      to->is_closed = 1;
      continue;
    }
    piece->begin += (size_t)count;
    to->waiting -= (size_t)count;
    if (piece->begin < piece->count) continue;
    to->first = piece->next;
    if (to->first == NULL) to->last = NULL;
    free(piece);
  }
  if (to->first == NULL && to->other->has_ended && !to->is_closed) {
    shutdown(to->descriptor, SHUT_WR);
    to->is_closed = 1;
  }
  watch(to, is_blocked);
  watch(to->other, to->other->watched & EPOLLOUT ? 1 : 0);
  return is_blocked || to->first == NULL ? 0 : to->first->due;
}

// Reads what there is, at most a piece.
static void collect(struct end *from, uint64_t time) {
  static uint8_t bytes[PIECE_BYTES];
  ssize_t count = recv(from->descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    from->has_ended = 1;
    return;
  }
  struct piece *piece = malloc(sizeof *piece + (size_t)count);
  if (piece == NULL) exit(3);
  *piece = (struct piece){.due = time + delay, .count = (size_t)count};
  memcpy(piece->bytes, bytes, (size_t)count);
  struct end *to = from->other;
  if (to->last != NULL) to->last->next = piece;
  else to->first = piece;
  to->last = piece;
  to->waiting += (size_t)count;
}

static void add(struct end *one, int descriptor, struct end *other) {
  int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  *one = (struct end){.descriptor = descriptor, .other = other, .watched = EPOLLIN};
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
  if (epoll_ctl(poll_descriptor, EPOLL_CTL_ADD, descriptor, &event) != 0) exit(3);
}

static struct sockaddr_in loopback(uint16_t port) {
  return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static void take(int listener, uint16_t server_port) {
  int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
  if (client < 0) return;
  int server = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = loopback(server_port);
  if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
    perror("relay: the server");
    close(client);
    if (server >= 0) close(server);
    return;
  }
  struct pair *pair = calloc(1, sizeof *pair);
  if (pair == NULL) exit(3);
  add(&pair->ends[0], client, &pair->ends[1]);
  add(&pair->ends[1], server, &pair->ends[0]);
  pair->next = pairs;
  pairs = pair;
}

// Delivers on all lines, and frees those that are over. When to do it again; 0: not before an event.
static uint64_t deliver_all(uint64_t time) {
  uint64_t next = 0;
  for (struct pair **at = &pairs; *at != NULL;) {
    struct pair *pair = *at;
    for (int place = 0; place < 2; place++) {
      uint64_t due = deliver(&pair->ends[place], time);
      if (due != 0 && (next == 0 || due < next)) next = due;
    }
    if (pair->ends[0].is_closed && pair->ends[1].is_closed && pair->ends[0].has_ended && pair->ends[1].has_ended) {
      *at = pair->next;
      close(pair->ends[0].descriptor);
      close(pair->ends[1].descriptor);
      free(pair);
    } else {
      at = &pair->next;
    }
  }
  return next;
}

int main(int count, char **arguments) {
  if (count != 4) {
    fprintf(stderr, "usage: relay PORT SERVER-PORT ROUND-TRIP-MS\n");
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  delay = (uint64_t)atoi(arguments[3]) * 500000;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in address = loopback((uint16_t)atoi(arguments[1]));
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0) {
    perror("relay");
    return 3;
  }
  int signals = signalfd(-1, &ends, SFD_NONBLOCK);
  poll_descriptor = epoll_create1(0);
  struct epoll_event listening = {.events = EPOLLIN, .data.ptr = &listener};
  struct epoll_event ending = {.events = EPOLLIN, .data.ptr = &signals};
  if (poll_descriptor < 0 || signals < 0 || epoll_ctl(poll_descriptor, EPOLL_CTL_ADD, listener, &listening) != 0 ||
      epoll_ctl(poll_descriptor, EPOLL_CTL_ADD, signals, &ending) != 0) {
    perror("relay: epoll");
    return 3;
  }
  for (uint64_t next = 0;;) {
    struct epoll_event events[EVENT_LIMIT];
    uint64_t time = now();
    int wait = next == 0 ? -1 : next <= time ? 0 : (int)((next - time) / 1000000 + 1);
    int ready = epoll_wait(poll_descriptor, events, EVENT_LIMIT, wait);
    if (ready < 0 && errno != EINTR) return 3;
    time = now();
    for (int place = 0; place < ready; place++) {
      if (events[place].data.ptr == &listener) {
        take(listener, (uint16_t)atoi(arguments[2]));
      } else if (events[place].data.ptr == &signals) {
        return 0;
      } else if (events[place].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        collect(events[place].data.ptr, time);
      }
    }
    next = deliver_all(time);
  }
}
