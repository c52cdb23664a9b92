# SPDX-License-Identifier: Apache-2.0
"""How large a numbered case is run: as small as it still can fail, or, with
`make cases CASES=--whole`, as its text says (some take minutes)."""

import os

IS_WHOLE = os.environ.get("ACTIONIST_CASES") == "whole"


def size(small, whole):
    return whole if IS_WHOLE else small
