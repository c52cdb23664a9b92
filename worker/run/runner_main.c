/* SPDX-License-Identifier: Apache-2.0 */
/* actionist-runner: started by the keeper alone, never by hand. */
#include <unistd.h>

#include "worker/run/runner.h"

int main(void)
{
    _exit(runner_main());
}
