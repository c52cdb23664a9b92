/* SPDX-License-Identifier: Apache-2.0 */
/* actionist-runner: started by the keeper alone, never by hand. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/conf.h"
#include "worker/run/runner.h"

enum { EXIT_USAGE = 2 };

static const char HELP[] =
    "Usage: actionist-runner\n"
    "\n"
    "  --version          print the version and exit\n"
    "  --help             print this and exit\n"
    "\n"
    "Makes the HTTP calls of one tenant. actionist-worker starts one for each\n"
    "tenant, from its own folder, with limits and a uid of its own and a\n"
    "socket as descriptor 3; by hand there is nothing to do with it. It has\n"
    "no settings: those of its worker begin with run. and egress.\n";

static int answer(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        (void)fputs(HELP, stdout);
    } else if (strcmp(word, "--version") == 0) {
        (void)puts("actionist-runner " ACTIONIST_VERSION);
    } else {
        (void)fprintf(stderr,
            "actionist-runner: unexpected argument %.100s; see "
            "actionist-runner --help\n",
            word);
        return EXIT_USAGE;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return answer(argv[1]);
    }
    _exit(runner_main());
}
