/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http_private.h"

enum { HOST_SIZE = 64, PORT_SIZE = 8, BACKLOG = 1024 };

/* "127.0.0.1:8080" or "[::1]:8080" into host and port. */
static bool split(const char *text, char *host, char *port)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text) {
        return false;
    }
    const char *start = text;
    size_t len = (size_t)(colon - text);
    if (text[0] == '[') {
        if (colon[-1] != ']') {
            return false;
        }
        start = text + 1;
        len -= 2;
    }
    int64_t number = 0;
    if (len == 0 || len >= HOST_SIZE ||
        !span_to_int(span_of(colon + 1), &number) || number < 0 ||
        number > UINT16_MAX) {
        return false;
    }
    memcpy(host, start, len);
    host[len] = '\0';
    (void)snprintf(port, PORT_SIZE, "%d", (int)number);
    return true;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof(in6));
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

/* A host with a colon in it is IPv6. */
static void bound_text(int fd, char *out)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char host[HOST_SIZE] = "?";
    char port[PORT_SIZE] = "?";
    memset(&bound, 0, sizeof(bound));
    (void)getsockname(fd, (struct sockaddr *)&bound, &size);
    (void)getnameinfo((const struct sockaddr *)&bound, size, host, sizeof(host),
        port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(out, HTTP_ADDRESS_SIZE,
        strchr(host, ':') == NULL ? "%s:%s" : "[%s]:%s", host, port);
}

static int bind_to(
    const struct addrinfo *info, const char *text, struct err *err)
{
    static const int one = 1;
    const int fd =
        socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_set_errno(
            err, ERR_FATAL, "HTTP_LISTEN", "cannot make a socket for %s", text);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 ||
        listen(fd, BACKLOG) != 0) {
        (void)err_set_errno(
            err, ERR_FATAL, "HTTP_LISTEN", "cannot listen on %s", text);
        (void)close(fd);
        return -1;
    }
    return fd;
}

int http_listen(const struct http_options *options, char *out, struct err *err)
{
    const char *text = options->address;
    char host[HOST_SIZE];
    char port[PORT_SIZE];
    static const struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *info = NULL;
    if (!split(text, host, port) ||
        getaddrinfo(host, port, &hints, &info) != 0) {
        return err_set(err, ERR_FATAL, "HTTP_ADDRESS",
            "http.listen: %.100s is not an address and port like "
            "127.0.0.1:8080",
            text);
    }
    int fd = -1;
    if (!is_loopback(info->ai_addr) && options->cert_path == NULL &&
        !options->is_behind_proxy) {
        (void)err_set(err, ERR_FATAL, "HTTP_ADDRESS",
            "%.100s can be reached from outside: give a certificate and key,"
            " or say with --behind-proxy that a proxy stands in front",
            text);
    } else {
        fd = bind_to(info, text, err);
    }
    freeaddrinfo(info);
    if (fd >= 0) {
        bound_text(fd, out);
    }
    return fd;
}
