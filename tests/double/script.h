/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the double answers: scripts by path, each a list of steps, and how far
 * each caller has come in them. README.md describes the JSON form; reading it
 * is script_parse.c. No I/O, no thread safety.
 */
#ifndef DOUBLE_SCRIPT_H
#define DOUBLE_SCRIPT_H

#include "http.h"
#include "map.h"
#include "problem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCRIPT_MAX_COUNT 10000
#define SCRIPT_MAX_PREFIXES 1000
#define SCRIPT_MAX_STEPS 1000
#define SCRIPT_MAX_HEADERS 64
#define SCRIPT_MAX_BODY_BYTES ((size_t)4 * 1024 * 1024)
#define SCRIPT_MAX_COUNTERS ((size_t)1000 * 1000)

enum step_reset {
    STEP_RESET_NONE,
    STEP_RESET_BEFORE_BODY,
    STEP_RESET_AFTER_BODY
};

enum date_format { DATE_FORMAT_IMF, DATE_FORMAT_RFC850, DATE_FORMAT_ASCTIME };

struct step {
    char *headers; /* owned; whole header lines */
    char *body;    /* owned */
    char *raw;     /* owned; NULL unless these bytes are the whole answer */
    size_t body_len;
    size_t raw_len;
    int64_t fill_bytes;     /* a body of that many `x`; -1 none */
    int64_t truncate_bytes; /* body bytes sent before the close; -1 all */
    int64_t retry_after_s;  /* as the headers say it in seconds; -1 none */
    int64_t retry_date_s;   /* Retry-After as a date, from now; -1 none */
    int64_t delay_us;
    int64_t drip_bytes; /* body bytes at a time; 0 all at once */
    int64_t drip_every_us;
    int64_t times; /* how often in a row the step is used */
    int status;
    enum step_reset reset;
    enum date_format date_format;
    bool has_content_type;
    bool has_date;
    bool has_length;
    bool is_template;
    bool is_chunked;
    bool is_never;
    bool is_close;
    bool has_effect;
};

enum script_per {
    SCRIPT_PER_PATH, /* each path of the request has its own count */
    SCRIPT_PER_KEY,  /* each value of the key header */
    SCRIPT_PER_ALL   /* one count for the script */
};

struct script {
    char *path;       /* owned; without the `*` of a prefix */
    char *method;     /* owned; "" = any */
    char *key_header; /* owned */
    struct step *steps;
    size_t step_count;
    int64_t total_times;
    struct map counters;
    enum script_per per;
    bool is_prefix;
    bool is_cycle; /* start again after the last step, else repeat it */
    bool is_dedup; /* a key that succeeded gets its first answer again */
};

struct script_set {
    struct script **items; /* owned, NULL = removed */
    size_t count;
    size_t live_count;
    size_t prefix_count;
    struct map by_name; /* "METHOD path[*]" to index + 1; 0 = removed */
};

/*
 * Reads one script or an array of scripts into the set, replacing those of
 * the same method and path. Bad input changes nothing. Returns how many, or -1.
 */
int script_set_load(struct script_set *set, const char *text, size_t len,
    struct problem *problem);
void script_free(struct script *script);

/* An all-zero set is empty and ready. */
void script_set_fini(struct script_set *set);
/* Takes `script` over, also on failure. */
int script_set_put(
    struct script_set *set, struct script *script, struct problem *problem);
/* True when there was one. `path` ends in `*` for a prefix script. */
bool script_set_remove(
    struct script_set *set, const char *method, const char *path);
/* The script for a request: exact before prefix, longer before shorter, one
 * with a method before one without. NULL when there is none. */
struct script *script_set_find(const struct script_set *set,
    struct http_span method, struct http_span path);

/*
 * The step a call gets that has this path and key. Advances the count when
 * `is_taken`. `n` receives the number of the call, from 1.
 */
const struct step *script_step(struct script *script, struct http_span path,
    struct http_span key, bool is_taken, uint64_t *n);

#endif
