/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_canonical(): a walk with a stack of open containers. The sorted members
 * of all open objects lie on one stack, as names do in json_parse.c.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/json_scan.h"

enum { LOCAL_MEMBERS = 32, LOCAL_FRAMES = 16 };

struct frame {
    bool is_object;
    bool is_first;
    size_t base;               /* object: its first member on the stack */
    size_t next;               /* object: the member to write next */
    struct json_cursor cursor; /* array: where it is */
};

struct walk {
    struct buf *out;
    struct json_member *members;
    size_t member_count;
    size_t member_cap;
    struct frame *frames;
    size_t frame_count;
    size_t frame_cap;
    struct json_member local_members[LOCAL_MEMBERS];
    struct frame local_frames[LOCAL_FRAMES];
};

/* Writes the content of a checked string in the one form: escapes only where
 * JSON needs them, the short ones where there are. */
static void put_string(struct buf *out, struct span raw)
{
    buf_put_char(out, '"');
    if (raw.len > 0 && memchr(raw.ptr, '\\', raw.len) != NULL) {
        const char *at = raw.ptr;
        const char *end = at + raw.len;
        while (at < end) {
            char bytes[4];
            const size_t len = json_decode_step(&at, bytes);
            json_put_char(out, bytes, len);
        }
    } else {
        buf_put_span(out, raw);
    }
    buf_put_char(out, '"');
}

static int compare_members(const void *a, const void *b)
{
    const struct json_member *left = a;
    const struct json_member *right = b;
    return json_compare_decoded(left->name, right->name);
}

/* Twice the room of an array that began in local storage. */
static void *double_room(
    void *array, const void *local, size_t *cap, size_t size)
{
    const size_t old_cap = *cap;
    *cap = old_cap * 2;
    if (array != local) {
        return mem_resize(array, *cap, size);
    }
    void *moved = mem_alloc(*cap * size);
    memcpy(moved, local, old_cap * size);
    return moved;
}

static void push_members(struct walk *walk, struct json_value object)
{
    const size_t base = walk->member_count;
    struct json_cursor cursor = json_enter(object);
    struct json_member member;
    while (json_next(&cursor, &member)) {
        if (walk->member_count == walk->member_cap) {
            walk->members = double_room(walk->members, walk->local_members,
                &walk->member_cap, sizeof(*walk->members));
        }
        walk->members[walk->member_count++] = member;
    }
    if (walk->member_count > base) {
        qsort(walk->members + base, walk->member_count - base,
            sizeof(*walk->members), compare_members);
    }
}

static void open_container(struct walk *walk, struct json_value value)
{
    const bool is_object = value.type == JSON_OBJECT;
    if (walk->frame_count == walk->frame_cap) {
        walk->frames = double_room(walk->frames, walk->local_frames,
            &walk->frame_cap, sizeof(*walk->frames));
    }
    walk->frames[walk->frame_count++] = (struct frame){.is_object = is_object,
        .is_first = true,
        .base = walk->member_count,
        .next = walk->member_count,
        .cursor = json_enter(value)};
    buf_put_char(walk->out, is_object ? '{' : '[');
    if (is_object) {
        push_members(walk, value);
    }
}

static void put_value(struct walk *walk, struct json_value value)
{
    if (value.type == JSON_OBJECT || value.type == JSON_ARRAY) {
        open_container(walk, value);
    } else if (value.type == JSON_STRING) {
        put_string(walk->out,
            (struct span){.ptr = value.raw.ptr + 1, .len = value.raw.len - 2});
    } else {
        buf_put_span(walk->out, value.raw);
    }
}

/* The next member or element of the innermost container. */
static bool take_next(
    struct walk *walk, struct frame *frame, struct json_member *member)
{
    if (!frame->is_object) {
        return json_next(&frame->cursor, member);
    }
    /* Inner objects are off the stack again, so ours reach to its top. */
    if (frame->next == walk->member_count) {
        return false;
    }
    *member = walk->members[frame->next++];
    return true;
}

static void step(struct walk *walk)
{
    struct frame *frame = &walk->frames[walk->frame_count - 1];
    struct json_member member;
    if (!take_next(walk, frame, &member)) {
        buf_put_char(walk->out, frame->is_object ? '}' : ']');
        walk->member_count = frame->base;
        walk->frame_count--;
        return;
    }
    if (!frame->is_first) {
        buf_put_char(walk->out, ',');
    }
    frame->is_first = false;
    if (frame->is_object) {
        put_string(walk->out, member.name);
        buf_put_char(walk->out, ':');
    }
    put_value(walk, member.value);
}

void json_canonical(struct json_value value, struct buf *out)
{
    struct walk walk;
    walk.out = out;
    walk.members = walk.local_members;
    walk.member_count = 0;
    walk.member_cap = LOCAL_MEMBERS;
    walk.frames = walk.local_frames;
    walk.frame_count = 0;
    walk.frame_cap = LOCAL_FRAMES;
    put_value(&walk, value);
    while (walk.frame_count > 0) {
        step(&walk);
    }
    if (walk.members != walk.local_members) {
        free(walk.members);
    }
    if (walk.frames != walk.local_frames) {
        free(walk.frames);
    }
}
