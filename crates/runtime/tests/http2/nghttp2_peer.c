/*
 * One side of a planned conversation over HTTP/2, by libnghttp2: `nghttp2_peer client|server PLAN`. The connection is standard
 * input; what was seen goes to standard output. Names, values and data are in hexadecimal digits, `-` if empty.
 *
 * A line of PLAN is
 *   settings STREAMS STREAM_WINDOW CONNECTION_WINDOW FRAME_MAX TABLE_SIZE SEED
 *   exchange LEN SALT FAILS_AT SLOW SAYS_END GIVEN_UP_AFTER READING READS_SLOWLY, which the following lines belong to:
 *   piece LEN, field NAME VALUE, sensitive NAME VALUE, trailer NAME VALUE, interim, hint NAME VALUE
 * A field of an interim answer is a hint. GIVEN_UP_AFTER and FAILS_AT are -1 if there is none. READING is F (first), M (meanwhile)
 * or N (never). Pseudo-headers are fields. The exchange -1 comes first, and is no part of what is seen.
 *
 * A line of output is: exchange NUMBER, head, trailers, field NAME VALUE, data BYTES, whole, early CODE, given-up.
 */
#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIELDS_MAX = 64, EXCHANGES_MAX = 16, INTERIM_MAX = 4, LINE_MAX_LEN = 32 * 1024, WAIT_MS = 60000 };

struct fields {
  size_t count;
  nghttp2_nv list[FIELDS_MAX];
};

struct exchange {
  int number;
  int32_t stream;
  size_t len, at;
  unsigned char salt;
  long fails_at, given_up_after;
  int slow, rested, says_end, reads_slowly;
  char reading;
  size_t pieces_count, piece;
  size_t *pieces;
  struct fields fields, trailers, interim[INTERIM_MAX];
  size_t interim_count;
  int answered, sent, closed;
  size_t unread;
  /* What was seen. */
  FILE *seen;
  char *text;
  size_t text_len;
  int whole;
};

static struct exchange exchanges[EXCHANGES_MAX];
static size_t exchanges_count;
static unsigned long streams_max, stream_window, connection_window, frame_max, table_size, seed;
static int is_server;
static struct exchange *first;

static void fail(const char *what) {
  fprintf(stderr, "nghttp2_peer: %s\n", what);
  exit(1);
}

static void check(int code, const char *what) {
  if (code != 0) {
    fprintf(stderr, "nghttp2_peer: %s: %s\n", what, nghttp2_strerror(code));
    exit(1);
  }
}

static uint8_t *from_hex(const char *text, size_t *len) {
  if (strcmp(text, "-") == 0) text = "";
  *len = strlen(text) / 2;
  uint8_t *bytes = malloc(*len + 1);
  for (size_t at = 0; at < *len; at++) {
    unsigned byte;
    if (sscanf(text + 2 * at, "%2x", &byte) != 1) fail("no hexadecimal digits");
    bytes[at] = (uint8_t)byte;
  }
  bytes[*len] = 0;
  return bytes;
}

static void put_hex(FILE *out, const uint8_t *bytes, size_t len) {
  static const char digits[] = "0123456789abcdef";
  if (len == 0) fputc('-', out);
  for (size_t at = 0; at < len; at++) {
    fputc(digits[bytes[at] >> 4], out);
    fputc(digits[bytes[at] & 15], out);
  }
}

static void add(struct fields *fields, const char *name, const char *value, int sensitive) {
  if (fields->count == FIELDS_MAX) fail("too many fields in the plan");
  nghttp2_nv *nv = &fields->list[fields->count++];
  nv->name = from_hex(name, &nv->namelen);
  nv->value = from_hex(value, &nv->valuelen);
  nv->flags = sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE;
}

