/* SPDX-License-Identifier: MIT
 *
 * test_slot_scan.c - what slot_scan promises of itself: which slot is used, and that all of them
 * are.
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"
#include "crowd.h"

enum { CAPACITY = 4, MOST = 70 };

static void opened(parts *p, const char *pool, int threads)
{
    check_in("%s", pool);
    const pb_cell cell = cell_of(pool, "widget", "churn", threads);
    parts_open(p, &cell, NULL);
    for (int i = 0; i < threads; i++)
        (void)parts_attach(p, i);
}

static void closed(parts *p, int threads)
{
    for (int i = 0; i < threads; i++) {
        CHECK_EQ(p->ctx[i]->events[PB_RETRIED], 0); /* nobody came between */
        parts_detach(p, i);
    }
    CHECK_EQ(parts_close(p), 0);
}

static void acquire_new(parts *p, int thread, void **out, int count)
{
    for (int i = 0; i < count; i++) {
        const pb_got got = parts_acquire(p, p->ctx[thread]);
        CHECK_EQ(got.how, PB_CONSTRUCTED);
        out[i] = got.object;
    }
}

static void check_hit(parts *p, int thread, const void *wanted)
{
    const pb_got got = parts_acquire(p, p->ctx[thread]);
    CHECK_EQ(got.how, PB_SHARED_HIT);
    CHECK(got.object == wanted);
}

/* start=zero: the first empty slot is filled and the first full one is emptied. */
static void test_first_that_will_do(const char *pool)
{
    parts p;
    opened(&p, pool, 2);
    void *o[CAPACITY + 1];
    acquire_new(&p, 0, o, CAPACITY + 1);
    for (int i = 0; i < CAPACITY; i++)
        CHECK_EQ(parts_return(&p, p.ctx[i % 2], o[i]), PB_KEPT); /* whoever releases */
    check_hit(&p, 0, o[0]);
    check_hit(&p, 1, o[1]);
    CHECK_EQ(parts_return(&p, p.ctx[1], o[4]), PB_KEPT); /* into slot 0 */
    check_hit(&p, 0, o[4]);
    check_hit(&p, 0, o[2]); /* slots 0 and 1 are empty */
    CHECK_EQ(parts_return(&p, p.ctx[0], o[0]), PB_KEPT);
    CHECK_EQ(parts_return(&p, p.ctx[0], o[1]), PB_KEPT);
    CHECK_EQ(parts_return(&p, p.ctx[0], o[2]), PB_KEPT);
    CHECK_EQ(parts_return(&p, p.ctx[0], o[4]), PB_DESTROYED); /* all full */
    CHECK_EQ(parts_idle(&p), CAPACITY);
    for (int i = 0; i < CAPACITY; i++)
        check_hit(&p, 0, o[i]);
    void *last;
    acquire_new(&p, 0, &last, 1);
    CHECK_EQ(parts_return(&p, p.ctx[0], last), PB_KEPT);
    for (int i = 0; i < CAPACITY; i++)
        CHECK_EQ(parts_return(&p, p.ctx[0], o[i]), i < CAPACITY - 1 ? PB_KEPT : PB_DESTROYED);
    closed(&p, 2);
}

/* start=hash: of 4 slots, thread 0 begins at 0 and thread 1 at 2; each goes round once. */
static void test_each_its_own_start(const char *pool)
{
    parts p;
    opened(&p, pool, 2);
    void *o[CAPACITY];
    acquire_new(&p, 0, o, CAPACITY);
    for (int round = 0; round < 3; round++) { /* apart: each finds its own again */
        CHECK_EQ(parts_return(&p, p.ctx[1], o[1]), PB_KEPT);
        CHECK_EQ(parts_return(&p, p.ctx[0], o[0]), PB_KEPT);
        check_hit(&p, 1, o[1]);
        check_hit(&p, 0, o[0]);
    }
    for (int i = 0; i < CAPACITY; i++) /* into slots 2, 3, 0, 1 */
        CHECK_EQ(parts_return(&p, p.ctx[1], o[i]), PB_KEPT);
    check_hit(&p, 0, o[2]);
    check_hit(&p, 1, o[0]);
    check_hit(&p, 1, o[1]);
    check_hit(&p, 1, o[3]); /* slot 1, past the end and the empty slot 0 */
    for (int i = 0; i < CAPACITY; i++)
        CHECK_EQ(parts_return(&p, p.ctx[0], o[i]), PB_KEPT);
    closed(&p, 2);
}

/* Every slot can be filled from every start, and no more than there are. */
static void test_all_slots(int capacity, const char *rest)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "slot_scan capacity=%d %s", capacity, rest);
    parts p;
    opened(&p, text, PARTS_THREADS);
    for (int thread = 0; thread < PARTS_THREADS; thread++) {
        void *o[MOST + 1];
        for (int i = 0; i <= capacity; i++)
            o[i] = parts_acquire(&p, p.ctx[thread]).object;
        CHECK_EQ(parts_idle(&p), 0);
        for (int i = 0; i <= capacity; i++)
            CHECK_EQ(parts_return(&p, p.ctx[thread], o[i]), i < capacity ? PB_KEPT : PB_DESTROYED);
        CHECK_EQ(parts_idle(&p), capacity);
    }
    closed(&p, PARTS_THREADS);
}

static void test_crowd(const char *pool, uint64_t capacity, int rounds)
{
    static crowd c;
    crowd_run(&c, pool, rounds, 1000);
    CHECK(c.idle <= capacity);
    CHECK(c.outcomes[PB_SHARED_HIT] > 0 && c.outcomes[PB_DESTROYED] > 0);
    CHECK(c.events[PB_RETRIED] > 0);
}

int main(void)
{
    const int rounds = crowd_rounds(4000);
    test_first_that_will_do("slot_scan capacity=4");
    test_first_that_will_do("slot_scan capacity=4 padded=1");
    test_each_its_own_start("slot_scan capacity=4 start=hash");
    test_each_its_own_start("slot_scan capacity=4 start=hash padded=1");
    for (int capacity = 1; capacity <= MOST;
         capacity = capacity < 8 ? capacity + 1 : capacity * 2) {
        test_all_slots(capacity, "");
        test_all_slots(capacity, "start=hash");
        test_all_slots(capacity, "start=hash padded=1");
    }
    test_crowd("slot_scan capacity=1", 1, rounds);
    test_crowd("slot_scan capacity=2 padded=1", 2, rounds);
    test_crowd("slot_scan capacity=3 start=hash reset_on=acquire", 3, rounds);
    return check_report();
}
