/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/cancel.h"

enum cancel_word cancel_judge(const struct cancel_row *row)
{
    if (!row->is_known) {
        return CANCEL_UNKNOWN;
    }
    if (row->is_taken || row->is_marked) {
        return CANCEL_UNDER_WAY;
    }
    if (row->is_open) {
        return CANCEL_AGAIN;
    }
    if (row->status == STATUS_CANCELLED) {
        return CANCEL_DONE;
    }
    if (row->status != 0) {
        return CANCEL_TOO_LATE;
    }
    return CANCEL_NOT_YET;
}
