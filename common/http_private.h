/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of http_server share. Only http_*.c include this.
 *
 * http_server.c   the daemon on the loop: open, drain, close, deadlines
 * http_listen.c   the address: parse, check, bind
 * http_request.c  a request from its first line to its end; accessors
 * http_framing.c  what makes a request's framing ambiguous or too large
 * http_linger.c   the end of a connection whose body we did not read
 * http_reply.c    the answer
 */
#ifndef HTTP_PRIVATE_H
#define HTTP_PRIVATE_H

#include <microhttpd.h>

#include "common/http_server.h"

#define HTTP_ADDRESS_SIZE 80
#define HTTP_MAX_HEADER_BYTES 32768
#define HTTP_MAX_REPLY_HEADERS 16
#define HTTP_NEVER INT64_MAX

/* A connection, from accept to close. */
struct http_conn {
    struct http_conn *prev;
    struct http_conn *next;
    struct http_request *request; /* the one under way; NULL while idle */
    int fd;                       /* libmicrohttpd's */
    int linger_fd;                /* a copy of it that outlives it, or -1 */
    int64_t deadline_us;
};

struct http_server {
    struct loop *loop;
    struct http_options options; /* its texts are not kept */
    http_handler_fn handler;
    void *owner;
    struct MHD_Daemon *daemon;
    struct loop_fd *watch;  /* the daemon's epoll fd */
    struct loop_timer *run; /* when the daemon wants to be run again */
    struct loop_timer *tick;
    struct http_conn *conns;
    struct http_linger *lingers;
    size_t linger_count;
    size_t open_requests; /* handed to the handler, answer not sent */
    int listen_fd;        /* -1 once draining */
    bool is_draining;
    char address[HTTP_ADDRESS_SIZE];
};

struct http_header {
    char *name;
    char *value;
};

/*
 * Two parties hold a request: libmicrohttpd until it has completed it, and the
 * handler from the call until its reply. The last one frees it.
 */
struct http_request {
    struct http_server *server;        /* NULL once the server is closed */
    struct MHD_Connection *connection; /* NULL once completed */
    struct http_conn *conn;            /* NULL once completed */
    char *method;
    char *path;
    struct buf body;
    size_t sunk; /* bytes over the limit that were read and thrown away */
    struct loop_fd *gone_watch;
    loop_fn on_gone;
    void *on_gone_owner;
    struct http_header headers[HTTP_MAX_REPLY_HEADERS]; /* of the answer */
    size_t header_count;
    struct MHD_Response *response;
    unsigned status;
    bool has_bad_uri; /* an encoded NUL, which would cut the path */
    bool has_started; /* its headers were judged */
    bool has_handler; /* handed over and not answered yet */
    bool is_in_handler;
    bool is_suspended;
    bool is_too_large;
    bool is_gone;
    bool must_close; /* no further request on this connection */
};

/* -- http_server.c --------------------------------------------------------- */

/* Lets the answer of a suspended request go out. */
void http_server_resume(
    struct http_server *server, struct MHD_Connection *connection);

/* -- http_listen.c --------------------------------------------------------- */

/* A bound, listening, non-blocking socket; its text into out. */
int http_listen(
    const struct http_options *options, char *out, struct err *err) MUST_CHECK;

/* -- http_request.c -------------------------------------------------------- */

void *http_on_uri(
    void *owner, const char *uri, struct MHD_Connection *connection);
enum MHD_Result http_on_request(void *owner, struct MHD_Connection *connection,
    const char *url, const char *method, const char *version,
    const char *upload, size_t *upload_size, void **context);
void http_on_completed(void *owner, struct MHD_Connection *connection,
    void **context, enum MHD_RequestTerminationCode code);
/* Cuts a request loose from a server that closes. */
void http_request_orphan(struct http_request *request);
void http_request_stop_gone(struct http_request *request);
/* Frees it when nobody holds it any more. */
void http_request_release(struct http_request *request);

/* -- http_framing.c -------------------------------------------------------- */

struct http_fault {
    unsigned status;
    const char *code; /* static */
    const char *detail;
};

/* Judges method line and headers. False: answer with fault and close. */
bool http_framing_check(struct MHD_Connection *connection, const char *version,
    size_t max_body_bytes, struct http_fault *fault);

/* -- http_linger.c --------------------------------------------------------- */

/* Reads a connection's rest away for a while; owns fd from now on. */
void http_linger_start(struct http_server *server, int fd);
/* Ends those whose time is over. */
void http_linger_expire(struct http_server *server, int64_t now_us);

/* -- http_reply.c ---------------------------------------------------------- */

/* Queues the finished answer. */
enum MHD_Result http_reply_queue(struct http_request *request);
/* Makes an answer of the server's own, that closes the connection. */
void http_reply_fault(
    struct http_request *request, const struct http_fault *fault);

#endif
