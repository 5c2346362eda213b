// SPDX-License-Identifier: MIT
//
// main.rs - crossbeam's ArrayQueue as a pool, any number of threads (cargo, crate crossbeam-queue).
//
//     crossbeam KIND THREADS MILLISECONDS CAPACITY    one line of JSON, as churn.h describes
//     crossbeam version                               one line: the crate, as Cargo.toml pins it
//
//     crossbeam-queue   ArrayQueue of CAPACITY: pop and push, first in, first out
//
// Fair: the bounded ring of Rust's most used crate for this, with a stamp in each place, as poolbench's
// `mpmc_ring`. Objects are boxes of 1 KiB that nothing has written to, from the system's malloc.
//
// Not quite: the standard library chooses how threads are started and joined; main sleeps meanwhile,
// so the process never has just one.
use crossbeam_queue::ArrayQueue;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SIZE: usize = 1024;
const BATCH: u64 = 64;
const LEAD_IN_MS: f64 = 20.0;

type Object = Box<[MaybeUninit<u8>; SIZE]>;

#[repr(align(128))]
struct Padded<T>(T);

/// What one thread counts; its own until it is joined.
#[derive(Default)]
#[repr(align(128))]
struct Counts {
    operations: u64,
    constructed: u64,
    destroyed: u64,
    at: [u64; 3], // operations when it first saw the epoch
    sink: u64,    // what was read from objects: or the reads could be left out
}

struct Run {
    pool: ArrayQueue<Object>, // pads its two indices itself
    epoch: Padded<AtomicU32>,
    started: Padded<AtomicUsize>,
}

fn construct(mine: &mut Counts) -> Object {
    mine.constructed += 1;
    Box::new([MaybeUninit::uninit(); SIZE])
}

/// Writes both ends and reads them back; volatile, or the reads are folded into constants.
fn use_object(object: &mut Object) -> u64 {
    let first = object.as_mut_ptr().cast::<u8>();
    // SAFETY: both places are inside the object, which is ours, and read after they are written.
    unsafe {
        let last = first.add(SIZE - 1);
        first.write_volatile(1);
        last.write_volatile(2);
        u64::from(first.read_volatile()) + u64::from(last.read_volatile())
    }
}

fn churn(pool: &ArrayQueue<Object>, mine: &mut Counts) {
    let mut sum = 0;
    for _ in 0..BATCH {
        let mut object = match pool.pop() {
            Some(object) => object,
            None => construct(mine),
        };
        sum += use_object(&mut object);
        if pool.push(object).is_err() {
            mine.destroyed += 1; // the error had the object, and has dropped it
        }
    }
    mine.sink += sum;
}

fn work(run: &Run) -> Counts {
    let mut mine = Counts::default();
    let mut seen = 0;
    while seen < 2 {
        churn(&run.pool, &mut mine);
        if mine.operations == 0 {
            run.started.0.fetch_add(1, Ordering::Relaxed); // a count, it publishes nothing
        }
        mine.operations += BATCH;
        // Relaxed: only a signal; the counts are published by the end of the thread.
        let epoch = run.epoch.0.load(Ordering::Relaxed);
        while seen < epoch {
            seen += 1; // fills what it skipped, if it did not run for a whole window
            mine.at[seen as usize] = mine.operations;
        }
    }
    mine
}

fn sleep_ms(milliseconds: f64) {
    thread::sleep(Duration::from_secs_f64(milliseconds / 1e3));
}

/// Times one window; gives its seconds.
fn window(run: &Run, threads: usize, milliseconds: f64) -> f64 {
    while run.started.0.load(Ordering::Relaxed) < threads {
        sleep_ms(0.1);
    }
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    sleep_ms(LEAD_IN_MS * f64::max(1.0, threads as f64 / cpus as f64));
    let start = Instant::now();
    run.epoch.0.store(1, Ordering::Relaxed); // as in work
    sleep_ms(milliseconds);
    let seconds = start.elapsed().as_secs_f64();
    run.epoch.0.store(2, Ordering::Relaxed);
    seconds
}

fn measure(run: &Run, threads: usize, milliseconds: f64) -> (f64, Vec<Counts>) {
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(run))).collect();
        let seconds = window(run, threads, milliseconds);
        let ended = running.into_iter().map(|thread| thread.join());
        (
            seconds,
            ended.map(|counts| counts.expect("no panic")).collect(),
        )
    })
}

/// Prints the line; objects have to be conserved.
fn report(seconds: f64, counts: &[Counts], idle: u64) -> ExitCode {
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
    let (constructed, destroyed) = (sum(|c| c.constructed), sum(|c| c.destroyed));
    let operations: Vec<u64> = counts.iter().map(|c| c.at[2] - c.at[1]).collect();
    println!(
        "{{\"kind\": \"crossbeam-queue\", \"threads\": {}, \"seconds\": {seconds:.9}, \
         \"operations\": {operations:?}, \"total\": {}, \"constructed\": {constructed}, \
         \"destroyed\": {destroyed}, \"idle\": {idle}}}",
        counts.len(),
        sum(|c| c.operations),
    );
    if constructed == destroyed + idle {
        return ExitCode::SUCCESS;
    }
    eprintln!("crossbeam-queue: objects not conserved");
    ExitCode::FAILURE
}

/// THREADS, MILLISECONDS and CAPACITY, if KIND and they are what they should be.
fn parse(args: &[String]) -> Option<(usize, f64, usize)> {
    let [kind, threads, milliseconds, capacity] = <&[String; 4]>::try_from(args).ok()?;
    let threads: usize = threads.parse().ok()?;
    let milliseconds: f64 = milliseconds.parse().ok()?;
    let capacity: usize = capacity.parse().ok()?;
    let sound = threads > 0 && milliseconds > 0.0 && capacity > 0;
    (kind == "crossbeam-queue" && sound).then_some((threads, milliseconds, capacity))
}

/// The crate and its version, as Cargo.toml has them.
fn pinned() -> String {
    let lines = include_str!("Cargo.toml").lines();
    let found = lines.filter(|line| line.starts_with("crossbeam-queue"));
    found
        .map(|line| line.replace(['=', '"'], "").replace("  ", " "))
        .collect()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == ["version"] {
        println!("{}", pinned());
        return ExitCode::SUCCESS;
    }
    let (threads, milliseconds, capacity) = match parse(&args) {
        Some(found) => found,
        None => {
            eprintln!("usage: crossbeam crossbeam-queue THREADS MILLISECONDS CAPACITY");
            return ExitCode::from(2);
        }
    };
    let run = Run {
        pool: ArrayQueue::new(capacity),
        epoch: Padded(AtomicU32::new(0)),
        started: Padded(AtomicUsize::new(0)),
    };
    let (seconds, counts) = measure(&run, threads, milliseconds);
    let mut idle = 0;
    while run.pool.pop().is_some() {
        idle += 1;
    }
    report(seconds, &counts, idle)
}