static void read_plan(const char *path) {
  static char line[LINE_MAX_LEN], name[LINE_MAX_LEN], value[LINE_MAX_LEN];
  FILE *plan = fopen(path, "r");
  if (!plan) fail("the plan cannot be read");
  struct exchange *last = NULL;
  while (fgets(line, sizeof line, plan)) {
    size_t len;
    unsigned salt;
    struct exchange new = {.number = (int)exchanges_count - 1};
    if (sscanf(line, "settings %lu %lu %lu %lu %lu %lu", &streams_max, &stream_window, &connection_window, &frame_max,
               &table_size, &seed) == 6) {
    } else if (sscanf(line, "exchange %zu %u %ld %d %d %ld %c %d", &new.len, &salt, &new.fails_at, &new.slow,
                      &new.says_end, &new.given_up_after, &new.reading, &new.reads_slowly) == 8) {
      if (exchanges_count == EXCHANGES_MAX) fail("too many exchanges in the plan");
      last = &exchanges[exchanges_count++];
      *last = new;
      last->salt = (unsigned char)salt;
      last->seen = open_memstream(&last->text, &last->text_len);
    } else if (!last) {
      fail("a line of no exchange");
    } else if (sscanf(line, "piece %zu", &len) == 1) {
      last->pieces = realloc(last->pieces, (last->pieces_count + 1) * sizeof len);
      last->pieces[last->pieces_count++] = len;
    } else if (sscanf(line, "field %s %s", name, value) == 2) {
      add(&last->fields, name, value, 0);
    } else if (sscanf(line, "sensitive %s %s", name, value) == 2) {
      add(&last->fields, name, value, 1);
    } else if (sscanf(line, "trailer %s %s", name, value) == 2) {
      add(&last->trailers, name, value, 0);
    } else if (sscanf(line, "hint %s %s", name, value) == 2 && last->interim_count > 0) {
      add(&last->interim[last->interim_count - 1], name, value, 0);
    } else if (strcmp(line, "interim\n") == 0) {
      if (last->interim_count++ == INTERIM_MAX) fail("too many interim answers in the plan");
    } else {
      fail(line);
    }
  }
  fclose(plan);
  if (exchanges_count == 0) fail("the plan has no exchange");
  first = &exchanges[0];
}

static struct exchange *at_stream(nghttp2_session *session, int32_t stream) {
  return nghttp2_session_get_stream_user_data(session, stream);
}

