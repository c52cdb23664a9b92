/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

void ledger_fini(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->count; i++) {
        free(ledger->items[i]->path);
        free(ledger->items[i]->key);
        free(ledger->items[i]->kept);
        free(ledger->items[i]);
    }
    free(ledger->items);
    map_fini(&ledger->by_name);
    *ledger = (struct ledger){0};
}

/* Neither path nor key holds a NUL: http.c refuses heads with one. */
static void name_format(
    struct buf *name, struct http_span path, struct http_span key)
{
    buf_init(name, HTTP_MAX_HEAD_BYTES * 2);
    buf_append(name, path.data, path.len);
    buf_append(name, "", 1);
    buf_append(name, key.data, key.len);
}

struct effect *ledger_find(
    const struct ledger *ledger, struct http_span path, struct http_span key)
{
    struct buf name;
    name_format(&name, path, key);
    const uint64_t *index = map_find(&ledger->by_name, name.data, name.len);
    buf_fini(&name);
    return index != NULL ? ledger->items[*index] : NULL;
}

static struct effect *add(
    struct ledger *ledger, struct http_span path, struct http_span key)
{
    if (ledger->count == ledger->cap) {
        ledger->cap = ledger->cap > 0 ? ledger->cap * 2 : 256;
        ledger->items =
            mem_resize(ledger->items, ledger->cap * sizeof(struct effect *));
    }
    struct effect *effect = mem_resize(NULL, sizeof *effect);
    *effect = (struct effect){.path = mem_copy(path.data, path.len),
        .key = mem_copy(key.data, key.len)};
    struct buf name;
    name_format(&name, path, key);
    *map_slot(&ledger->by_name, name.data, name.len) = ledger->count;
    buf_fini(&name);
    ledger->items[ledger->count++] = effect;
    return effect;
}

struct effect *ledger_call(struct ledger *ledger, struct http_span path,
    struct http_span key, struct http_span body, int64_t now_us)
{
    struct effect *effect = ledger_find(ledger, path, key);
    const uint64_t hash = map_hash(body.data, body.len);
    if (effect == NULL) {
        if (ledger->count == LEDGER_MAX_ENTRIES) {
            return NULL;
        }
        effect = add(ledger, path, key);
        effect->first_us = now_us;
        effect->body_hash = hash;
    }
    effect->calls++;
    effect->mismatches += hash != effect->body_hash ? 1 : 0;
    effect->last_us = now_us;
    return effect;
}

void ledger_keep(struct effect *effect, const struct answer *answer)
{
    if (effect->kept != NULL || answer->fill_bytes > 0 ||
        answer->bytes.len > LEDGER_MAX_KEPT_BYTES) {
        return;
    }
    effect->kept = mem_copy(answer->bytes.data, answer->bytes.len);
    effect->kept_bytes = answer->bytes.len;
    effect->kept_head_bytes = answer->head_bytes;
    effect->kept_status = answer->status;
}

void ledger_format(struct buf *out, const struct effect *effect)
{
    buf_text(out, "{\"path\":");
    buf_json(out, effect->path, strlen(effect->path));
    buf_text(out, ",\"key\":");
    buf_json(out, effect->key, strlen(effect->key));
    buf_printf(out,
        ",\"calls\":%llu,\"applied\":%llu,\"replays\":%llu,"
        "\"mismatches\":%llu,\"first_us\":%lld,\"last_us\":%lld,"
        "\"applied_us\":%lld}",
        (unsigned long long)effect->calls, (unsigned long long)effect->applied,
        (unsigned long long)effect->replays,
        (unsigned long long)effect->mismatches, (long long)effect->first_us,
        (long long)effect->last_us, (long long)effect->applied_us);
}
