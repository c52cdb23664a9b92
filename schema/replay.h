/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay: many ended actions run again, or their outcomes sent again, as one
 * thing with an id, which others can watch, pause and cancel. What is decided
 * about each of them, and the row of table `replay`. No I/O.
 *
 * An action and its repetitions are a line, named by the id of the first. At
 * most one of a line is under way at any time (table `replay_open`), and a
 * replay runs each line once at most.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "common/crypt.h"
#include "common/pg.h"
#include "schema/record.h"

/* The most ids of one replay, and of one row of `replay_ids`. */
#define REPLAY_MAX_IDS 1000000
#define REPLAY_PART_IDS 1000
#define REPLAY_MAX_RATE 100000
#define REPLAY_MAX_REASON 500
#define REPLAY_MAX_TOPIC 249
#define REPLAY_SAMPLE 10

enum replay_kind { REPLAY_ACTIONS = 1, REPLAY_OUTCOMES = 2 };

/* X(symbol, number, name) */
#define REPLAY_PHASE_LIST(X)                                                   \
    X(COUNTING, 1, "counting")                                                 \
    X(RUNNING, 2, "running")                                                   \
    X(ENDING, 3, "ending") /* all is published, not all has ended */           \
    X(DONE, 4, "done")                                                         \
    X(CANCELLED, 5, "cancelled")

enum replay_phase {
#define X(symbol, number, name) REPLAY_##symbol = number,
    REPLAY_PHASE_LIST(X)
#undef X
};

/* Why one is left out. X(symbol, number, name, words for people) */
#define REPLAY_SKIP_LIST(X)                                                    \
    X(SUCCEEDED, 1, "succeeded", "it has succeeded")                           \
    X(RUNNING, 2, "running", "it, or a replay of it, is still under way")      \
    X(MAY_HAVE_ACTED, 3, "may_have_acted",                                     \
        "it may have had its effect, and nothing would keep it from having "   \
        "it twice; name it by id if it should run all the same")               \
    X(GONE, 4, "gone", "its request is not kept any more")                     \
    X(UNDECLARED, 5, "undeclared",                                             \
        "its connector does not declare the action any more")                  \
    X(CONFLICT, 6, "conflict", "its key belongs to another request")           \
    X(UNKNOWN, 7, "unknown", "no such action")                                 \
    X(REPEATED, 8, "repeated", "another one of its line is in this replay")    \
    X(PAUSED, 9, "paused", "its tenant, connector or action is paused")

enum replay_skip {
    REPLAY_SKIP_NONE = 0, /* it runs */
#define X(symbol, number, name, text) REPLAY_SKIP_##symbol = number,
    REPLAY_SKIP_LIST(X)
#undef X
        REPLAY_SKIP_COUNT
};
const char *replay_skip_name(enum replay_skip skip); /* NULL for NONE */
const char *replay_skip_text(enum replay_skip skip);

#define REPLAY_STATUS_COUNT 9 /* terminal statuses are 1 to 8 */

/* -- the decision ---------------------------------------------------------- */

struct replay_facts {
    bool is_known;       /* the tenant has it */
    bool is_open;        /* it, or one of its line, has not ended */
    bool is_repeated;    /* this replay has one of its line already */
    bool has_succeeded;  /* one of its line */
    bool has_request;    /* still kept */
    bool is_paused;      /* its tenant, connector or action */
    bool is_conflict;    /* refused because its key is another one's */
    enum status status;  /* of its outcome */
    enum effect before;  /* as declared when it was accepted; 0: rejected */
    enum effect now;     /* as declared now; 0: not any more */
    bool is_key_expired; /* the provider may have forgotten its key */
    bool is_named;       /* by id */
    bool is_forced;      /* also if it has succeeded */
    bool has_new_key;
};

/* Whether one runs, or why not. */
enum replay_skip replay_judge(const struct replay_facts *facts);

/* The id of the action by which a replay runs a line: the same at any try. */
void replay_action_id(const uint8_t replay[UUID_SIZE],
    const uint8_t root[UUID_SIZE], uint8_t id[UUID_SIZE]);

/* -- the row ------------------------------------------------------------------ */

