/* SPDX-License-Identifier: MIT
 *
 * test_param.c - named parameters: defaults, ranges, choices, and the sentences of refusals.
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"

static const pb_param described[] = {
    PB_COUNT("capacity", 64, 1, 100, "a count"),
    PB_TIME("hold_ns", 0, 0, 1000, "a time"),
    PB_CHOICE("order", "lifo|fifo|", "a choice, with the list macro's trailing bar"),
    PB_TEXT("library", "", "a text"),
    PB_TEXT("symbol", "pb_workload", "a text with a default"),
};
enum { DESCRIBED = sizeof described / sizeof described[0] };

static pb_params fresh_params(void)
{
    pb_params p;
    pb_params_init(&p, described, DESCRIBED);
    return p;
}

static void test_defaults(void)
{
    const pb_params p = fresh_params();
    CHECK_EQ(p.count, DESCRIBED);
    CHECK_EQ(pb_params_get(&p, "capacity"), 64);
    CHECK_EQ(pb_params_get(&p, "hold_ns"), 0);
    CHECK_EQ(pb_params_get(&p, "order"), 0);
    CHECK_EQ(strcmp(pb_params_text(&p, "library"), ""), 0);
    CHECK_EQ(strcmp(pb_params_text(&p, "symbol"), "pb_workload"), 0);
}

static void test_texts(void)
{
    pb_params p = fresh_params();
    pb_error error;
    CHECK_EQ(pb_params_set_text(&p, "library", "./lib a|b.so", &error), PB_OK); /* no choices */
    CHECK_EQ(strcmp(pb_params_text(&p, "library"), "./lib a|b.so"), 0);
    CHECK_EQ(strcmp(pb_params_text(&p, "symbol"), "pb_workload"), 0); /* its neighbour */
    char text[PB_TEXT_BYTES + 1];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_EQ(pb_params_set_text(&p, "symbol", text, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "symbol=xxx") && !strstr(error.text, "choose from"));
    CHECK_EQ(strcmp(pb_params_text(&p, "symbol"), "pb_workload"), 0);
    text[PB_TEXT_BYTES - 1] = '\0'; /* the longest that fits */
    CHECK_EQ(pb_params_set_text(&p, "symbol", text, &error), PB_OK);
    CHECK_EQ(strcmp(pb_params_text(&p, "symbol"), text), 0);
}

static void test_a_number_for_a_text_is_refused(void)
{
    pb_params p = fresh_params();
    pb_error error;
    for (int64_t number = 0; number < 2; number++) {
        CHECK_EQ(pb_params_set(&p, "library", number, &error), PB_BAD_VALUE);
        CHECK(strstr(error.text, "library=") && strstr(error.text, "not a text"));
    }
}

static void test_line_without_parameters(void)
{
    static const pb_param none[] = {PB_NO_PARAMS};
    pb_params p;
    pb_error error;
    pb_params_init(&p, none, 1);
    CHECK_EQ(p.count, 0);
    CHECK_EQ(pb_params_set(&p, "capacity", 1, &error), PB_BAD_VALUE);
}

static void test_both_ends_of_a_range_are_allowed(void)
{
    pb_params p = fresh_params();
    pb_error error;
    CHECK_EQ(pb_params_set(&p, "capacity", 1, &error), PB_OK);
    CHECK_EQ(pb_params_get(&p, "capacity"), 1);
    CHECK_EQ(pb_params_set(&p, "capacity", 100, &error), PB_OK);
    CHECK_EQ(pb_params_get(&p, "capacity"), 100);
}

static void test_outside_a_range_is_refused_and_changes_nothing(void)
{
    pb_params p = fresh_params();
    pb_error error;
    const int64_t outside[] = {0, 101, -1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(pb_params_set(&p, "capacity", outside[i], &error), PB_BAD_VALUE);
        CHECK(strstr(error.text, "capacity=") && strstr(error.text, "1 ... 100"));
    }
    CHECK_EQ(pb_params_get(&p, "capacity"), 64);
}

