/* SPDX-License-Identifier: MIT
 *
 * param.h (L1) - named parameters: how a list line describes one, and the values of one cell.
 *
 * All values are int64: counts, bytes, nanoseconds, or the index of a choice. The lines in the .def
 * files are the only place where default, range and unit stand; Python reads them from here.
 */
#ifndef PB_PARAM_H
#define PB_PARAM_H

#include "base.h"

enum { PB_PARAMS_MAX = 12, PB_TEXT_BYTES = 512 };

typedef enum pb_param_kind {
    PB_COUNT_KIND,
    PB_SIZE_KIND,
    PB_TIME_KIND,
    PB_PERIOD_KIND,
    PB_CHOICE_KIND,
    PB_TEXT_KIND,
} pb_param_kind;

typedef struct pb_param {
    const char *name;
    pb_param_kind kind;
    int64_t initial;     /* default value */
    int64_t low, high;   /* both ends allowed */
    const char *choices; /* "a|b|c", for PB_CHOICE_KIND, else NULL */
    const char *summary;
} pb_param;

#define PB_COUNT(name, initial, low, high, summary) \
    {name, PB_COUNT_KIND, initial, low, high, NULL, summary}
#define PB_SIZE(name, initial, low, high, summary) \
    {name, PB_SIZE_KIND, initial, low, high, NULL, summary}
#define PB_TIME(name, initial, low, high, summary) \
    {name, PB_TIME_KIND, initial, low, high, NULL, summary}
/* Milliseconds of run time after which something recurs; a window lasts several of them. 0: never.
 */
#define PB_PERIOD(name, initial, low, high, summary) \
    {name, PB_PERIOD_KIND, initial, low, high, NULL, summary}
/* The first choice is the default. */
#define PB_CHOICE(name, choices, summary) {name, PB_CHOICE_KIND, 0, 0, 0, choices, summary}

/* For a list line that has none. */
#define PB_NO_PARAMS {NULL, PB_COUNT_KIND, 0, 0, 0, NULL, NULL}

/* A text, such as a file; `choices` holds its default. */
#define PB_TEXT(name, initial, summary) {name, PB_TEXT_KIND, 0, 0, 0, initial, summary}

typedef struct pb_params {
    const pb_param *described; /* the list line's parameters */
    int count;
    int64_t value[PB_PARAMS_MAX];
    char text[PB_PARAMS_MAX][PB_TEXT_BYTES]; /* of those of PB_TEXT_KIND */
} pb_params;

/* Fills `p` with the defaults of `count` described parameters. */
void pb_params_init(pb_params *p, const pb_param *described, int count);

/* Sets one by name: from a number, or for choices and texts from text. PB_BAD_VALUE with a sentence
   that names the value and the choices. */
pb_status pb_params_set(pb_params *p, const char *name, int64_t value, pb_error *error);
pb_status pb_params_set_text(pb_params *p, const char *name, const char *text, pb_error *error);

/* True when something recurs: one of the periods is not 0. */
bool pb_params_recur(const pb_params *p);

/* The value of a parameter that the list line has; asking for another is our own mistake (asserts).
 */
int64_t pb_params_get(const pb_params *p, const char *name);
const char *pb_params_text(const pb_params *p, const char *name);

#endif