/* What is asked for. Texts are "" and times 0 where nothing is asked. */
struct replay_wish {
    uint8_t id[UUID_SIZE];
    enum replay_kind kind;
    char tenant[RECORD_MAX_NAME + 1];
    int64_t id_count; /* 0: by what follows */
    char connector[RECORD_MAX_NAME + 1];
    char action[RECORD_MAX_NAME + 1];
    int statuses; /* bit s for status s; 0: any */
    char error_code[64];
    int64_t since_us;                 /* ended at or after */
    int64_t until_us;                 /* ended before */
    char source[RECORD_MAX_NAME + 1]; /* of webhooks */
    bool is_dry_run;
    bool is_held; /* pauses itself once it has counted */
    bool has_new_key;
    bool is_forced;
    int64_t rate;     /* a second; 0: as fast as workers take them */
    int64_t max_rows; /* 0: all */
    char to_topic[REPLAY_MAX_TOPIC + 1];
    char actor[128];
    char reason[REPLAY_MAX_REASON + 1];
};

/* RFC 3339, or how long ago: 90s, 15m, 2h, 7d. */
bool replay_parse_time(struct span text, int64_t now_wall_us, int64_t *wall_us);
/* Terminal statuses with commas between. */
bool replay_parse_statuses(struct span text, int *statuses);
/* A number, "/s" may follow. */
bool replay_parse_rate(struct span text, int64_t *rate);
bool replay_topic_is_valid(struct span topic); /* as Kafka has it */
/* Whether it asks for more than ids and a tenant. */
bool replay_wish_has_filter(const struct replay_wish *wish);
/* What is wrong with it as a whole; NULL: nothing. Static. */
const char *replay_wish_fault(const struct replay_wish *wish);

struct replay {
    struct replay_wish wish;
    enum replay_phase phase;
    bool is_paused;
    bool is_settled; /* all that it published has ended */
    int64_t from_seq;
    int64_t to_seq;
    int64_t bound; /* 0: not known yet */
    int64_t created_at_us;
    int64_t ended_at_us;
    int64_t position;
    int64_t matched;
    int64_t planned;
    uint8_t sample[REPLAY_SAMPLE][UUID_SIZE];
    size_t sample_count;
    int64_t published;
    int64_t skips[REPLAY_SKIP_COUNT];
    int64_t ends[REPLAY_STATUS_COUNT];
    int64_t tallied_seq;
    char trouble[256];
};

/* The columns that replay_read() wants, of `replay r`. */
#define REPLAY_COLUMNS                                                         \
    " r.id, r.kind, r.tenant, r.id_count, r.connector, r.action, r.statuses,"  \
    " r.error_code, r.since, r.until, r.source, r.is_dry_run, r.is_held,"      \
    " r.has_new_key, r.is_forced, r.rate, r.max_rows, r.to_topic, r.actor,"    \
    " r.reason, r.phase, r.is_paused, r.is_settled, r.from_seq, r.to_seq,"     \
    " r.bound, r.created_at, r.ended_at, r.position, r.matched, r.planned,"    \
    " r.published, r.tallied_seq, r.trouble,"                                  \
    " array_to_string(r.sample, ' '), array_to_string(r.skips, ' '),"          \
    " array_to_string(r.ends, ' ') "

/* Takes a row of these columns, from `column` on. */
void replay_read(
    const PGresult *rows, int row, int column, struct replay *replay);

/* "paused" while it is, else the name of the phase. */
const char *replay_state(const struct replay *replay);
int64_t replay_ended(const struct replay *replay);   /* of what it published */
int64_t replay_skipped(const struct replay *replay); /* in all */
/* Appends the document of /v1/replays/{id}. */
void replay_put(struct buf *out, const struct replay *replay);

/* -- its actions ------------------------------------------------------------- */

/* Of an action a: what it repeats, as whom the provider knows it, and whether
 * that is not by the key of the request. The first is null if it is no replay,
 * then the others say nothing. */
#define REPLAY_OF_ACTION                                                       \
    "a.replay_of, coalesce(a.effect_id, a.id),"                                \
    " coalesce(a.effect_id, a.id) <> a.root_id"
enum replay_of_column {
    REPLAY_OF_ID,
    REPLAY_OF_EFFECT_ID,
    REPLAY_OF_HAS_OWN_KEY,
    REPLAY_OF_COLUMNS
};

/* -- acts -------------------------------------------------------------------- */

enum replay_act { REPLAY_PAUSE = 1, REPLAY_RESUME = 2, REPLAY_CANCEL = 3 };

/* The parameters of REPLAY_CREATE_SQL. */
void replay_put_wish(struct pg_params *params, const struct replay_wish *wish);

#endif
