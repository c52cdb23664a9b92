/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/protocol.h"

enum claim_word protocol_claim(const struct claim_row *row)
{
    if (!row->has_row) {
        return CLAIM_REPEAT;
    }
    /* Under a position's id only that record itself can stand; other content
     * there means that the topic was made anew. Refusing it again would go
     * round in a circle. */
    if (!row->is_same && !row->is_source_id) {
        return CLAIM_CONFLICT;
    }
    if (row->is_live_mine && !row->is_in_memory) {
        return CLAIM_ADOPT;
    }
    return CLAIM_DUPLICATE;
}

enum begin_word protocol_begin(const struct live_row *row, int attempt_no)
{
    if (!row->has_row || !row->is_mine || row->attempt_no != attempt_no) {
        return BEGIN_DROP;
    }
    if (row->state == LIVE_BEGUN) {
        return BEGIN_GO;
    }
    return row->is_cancelled ? BEGIN_CANCEL : BEGIN_REPEAT;
}

enum settle_word protocol_settle(const struct settle_facts *facts)
{
    const struct live_row *live = &facts->live;

    if (live->has_row && live->is_mine &&
        live->attempt_no == facts->attempt_no) {
        return !facts->is_terminal && live->is_cancelled ? SETTLE_CANCEL
                                                         : SETTLE_REPEAT;
    }
    if (!facts->was_in_doubt) {
        return SETTLE_LATE;
    }
    if (facts->is_terminal) {
        return facts->has_outcome && facts->outcome_status == facts->status
                   ? SETTLE_APPLIED
                   : SETTLE_LATE;
    }
    return facts->has_waited ? SETTLE_APPLIED : SETTLE_LATE;
}
