/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/codes.h"

const char *status_name(enum status status)
{
    switch (status) {
#define X(symbol, number, name)                                                \
    case STATUS_##symbol:                                                      \
        return name;
        STATUS_LIST(X)
#undef X
    }
    return NULL;
}

bool status_parse(struct span name, enum status *status)
{
    static const enum status all[] = {
#define X(symbol, number, text) STATUS_##symbol,
        STATUS_LIST(X)
#undef X
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (span_is(name, status_name(all[i]))) {
            *status = all[i];
            return true;
        }
    }
    return false;
}

const char *wait_reason_name(enum wait_reason reason)
{
    switch (reason) {
#define X(symbol, number, name)                                                \
    case WAIT_##symbol:                                                        \
        return name;
        WAIT_REASON_LIST(X)
#undef X
    }
    return NULL;
}

static const char *const ledger_kind_names[LEDGER_KIND_COUNT] = {
#define X(symbol, number, name) [LEDGER_##symbol] = (name),
    LEDGER_KIND_LIST(X)
#undef X
};

const char *ledger_kind_name(enum ledger_kind kind)
{
    const bool is_known = (unsigned)kind < LEDGER_KIND_COUNT;
    return is_known ? ledger_kind_names[kind] : NULL;
}

bool ledger_kind_parse(struct span name, enum ledger_kind *kind)
{
    for (int i = 0; i < LEDGER_KIND_COUNT; i++) {
        if (span_is(name, ledger_kind_names[i])) {
            *kind = (enum ledger_kind)i;
            return true;
        }
    }
    return false;
}

const char *effect_name(enum effect effect)
{
    switch (effect) {
    case EFFECT_NATURAL:
        return "natural";
    case EFFECT_KEYED:
        return "keyed";
    case EFFECT_UNSAFE:
        return "unsafe";
    }
    return NULL;
}

bool effect_parse(struct span name, enum effect *effect)
{
    static const enum effect all[] = {
        EFFECT_NATURAL, EFFECT_KEYED, EFFECT_UNSAFE};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (span_is(name, effect_name(all[i]))) {
            *effect = all[i];
            return true;
        }
    }
    return false;
}

const char *fault_class_name(enum fault_class class)
{
    switch (class) {
    case FAULT_TRANSIENT:
        return "transient";
    case FAULT_PERMANENT:
        return "permanent";
    case FAULT_UNKNOWN:
        return "unknown";
    }
    return NULL;
}

struct code_row {
    const char *name;
    const char *text;
    unsigned http_status;
};

static const struct code_row code_rows[CODE_COUNT] = {[CODE_NONE] = {"", "", 0},
#define X(symbol, http, words) [CODE_##symbol] = {#symbol, words, http},
    CODE_LIST(X)
#undef X
};

static const struct code_row *row_of(enum code code)
{
    const bool is_known = (unsigned)code < CODE_COUNT;
    return &code_rows[is_known ? code : CODE_NONE];
}

const char *code_name(enum code code)
{
    return row_of(code)->name;
}

const char *code_text(enum code code)
{
    return row_of(code)->text;
}

unsigned code_http_status(enum code code)
{
    return row_of(code)->http_status;
}

bool code_parse(struct span name, enum code *code)
{
    for (int i = CODE_NONE + 1; i < CODE_COUNT; i++) {
        if (span_is(name, code_rows[i].name)) {
            *code = (enum code)i;
            return true;
        }
    }
    return false;
}
