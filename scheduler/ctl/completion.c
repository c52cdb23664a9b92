/* SPDX-License-Identifier: Apache-2.0 */
/* completion: words for the shells' Tab key, from the tables of --help. */
#include <string.h>

#include "scheduler/ctl/commands.h"
#include "scheduler/ctl/tree.h"

/* Calls back with each word that may follow a node, and what it means. */
typedef void word_fn(const char *word, const char *help);

static void put_options(
    const struct ctl_option *options, size_t count, word_fn *put)
{
    for (size_t i = 0; i < count; i++) {
        char word[64];
        (void)snprintf(word, sizeof(word), "--%s", options[i].name);
        put(word, options[i].help);
    }
}

static const char *help_of(const struct tree_node *node)
{
    return tree_is_verb(node) ? "" : node->command->summary;
}

static void put_words(
    const struct tree *tree, const struct tree_node *node, word_fn *put)
{
    const char *word = NULL;
    for (size_t i = 0; i < tree->count; i++) {
        if (tree_is_child(node, &tree->nodes[i], &word)) {
            put(word, help_of(&tree->nodes[i]));
        }
    }
    if (node->command != NULL) {
        put_options(node->options, node->option_count, put);
        put_options(CTL_GLOBAL_OPTIONS, CTL_GLOBAL_OPTION_COUNT, put);
    }
}

/* Within single quotes of any of the shells, and of zsh's "word:help". */
static void put_quoted(const char *text, const char *escaped)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr(escaped, *text) != NULL) {
            putchar('\\');
        }
        putchar(*text);
    }
}

/* -- bash ------------------------------------------------------------------ */

static void put_bash_word(const char *word, const char *help)
{
    (void)help;
    printf(" %s", word);
}

static void print_bash(const struct tree *tree)
{
    puts("# bash completion of actionist: . <(actionist completion bash)\n"
         "_actionist_words()\n"
         "{\n"
         "    case \"$1\" in");
    for (size_t i = 0; i < tree->count; i++) {
        printf("    '%s') echo", tree->nodes[i].path);
        put_words(tree, &tree->nodes[i], put_bash_word);
        puts(" ;;");
    }
    puts("    esac\n"
         "}\n"
         "_actionist()\n"
         "{\n"
         "    local path= word\n"
         "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "        if [ -n \"$(_actionist_words \"${path:+$path }$word\")\" ]\n"
         "        then path=\"${path:+$path }$word\"; fi\n"
         "    done\n"
         "    mapfile -t COMPREPLY < <(compgen -W \\\n"
         "        \"$(_actionist_words \"$path\")\" -- "
         "\"${COMP_WORDS[COMP_CWORD]}\")\n"
         "}\n"
         "complete -o default -F _actionist actionist");
}

/* -- zsh ------------------------------------------------------------------- */

static void put_zsh_word(const char *word, const char *help)
{
    printf(" '%s:", word);
    put_quoted(help, ":\\");
    putchar('\'');
}

static void print_zsh(const struct tree *tree)
{
    puts("#compdef actionist\n"
         "# zsh completion of actionist: . <(actionist completion zsh)\n"
         "_actionist_words()\n"
         "{\n"
         "    case \"$1\" in");
    for (size_t i = 0; i < tree->count; i++) {
        printf("    '%s') found=(", tree->nodes[i].path);
        put_words(tree, &tree->nodes[i], put_zsh_word);
        puts(") ;;");
    }
    puts("    *) return 1 ;;\n"
         "    esac\n"
         "}\n"
         "_actionist()\n"
         "{\n"
         "    local at= word\n"
         "    local -a found\n"
         "    for word in ${words[2,CURRENT-1]}; do\n"
         "        _actionist_words \"${at:+$at }$word\" && "
         "at=\"${at:+$at }$word\"\n"
         "    done\n"
         "    _actionist_words \"$at\"\n"
         "    _describe -V actionist found || _files\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _actionist ]; then _actionist \"$@\"\n"
         "else compdef _actionist actionist; fi");
}

/* -- fish ------------------------------------------------------------------ */

static const char *fish_path;

static void put_fish_word(const char *word, const char *help)
{
    printf("complete -c actionist -n '_actionist_is_at \"%s\"' -a '%s' -d '",
        fish_path, word);
    for (; *help != '\0'; help++) {
        fputs(*help == '\'' ? "\\'" : (char[]){*help, '\0'}, stdout);
    }
    puts("'");
}

static void print_fish(const struct tree *tree)
{
    fputs("# fish completion of actionist: actionist completion fish | source\n"
          "set -g _actionist_paths",
        stdout);
    for (size_t i = 1; i < tree->count; i++) {
        printf(" '%s'", tree->nodes[i].path);
    }
    puts("\n"
         "function _actionist_is_at\n"
         "    set -l at ''\n"
         "    for word in (commandline -opc)[2..-1]\n"
         "        set -l next (string trim -- \"$at $word\")\n"
         "        contains -- $next $_actionist_paths; and set at $next\n"
         "    end\n"
         "    test \"$at\" = \"$argv[1]\"\n"
         "end");
    for (size_t i = 0; i < tree->count; i++) {
        fish_path = tree->nodes[i].path;
        put_words(tree, &tree->nodes[i], put_fish_word);
    }
}

/* -- the command ----------------------------------------------------------- */

static const struct shell {
    const char *name;
    void (*print)(const struct tree *tree);
} SHELLS[] = {
    {"bash", print_bash},
    {"zsh", print_zsh},
    {"fish", print_fish},
};

static int run(struct ctl *ctl, int argc, char **argv)
{
    const char *rest[1] = {NULL};
    int code = CTL_DONE;
    const int count = ctl_options(
        ctl, &COMMAND_COMPLETION, NULL, 0, argc, argv, rest, 1, &code);
    if (count < 0) {
        return code;
    }
    for (size_t i = 0; i < ARRAY_LEN(SHELLS) && count == 1; i++) {
        if (strcmp(rest[0], SHELLS[i].name) == 0) {
            struct tree tree;
            tree_init(&tree, ctl);
            SHELLS[i].print(&tree);
            tree_fini(&tree);
            return CTL_DONE;
        }
    }
    return ctl_fail(CTL_USAGE, "completion takes bash, zsh or fish");
}

const struct command COMMAND_COMPLETION = {
    .name = "completion",
    .arguments = "bash|zsh|fish",
    .summary = "Print what makes a shell complete this command's words",
    .details = "  . <(actionist completion bash)          bash\n"
               "  . <(actionist completion zsh)           zsh, after compinit\n"
               "  actionist completion fish | source      fish",
    .run = run,
};