/* Makes the next part of a body, no longer than a piece of the plan. */
static ssize_t make_data(nghttp2_session *session, int32_t stream, uint8_t *out, size_t max, uint32_t *flags,
                         nghttp2_data_source *source, void *data) {
  struct exchange *exchange = source->ptr;
  (void)data;
  if (exchange->slow && !exchange->rested) {
    return NGHTTP2_ERR_DEFERRED;
  }
  exchange->rested = 0;
  if (exchange->fails_at >= 0 && exchange->piece == (size_t)exchange->fails_at) {
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  size_t len = 0;
  if (exchange->piece < exchange->pieces_count) {
    size_t *piece = &exchange->pieces[exchange->piece];
    len = *piece < max ? *piece : max;
    for (size_t at = exchange->at; at < exchange->at + len; at++) {
      *out++ = (uint8_t)((uint8_t)at * 31) ^ (uint8_t)(at >> 8) ^ exchange->salt;
    }
    exchange->at += len;
    *piece -= len;
    if (*piece == 0) exchange->piece++;
    if (exchange->piece < exchange->pieces_count || !exchange->says_end || exchange->fails_at >= 0) return (ssize_t)len;
  }
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (exchange->trailers.count > 0) {
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    check(nghttp2_submit_trailer(session, stream, exchange->trailers.list, exchange->trailers.count), "trailers");
  }
  return (ssize_t)len;
}

static nghttp2_data_provider *body_of(struct exchange *exchange) {
  static nghttp2_data_provider provider;
  provider.source.ptr = exchange;
  provider.read_callback = make_data;
  int has_body = exchange->pieces_count > 0 || exchange->trailers.count > 0 || exchange->fails_at >= 0;
  return has_body ? &provider : NULL;
}

static void answer(nghttp2_session *session, struct exchange *exchange) {
  if (exchange->answered || exchange->closed) return;
  exchange->answered = 1;
  for (size_t at = 0; at < exchange->interim_count; at++) {
    struct fields *fields = &exchange->interim[at];
    check(nghttp2_submit_headers(session, NGHTTP2_FLAG_NONE, exchange->stream, NULL, fields->list, fields->count, NULL),
          "interim answer");
  }
  check(nghttp2_submit_response(session, exchange->stream, exchange->fields.list, exchange->fields.count,
                                body_of(exchange)),
        "answer");
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data) {
  (void)data;
  struct exchange *exchange = at_stream(session, frame->hd.stream_id);
  if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) return 0;
  if (!exchange) return 0;
  int is_trailers = is_server || (exchange->whole == 0 && exchange->answered);
  fputs(is_trailers ? "trailers\n" : "head\n", exchange->seen);
  return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *data) {
  static FILE *pending;
  static char *text;
  static size_t text_len;
  (void)flags;
  (void)data;
  struct exchange *exchange = at_stream(session, frame->hd.stream_id);
  FILE *out = exchange ? exchange->seen : pending;
  if (!out) out = pending = open_memstream(&text, &text_len);
  fputs("field ", out);
  put_hex(out, name, name_len);
  fputc(' ', out);
  put_hex(out, value, value_len);
  fputc('\n', out);
  if (!exchange && name_len == 5 && memcmp(name, ":path", 5) == 0) {
    /* The path ends in the number of the exchange, and perhaps a query. */
    const char *number = (const char *)value, *slash = number;
    for (size_t at = 0; at < value_len; at++) {
      if (value[at] == '/') slash = number + at + 1;
    }
    exchange = *slash >= '0' && *slash <= '9' ? &exchanges[1 + atoi(slash)] : first;
    if (exchange >= exchanges + exchanges_count || exchange->stream != 0) fail("a request that the plan does not have");
    exchange->stream = frame->hd.stream_id;
    check(nghttp2_session_set_stream_user_data(session, exchange->stream, exchange), "stream");
    fclose(pending);
    fputs("head\n", exchange->seen);
    fwrite(text, 1, text_len, exchange->seen);
    free(text);
    pending = NULL;
    text = NULL;
  }
  /* A client: what follows the final head are trailers. */
  if (!is_server && name_len == 7 && memcmp(name, ":status", 7) == 0) exchange->answered = value[0] != '1';
  return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data) {
  (void)data;
  struct exchange *exchange = at_stream(session, frame->hd.stream_id);
  if (!exchange || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)) return 0;
  int is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
  exchange->whole |= is_end != 0;
  if (is_server && (is_end || exchange->reading != 'F')) answer(session, exchange);
  return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t len, void *data) {
  (void)flags;
  (void)data;
  struct exchange *exchange = at_stream(session, stream);
  if (!exchange) {
    check(nghttp2_session_consume_connection(session, len), "consume");
    return 0;
  }
  if (!is_server || exchange->reading != 'N') {
    fputs("data ", exchange->seen);
    put_hex(exchange->seen, bytes, len);
    fputc('\n', exchange->seen);
  }
  if (exchange->reads_slowly) {
    exchange->unread += len;
  } else {
    check(nghttp2_session_consume(session, stream, len), "consume");
  }
  return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *data) {
  (void)data;
  struct exchange *exchange = at_stream(session, frame->hd.stream_id);
  int is_end = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
               frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
  if (is_server && is_end && exchange && !exchange->whole && exchange->reading == 'N') {
    /* The answer is complete without the rest of the request (RFC 9113 section 8.1). */
    check(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, exchange->stream, NGHTTP2_NO_ERROR), "reset");
  }
  return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *data) {
  (void)data;
  struct exchange *exchange = at_stream(session, stream);
  if (!exchange) return 0;
  exchange->closed = 1;
  if (exchange->unread > 0) check(nghttp2_session_consume_connection(session, exchange->unread), "consume");
  exchange->unread = 0;
  if (exchange->whole) {
    fputs("whole\n", exchange->seen);
  } else {
    fprintf(exchange->seen, "early %u\n", code);
  }
  return 0;
}

static ssize_t pad(nghttp2_session *session, const nghttp2_frame *frame, size_t max, void *data) {
  (void)session;
  (void)data;
  seed = seed * 6364136223846793005UL + 1442695040888963407UL;
  size_t len = frame->hd.length + ((seed >> 33) % 4 == 0 ? (seed >> 40) % 256 : 0);
  return (ssize_t)(len < max ? len : max);
}

static void ask(nghttp2_session *session, struct exchange *exchange) {
  exchange->stream = nghttp2_submit_request(session, NULL, exchange->fields.list, exchange->fields.count,
                                            body_of(exchange), exchange);
  if (exchange->stream < 0) check(exchange->stream, "request");
}

