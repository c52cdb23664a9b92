/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/tree.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "scheduler/ctl/commands.h"

enum { MAX_WORDS = 4, MAX_NODES = 512 };

struct walk {
    struct tree *tree;
    struct ctl *ctl;
    const char *words[MAX_WORDS];
    size_t count;
};

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz";

/* The next verb of a usage line such as "add FILE|list|show NAME": a word in
 * small letters that is no option. */
static struct span next_verb(const char **rest)
{
    while (**rest != '\0') {
        const char *start = *rest;
        const size_t len = strcspn(start, " |[].");
        *rest += len + (start[len] != '\0' ? 1 : 0);
        if (len > 0 && strspn(start, LETTERS) == len) {
            return (struct span){start, len};
        }
        if (len > 2 && start[0] == '-') {
            break; /* verbs stand before the options */
        }
    }
    return (struct span){0};
}

static char *join(const struct walk *walk)
{
    struct buf path;
    size_t len = 0;
    buf_init(&path, TREE_PATH_SIZE);
    for (size_t i = 0; i < walk->count; i++) {
        if (i > 0) {
            buf_put_char(&path, ' ');
        }
        buf_put_str(&path, walk->words[i]);
    }
    char *text = buf_take(&path, &len);
    buf_fini(&path);
    return text;
}

static void look(struct walk *walk, const struct command *top);

static void look_at_verbs(
    struct walk *walk, const struct command *top, const struct command *of)
{
    const char *rest = of->arguments;
    struct span verb;
    while (walk->count < MAX_WORDS - 1 && (verb = next_verb(&rest)).len > 0) {
        char word[32];
        if (verb.len >= sizeof(word)) {
            abort();
        }
        memcpy(word, verb.ptr, verb.len);
        word[verb.len] = '\0';
        walk->words[walk->count++] = word;
        look(walk, top);
        walk->count--;
    }
}

static void on_help(void *owner, const struct command *command,
    const struct ctl_option *options, size_t option_count)
{
    struct walk *walk = owner;
    if (walk->tree->count == MAX_NODES) {
        abort();
    }
    struct tree_node *node = &walk->tree->nodes[walk->tree->count++];
    node->path = join(walk);
    node->command = command;
    node->option_count = option_count;
    node->options = mem_zalloc(option_count + 1, sizeof(*options));
    if (option_count > 0) {
        memcpy(node->options, options, option_count * sizeof(*options));
    }
}

/* Asks "actionist WORDS --help", then for its verbs, unless the answer was its
 * parent's. */
static void look(struct walk *walk, const struct command *top)
{
    char help[] = "--help";
    char words[MAX_WORDS][32];
    char *argv[MAX_WORDS + 2] = {NULL};
    const size_t before = walk->tree->count;
    for (size_t i = 0; i < walk->count; i++) {
        (void)snprintf(words[i], sizeof(words[i]), "%s", walk->words[i]);
        argv[i] = words[i];
    }
    argv[walk->count] = help;
    (void)top->run(walk->ctl, (int)walk->count + 1, argv);
    if (walk->tree->count == before) {
        return; /* a word of the usage line that is no verb */
    }
    const struct tree_node *node = &walk->tree->nodes[before];
    if (!tree_is_verb(node)) {
        look_at_verbs(walk, top, node->command);
    }
}

void tree_init(struct tree *tree, struct ctl *ctl)
{
    struct ctl asking = *ctl;
    struct walk walk = {.tree = tree, .ctl = &asking};
    asking.on_help = on_help;
    asking.help_owner = &walk;
    tree->nodes = mem_zalloc(MAX_NODES, sizeof(*tree->nodes));
    walk.count = 0;
    tree->nodes[0].path = join(&walk); /* the top */
    tree->count = 1;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        walk.words[0] = COMMANDS[i]->name;
        walk.count = 1;
        look(&walk, COMMANDS[i]);
    }
}

void tree_fini(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        free(tree->nodes[i].path);
        free(tree->nodes[i].options);
    }
    free(tree->nodes);
}

bool tree_is_child(const struct tree_node *parent,
    const struct tree_node *child, const char **word)
{
    const size_t len = strlen(parent->path);
    if (child == parent || strncmp(child->path, parent->path, len) != 0) {
        return false;
    }
    *word = child->path + len + (len > 0 ? 1 : 0);
    return (len == 0 || child->path[len] == ' ') && **word != '\0' &&
           strchr(*word, ' ') == NULL;
}

bool tree_is_verb(const struct tree_node *node)
{
    return node->command != NULL &&
           strcmp(node->path, node->command->name) != 0;
}