static void test_choices(void)
{
    pb_params p = fresh_params();
    pb_error error;
    CHECK_EQ(pb_params_set_text(&p, "order", "fifo", &error), PB_OK);
    CHECK_EQ(pb_params_get(&p, "order"), 1);
    CHECK_EQ(pb_params_set_text(&p, "order", "lifo", &error), PB_OK);
    CHECK_EQ(pb_params_get(&p, "order"), 0);
    const char *wrong[] = {"", "lif", "lifoo", "LIFO", "lifo|fifo", "|", "1"};
    for (int i = 0; i < 7; i++) {
        check_in("order=%s", wrong[i]);
        CHECK_EQ(pb_params_set_text(&p, "order", wrong[i], &error), PB_BAD_VALUE);
        CHECK(strstr(error.text, "lifo|fifo"));
    }
    CHECK_EQ(pb_params_set(&p, "order", 1, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "lifo|fifo"));
    CHECK_EQ(pb_params_get(&p, "order"), 0);
}

static void test_text_for_a_number_is_refused(void)
{
    pb_params p = fresh_params();
    pb_error error;
    CHECK_EQ(pb_params_set_text(&p, "capacity", "many", &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "capacity=many") && strstr(error.text, "not a number"));
}

static void test_unknown_name_lists_the_known(void)
{
    pb_params p = fresh_params();
    pb_error error;
    CHECK_EQ(pb_params_set(&p, "size", 1, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "'size'") && strstr(error.text, "capacity, hold_ns, order, library"));
    CHECK_EQ(pb_params_set_text(&p, "", "x", &error), PB_BAD_VALUE);
}

static void test_long_texts_are_cut_not_overrun(void)
{
    pb_params p = fresh_params();
    pb_error error;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_EQ(pb_params_set(&p, text, 1, &error), PB_BAD_VALUE);
    CHECK_EQ(strlen(error.text), sizeof error.text - 1);
    CHECK_EQ(pb_params_set_text(&p, "order", text, &error), PB_BAD_VALUE);
    CHECK_EQ(strlen(error.text), sizeof error.text - 1);
}

/* Each line of the lists: named once, summarised, default inside its own range. */
static void check_line(const pb_described *line)
{
    check_in("%s", line->name);
    CHECK(line->summary && strlen(line->summary) > 0);
    pb_params p;
    pb_params_init(&p, line->params, line->param_count);
    for (int i = 0; i < p.count; i++) {
        const pb_param *d = &line->params[i];
        check_in("%s(%s)", line->name, d->name);
        CHECK(d->low <= d->initial && d->initial <= d->high);
        CHECK(d->summary && strlen(d->summary) > 0);
        const bool has_text = d->kind == PB_CHOICE_KIND || d->kind == PB_TEXT_KIND;
        CHECK(has_text == (d->choices != NULL)); /* the choices, or the default of a text */
        for (int j = 0; j < i; j++)
            CHECK(strcmp(d->name, line->params[j].name) != 0);
    }
}

static void test_every_line_of_the_lists(void)
{
    for (int i = 0; i < PB_POOL_COUNT; i++) {
        check_line(&pb_pools[i].is);
        CHECK_EQ(pb_pool_find(pb_pools[i].is.name), i);
    }
    for (int i = 0; i < PB_WORKLOAD_COUNT; i++) {
        check_line(&pb_workloads[i].is);
        CHECK_EQ(pb_workload_find(pb_workloads[i].is.name), i);
    }
    for (int i = 0; i < PB_PATTERN_COUNT; i++) {
        check_line(&pb_patterns[i].is);
        CHECK_EQ(pb_pattern_find(pb_patterns[i].is.name), i);
    }
    CHECK_EQ(pb_pool_find("no such pool"), -1);
    CHECK_EQ(pb_workload_find(""), -1);
    CHECK_EQ(pb_pattern_find("churn "), -1);
}

int main(void)
{
    test_defaults();
    test_texts();
    test_a_number_for_a_text_is_refused();
    test_line_without_parameters();
    test_both_ends_of_a_range_are_allowed();
    test_outside_a_range_is_refused_and_changes_nothing();
    test_choices();
    test_text_for_a_number_is_refused();
    test_unknown_name_lists_the_known();
    test_long_texts_are_cut_not_overrun();
    test_every_line_of_the_lists();
    return check_report();
}