/* Lets bodies that wait go on, reads what waits, and gives requests up. Returns whether there may be more to do at once. */
static int pass_time(nghttp2_session *session) {
  int is_busy = 0;
  for (struct exchange *exchange = exchanges; exchange < exchanges + exchanges_count; exchange++) {
    if (exchange->stream == 0 || exchange->closed) continue;
    if (exchange->unread > 0) {
      check(nghttp2_session_consume(session, exchange->stream, exchange->unread), "consume");
      exchange->unread = 0;
    }
    if (exchange->slow && !exchange->rested) {
      exchange->rested = 1;
      /* An error says that nothing waits. */
      is_busy |= nghttp2_session_resume_data(session, exchange->stream) == 0;
    }
    if (!is_server && exchange->given_up_after >= 0) {
      is_busy = 1;
      if (exchange->given_up_after-- == 0) {
        fputs("given-up\n", exchange->seen);
        check(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, exchange->stream, NGHTTP2_CANCEL), "reset");
      }
    }
  }
  return is_busy;
}

static void send_all(nghttp2_session *session, int *is_blocked) {
  static const uint8_t *out;
  static ssize_t left;
  *is_blocked = 0;
  for (;;) {
    if (left == 0) left = nghttp2_session_mem_send(session, &out);
    if (left < 0) check((int)left, "send");
    if (left == 0) return;
    ssize_t len = send(0, out, (size_t)left, MSG_NOSIGNAL);
    if (len < 0 && errno == EAGAIN) {
      *is_blocked = 1;
      return;
    }
    if (len < 0) {
      /* The other side has all that it wants. */
      left = 0;
      continue;
    }
    out += len;
    left -= len;
  }
}

static void converse(nghttp2_session *session) {
  static uint8_t input[16 * 1024];
  size_t asked = is_server ? exchanges_count : 0;
  int is_over = 0;
  for (;;) {
    if (asked == 0) {
      ask(session, first);
      asked = 1;
    }
    if (asked == 1 && !is_server && first->closed) {
      for (; asked < exchanges_count; asked++) ask(session, &exchanges[asked]);
    }
    int is_busy = pass_time(session), is_blocked;
    size_t closed = 0;
    for (size_t at = 0; at < exchanges_count; at++) closed += exchanges[at].closed != 0;
    if (!is_server && closed == exchanges_count && !is_over) {
      is_over = 1;
      check(nghttp2_session_terminate_session(session, NGHTTP2_NO_ERROR), "end");
    }
    send_all(session, &is_blocked);
    if (!nghttp2_session_want_read(session) && !nghttp2_session_want_write(session) && !is_blocked) return;
    struct pollfd wait = {.fd = 0, .events = POLLIN | (is_blocked ? POLLOUT : 0)};
    int wait_ms = is_busy || (nghttp2_session_want_write(session) && !is_blocked) ? 0 : 20;
    int ready = poll(&wait, 1, wait_ms);
    static int silent_ms;
    silent_ms = ready == 0 ? silent_ms + wait_ms : 0;
    if (silent_ms > WAIT_MS) fail("the conversation stands still");
    if (ready > 0 && wait.revents & (POLLIN | POLLHUP)) {
      ssize_t len = read(0, input, sizeof input);
      if (len == 0 || (len < 0 && errno != EAGAIN)) return;
      if (len > 0) {
        ssize_t taken = nghttp2_session_mem_recv(session, input, (size_t)len);
        if (taken < 0) check((int)taken, "receive");
      }
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 3) fail("usage: nghttp2_peer client|server PLAN");
  is_server = strcmp(argv[1], "server") == 0;
  read_plan(argv[2]);
  fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
  nghttp2_session_callbacks *callbacks;
  nghttp2_session *session;
  nghttp2_option *option;
  check(nghttp2_session_callbacks_new(&callbacks), "callbacks");
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_session_callbacks_set_select_padding_callback(callbacks, pad);
  check(nghttp2_option_new(&option), "options");
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_max_send_header_block_length(option, 1 << 20);
  nghttp2_option_set_max_deflate_dynamic_table_size(option, table_size);
  check(is_server ? nghttp2_session_server_new2(&session, callbacks, NULL, option)
                  : nghttp2_session_client_new2(&session, callbacks, NULL, option),
        "session");
  nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)stream_window},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, (uint32_t)frame_max},
      {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, (uint32_t)table_size},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)streams_max},
  };
  check(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, is_server ? 4 : 3), "settings");
  check(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, (int32_t)connection_window), "window");
  converse(session);
  shutdown(0, SHUT_WR);
  for (struct exchange *exchange = exchanges + 1; exchange < exchanges + exchanges_count; exchange++) {
    if (exchange->stream == 0) continue;
    fclose(exchange->seen);
    printf("exchange %d\n%s", exchange->number, exchange->text);
    if (!exchange->closed) puts("early 8");
  }
  return 0;
}
