# SPDX-License-Identifier: Apache-2.0
"""What the test runners and the pytest suites share."""
