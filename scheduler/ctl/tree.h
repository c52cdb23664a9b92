/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree: all commands with their verbs and options, as --help knows them: each
 * command is asked for its help, and tells it here instead of printing it. So
 * completion and manual page can neither miss nor invent a word.
 */
#ifndef TREE_H
#define TREE_H

#include "scheduler/ctl/ctl.h"

enum { TREE_PATH_SIZE = 96 }; /* the longest path of words */

struct tree_node {
    char *path;                    /* "webhook source add"; "" of the top */
    const struct command *command; /* whose help this is; NULL of the top */
    struct ctl_option *options;    /* its own; names and help are borrowed */
    size_t option_count;
};

struct tree {
    struct tree_node *nodes; /* a parent before its children */
    size_t count;
};

/* Aborts without memory. The owner calls tree_fini(). */
void tree_init(struct tree *tree, struct ctl *ctl);
void tree_fini(struct tree *tree);

/* Whether child's path is that of parent and one word more; then *word is this
 * word, within child. */
bool tree_is_child(const struct tree_node *parent,
    const struct tree_node *child, const char **word);
/* Whether the node is a verb that shares the help of its parent. */
bool tree_is_verb(const struct tree_node *node);

#endif
