/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the frames between worker and runner as both ends read them: one
 * frame after the other from the front. What is read must lie within the
 * bytes that came.
 */
#include <stdint.h>
#include <stdlib.h>

#include "worker/run/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_within(struct span part, struct span whole)
{
    if (part.len > 0 && (part.ptr < whole.ptr || part.len > whole.len ||
                            part.ptr > whole.ptr + (whole.len - part.len))) {
        abort();
    }
}

static void read_job(struct span content)
{
    struct frame_job job;
    if (frame_get_job(content, &job) != 0) {
        return;
    }
    require_within(job.method, content);
    require_within(job.url, content);
    require_within(job.body, content);
    for (size_t i = 0; i < job.header_count; i++) {
        require_within(job.headers[i].name, content);
        require_within(job.headers[i].value, content);
    }
    for (size_t i = 0; i < job.egress_count; i++) {
        require_within(job.egress[i].host, content);
    }
}

static void read_frame(const struct frame *frame)
{
    struct frame_setup setup;
    struct frame_echo echo;
    struct run_result result;
    uint32_t index = 0;
    if (frame->type == FRAME_JOB) {
        read_job(frame->content);
    } else if (frame->type == FRAME_SETUP &&
               frame_get_setup(frame->content, &setup) == 0) {
        require_within(setup.private_allow, frame->content);
        require_within(setup.ca_file, frame->content);
    } else if (frame->type == FRAME_ECHO &&
               frame_get_echo(frame->content, &echo) == 0) {
        require_within(echo.body, frame->content);
    } else if (frame->type == FRAME_RESULT &&
               frame_get_result(frame->content, &index, &result) == 0) {
        require_within(result.headers, frame->content);
        require_within(result.body, frame->content);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = {.ptr = (const char *)data, .len = size};
    struct frame frame;
    size_t used = 0;
    while (frame_next(rest, &frame, &used) == 1) {
        require_within(frame.content, rest);
        read_frame(&frame);
        rest.ptr += used;
        rest.len -= used;
    }
    return 0;
}
