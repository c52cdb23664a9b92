/* SPDX-License-Identifier: Apache-2.0 */
/* provider-double: a third-party HTTP API that misbehaves by script. */
#include "server.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2
#define READ_BYTES ((size_t)64 * 1024)

struct options {
    const char *log_path;
    const char *script_path;
    uint16_t port;
};

static const char help[] =
    "Usage: provider-double [--port P] [--script FILE] [--log FILE]\n"
    "\n"
    "Plays an HTTP/1.1 provider on 127.0.0.1 that answers by script, counts\n"
    "how often each effect happened and logs each request byte for byte.\n"
    "\n"
    "  --port P       port to listen on; 0 (the default) takes a free one\n"
    "  --script FILE  a script, or an array of them, as PUT /_control/script\n"
    "                 takes it (tests/double/README.md)\n"
    "  --log FILE     append each request as a line of JSON\n"
    "  --help         this text\n"
    "\n"
    "Prints `listening 127.0.0.1:PORT` once it serves. Ends on SIGTERM and\n"
    "SIGINT with 0; 1 = cannot start, 2 = wrong usage.\n";

static int parse_port(const char *text, uint16_t *port)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0 ||
        value > 65535) {
        (void)fprintf(stderr, "provider-double: --port: must be 0 to 65535\n");
        return -1;
    }
    *port = (uint16_t)value;
    return 0;
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"port", required_argument, NULL, 'p'},
        {"script", required_argument, NULL, 's'},
        {"log", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option = getopt_long(argc, argv, "", names, NULL);
    while (option != -1) {
        switch (option) {
        case 'p':
            if (parse_port(optarg, &options->port) != 0) {
                return EXIT_USAGE;
            }
            break;
        case 's':
            options->script_path = optarg;
            break;
        case 'l':
            options->log_path = optarg;
            break;
        case 'h':
            (void)fputs(help, stdout);
            return EXIT_SUCCESS;
        default:
            (void)fputs("Try: provider-double --help\n", stderr);
            return EXIT_USAGE;
        }
        option = getopt_long(argc, argv, "", names, NULL);
    }
    if (optind < argc) {
        (void)fprintf(
            stderr, "provider-double: takes no argument `%s`\n", argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

static int read_file(
    const char *path, struct buf *text, struct problem *problem)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return problem_set(problem, "--script %s: %s", path, strerror(errno));
    }
    size_t got = READ_BYTES;
    while (got == READ_BYTES && buf_reserve(text, READ_BYTES)) {
        got = fread(text->data + text->len, 1, READ_BYTES, file);
        text->len += got;
    }
    const bool is_failed = ferror(file) != 0 || text->is_over;
    (void)fclose(file); /* it was only read */
    return is_failed ? problem_set(problem,
                           "--script %s: cannot be read, or is larger "
                           "than %zu bytes",
                           path, text->max)
                     : 0;
}

static int load_script(
    struct provider *provider, const char *path, struct problem *problem)
{
    struct buf text;
    struct problem inner = {""};
    buf_init(&text, HTTP_MAX_BODY_BYTES);
    int result = read_file(path, &text, problem);
    if (result == 0 &&
        script_set_load(&provider->scripts, text.data, text.len, &inner) < 0) {
        result =
            problem_set(problem, "--script %.80s: %.160s", path, inner.msg);
    }
    buf_fini(&text);
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    const int exit_code = parse_options(argc, argv, &options);
    if (exit_code >= 0) {
        return exit_code;
    }
    struct provider provider;
    struct problem problem = {""};
    int result = provider_init(&provider, options.log_path, &problem);
    if (result == 0 && options.script_path != NULL) {
        result = load_script(&provider, options.script_path, &problem);
    }
    if (result == 0) {
        result = server_run(&provider, options.port, &problem);
    }
    provider_fini(&provider);
    if (result != 0) {
        (void)fprintf(stderr, "provider-double: %s\n", problem.msg);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
