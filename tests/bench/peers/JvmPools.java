// SPDX-License-Identifier: MIT
//
// JvmPools.java - two pools of the JVM's own library (a JDK, 11 or later).
//
//     java JvmPools KIND THREADS MILLISECONDS CAPACITY    one line of JSON, as churn.h describes
//     java JvmPools version                               one line: the virtual machine
//
//     jvm-lock          ReentrantLock around an ArrayDeque, the newest first, CAPACITY of them
//     jvm-threadlocal   a ThreadLocal with an ArrayDeque for each thread, CAPACITY each
//
// The threads run for a second and more before the first window, so that everything measured has
// been compiled; then WINDOWS windows follow each other and the one with the median throughput is
// reported. Flags are the virtual machine's defaults, among them its choice of garbage collector.
//
// Fair: both are what Java programs use. Objects are byte[1024], which are zeroed, for Java has no
// other way; no C program here zeroes. Both ends are read back by opaque loads, which are plain
// moves that the compiler may not fold. In steady state nothing is allocated.
//
// Not quite: the compilers' and the collector's threads share the CPUs, and nothing can be pinned.
// The idle second thread is the virtual machine's: it has a dozen.

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public final class JvmPools {
    private static final int SIZE = 1024;
    private static final int BATCH = 64;
    private static final int WINDOWS = 3;
    private static final long WARM_MS = 1200;
    private static final int PADDING = 32; // ints on either side of a shared word: two cache lines
    private static final VarHandle BYTES = MethodHandles.arrayElementVarHandle(byte[].class);

    /** What one thread counts; written by it alone until it is joined. */
    private static final class Counts {
        long operations;
        long constructed;
        long destroyed;
        long idle; // what the thread itself kept at the end
        long sink; // what was read from objects: or the reads could be left out
        final long[] at = new long[WINDOWS + 2 + 2 * PADDING]; // operations by epoch, padded
    }

    private interface Pool {
        byte[] acquire();

        boolean release(byte[] object);
    }

    private static final class Locked implements Pool {
        private final ReentrantLock lock = new ReentrantLock();
        private final ArrayDeque<byte[]> idle;
        private final int capacity;

        Locked(int capacity) {
            this.capacity = capacity;
            this.idle = new ArrayDeque<>(capacity);
        }

        @Override
        public byte[] acquire() {
            lock.lock();
            try {
                return idle.pollLast();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public boolean release(byte[] object) {
            lock.lock();
            try {
                return idle.size() < capacity && idle.offerLast(object);
            } finally {
                lock.unlock();
            }
        }
    }

    private static final class PerThread implements Pool {
        private final ThreadLocal<ArrayDeque<byte[]>> idle;
        private final int capacity;

        PerThread(int capacity) {
            this.capacity = capacity;
            this.idle = ThreadLocal.withInitial(() -> new ArrayDeque<>(capacity));
        }

        @Override
        public byte[] acquire() {
            return idle.get().pollLast();
        }

        @Override
        public boolean release(byte[] object) {
            final ArrayDeque<byte[]> mine = idle.get();
            return mine.size() < capacity && mine.offerLast(object);
        }
    }

    private final Pool pool; // one class in each process, so that calls of it are inlined
    private final int threads;
    private final AtomicIntegerArray epoch = new AtomicIntegerArray(2 * PADDING + 1);
    private final AtomicInteger started = new AtomicInteger();
    private final List<Counts> counts = new ArrayList<>();
    private final double[] seconds = new double[WINDOWS];

    private JvmPools(Pool pool, int threads) {
        this.pool = pool;
        this.threads = threads;
    }

    private static long use(byte[] object) {
        object[0] = 1;
        object[SIZE - 1] = 2;
        return (long) (byte) BYTES.getOpaque(object, 0) + (byte) BYTES.getOpaque(object, SIZE - 1);
    }

    private void churn(Counts mine) {
        long sum = 0;
        for (int i = 0; i < BATCH; i++) {
            byte[] object = pool.acquire();
            if (object == null) {
                object = new byte[SIZE];
                mine.constructed++;
            }
            sum += use(object);
            if (!pool.release(object)) {
                mine.destroyed++; // left to the garbage collector
            }
        }
        mine.sink += sum;
    }

    private void work(Counts mine) {
        int seen = 0;
        while (seen <= WINDOWS) {
            churn(mine);
            if (mine.operations == 0) {
                started.incrementAndGet();
            }
            mine.operations += BATCH;
            for (int now = epoch.getOpaque(PADDING); seen < now; ) { // fills what it skipped
                mine.at[PADDING + ++seen] = mine.operations;
            }
        }
        if (pool instanceof PerThread) {
            mine.idle = drain();
        }
    }

    private long drain() {
        long idle = 0;
        while (pool.acquire() != null) {
            idle++;
        }
        return idle;
    }

    private void windows(double milliseconds) throws InterruptedException {
        while (started.get() < threads) {
            Thread.sleep(1);
        }
        Thread.sleep(WARM_MS);
        for (int i = 0; i < WINDOWS; i++) {
            final long start = System.nanoTime();
            epoch.setOpaque(PADDING, i + 1);
            final long ns = (long) (milliseconds * 1e6);
            Thread.sleep(ns / 1_000_000, (int) (ns % 1_000_000));
            seconds[i] = (System.nanoTime() - start) / 1e9;
        }
        epoch.setOpaque(PADDING, WINDOWS + 1);
    }

    private void measure(double milliseconds) throws InterruptedException {
        final List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            final Counts mine = new Counts();
            counts.add(mine);
            running.add(new Thread(() -> work(mine)));
        }
        running.forEach(Thread::start);
        windows(milliseconds);
        for (Thread thread : running) {
            thread.join();
        }
    }

    private long[] operations(int window) {
        final int at = PADDING + window + 1;
        return counts.stream().mapToLong(c -> c.at[at + 1] - c.at[at]).toArray();
    }

    private int medianWindow() {
        return IntStream.range(0, WINDOWS)
                .boxed()
                .sorted(Comparator.comparingDouble(w -> Arrays.stream(operations(w)).sum() / seconds[w]))
                .collect(Collectors.toList())
                .get(WINDOWS / 2);
    }

    /** Prints the line; returns the exit status: objects have to be conserved. */
    private int report(String kind) {
        final long idle = drain() + counts.stream().mapToLong(c -> c.idle).sum();
        final long constructed = counts.stream().mapToLong(c -> c.constructed).sum();
        final long destroyed = counts.stream().mapToLong(c -> c.destroyed).sum();
        final long total = counts.stream().mapToLong(c -> c.operations).sum();
        final int window = medianWindow();
        System.out.printf(
                java.util.Locale.ROOT,
                "{\"kind\": \"%s\", \"threads\": %d, \"seconds\": %.9f, \"operations\": %s, "
                        + "\"total\": %d, \"constructed\": %d, \"destroyed\": %d, \"idle\": %d}%n",
                kind, threads, seconds[window], Arrays.toString(operations(window)),
                total, constructed, destroyed, idle);
        if (constructed == destroyed + idle) {
            return 0;
        }
        System.err.println(kind + ": objects not conserved");
        return 1;
    }

    private static int run(String[] args) throws InterruptedException {
        final int threads = Integer.parseInt(args[1]);
        final double milliseconds = Double.parseDouble(args[2]);
        final int capacity = Integer.parseInt(args[3]);
        if (threads < 1 || !(milliseconds > 0) || capacity < 1) {
            System.err.println("THREADS, MILLISECONDS and CAPACITY: more than 0");
            return 2;
        }
        final Pool pool;
        if (args[0].equals("jvm-lock")) {
            pool = new Locked(capacity);
        } else if (args[0].equals("jvm-threadlocal")) {
            pool = new PerThread(capacity);
        } else {
            System.err.println("unknown kind " + args[0] + "; choose from jvm-lock, jvm-threadlocal");
            return 2;
        }
        final JvmPools run = new JvmPools(pool, threads);
        run.measure(milliseconds);
        return run.report(args[0]);
    }

    public static void main(String[] args) throws InterruptedException {
        if (args.length == 1 && args[0].equals("version")) {
            System.out.println(
                    System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version"));
            return;
        }
        if (args.length != 4) {
            System.err.println("usage: java JvmPools KIND THREADS MILLISECONDS CAPACITY");
            System.exit(2);
        }
        System.exit(run(args));
    }
}
