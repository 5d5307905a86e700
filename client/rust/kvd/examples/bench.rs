// SPDX-License-Identifier: MIT
//! GETs or PUTs as fast as they go in one thread; prints how many there were in a second. It does
//! what kvd's bench/client/loops.c does in C, and bench/rust.sh compares the two.
//!
//! Usage: `bench URL sync|batch|async get|put BYTES MS`, or `bench URL alloc get BYTES MS` for
//! values in memory that is allocated for each.
//!
//! sync: one after the other; batch: 32 in one call or scope; async: 64 tasks (of 64 KiB and more:
//! 8), and poll(2) on the driver's descriptor.
#![allow(clippy::needless_collect)] // all have to begin before one is waited for

use kvd::{AsyncClient, Buffer, BufferMut, Client, Driver, GetRequest, Piece, PutArgs, Turn};
use std::cell::Cell;
use std::future::Future;
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

const KEYS_SMALL: usize = 64;
const KEYS_LARGE: usize = 8;
const TOGETHER: usize = 32;
const LARGE: usize = 64 << 10;

/// What is done.
struct Job {
    db: Client,
    keys: Vec<String>,
    memory: Memory,
    is_get: bool,
}

/// The values: short ones on the heap, long ones registered.
enum Memory {
    Short(Vec<Vec<u8>>),
    Long(Vec<Piece>),
}

impl Memory {
    fn new(db: &Client, keys: usize, bytes: usize) -> kvd::Result<Memory> {
        Ok(if bytes < 4096 {
            Memory::Short(vec![vec![0; bytes]; keys])
        } else {
            let mut pieces = db.alloc(keys * bytes)?.into_pieces(bytes);
            pieces.truncate(keys);
            Memory::Long(pieces)
        })
    }

    fn all(&mut self) -> Vec<&mut [u8]> {
        match self {
            Memory::Short(values) => values.iter_mut().map(|value| &mut value[..]).collect(),
            Memory::Long(pieces) => pieces.iter_mut().map(|piece| &mut piece[..]).collect(),
        }
    }
}

/// Calls `step` until the time has passed; returns operations in a second.
fn repeat(time: Duration, mut step: impl FnMut(usize) -> kvd::Result<usize>) -> kvd::Result<f64> {
    let (begin, mut count) = (Instant::now(), 0);
    loop {
        count += step(count)?;
        let passed = begin.elapsed();
        if passed >= time {
            return Ok(count as f64 / passed.as_secs_f64());
        }
    }
}

fn sync(job: &mut Job, time: Duration) -> kvd::Result<f64> {
    let Job { db, keys, memory, is_get } = job;
    let mut values = memory.all();
    repeat(time, |number| {
        let number = number % keys.len();
        if *is_get {
            db.get_into(&keys[number], values[number])?.expect("it was stored");
        } else {
            db.put(&keys[number], &*values[number])?;
        }
        Ok(1)
    })
}

fn alloc(job: &mut Job, time: Duration) -> kvd::Result<f64> {
    repeat(time, |number| {
        job.db.get(&job.keys[number % job.keys.len()])?.expect("it was stored");
        Ok(1)
    })
}

fn batch(job: &mut Job, time: Duration) -> kvd::Result<f64> {
    let Job { db, keys, memory, is_get } = job;
    let count = keys.len().min(TOGETHER);
    let mut values = memory.all();
    if !*is_get {
        return repeat(time, |_| {
            db.scope(|scope| {
                let pairs = keys.iter().zip(&values).take(count);
                let puts: Vec<_> = pairs.map(|(key, value)| scope.put(key, &**value)).collect();
                puts.into_iter().try_for_each(|put| put.wait().0.map(drop))
            })?;
            Ok(count)
        });
    }
    let pairs = keys.iter().zip(&mut values).take(count);
    let mut requests: Vec<_> = pairs.map(|(key, value)| GetRequest::new(key, value)).collect();
    repeat(time, |_| {
        db.get_many(&mut requests)?;
        for request in &requests {
            request.item()?.expect("it was stored");
        }
        Ok(count)
    })
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

const POLLIN: c_short = 1;

extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout_ms: c_int) -> c_int;
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

type Task<'a> = Pin<Box<dyn Future<Output = kvd::Result<()>> + 'a>>;

/// Runs the tasks; has them end when the time has passed.
fn run(
    driver: &mut Driver,
    tasks: Vec<Task<'_>>,
    end: Instant,
    goes_on: &Cell<bool>,
) -> kvd::Result<()> {
    let mut tasks: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let flag = Arc::new(Flag(AtomicBool::new(true)));
            (Some(task), Waker::from(flag.clone()), flag)
        })
        .collect();
    let mut left = tasks.len();
    while left > 0 {
        goes_on.set(Instant::now() < end);
        for (slot, waker, flag) in &mut tasks {
            if !flag.0.load(Ordering::Acquire) {
                continue;
            }
            flag.0.store(false, Ordering::Release);
            if let Some(task) = slot {
                if let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(waker)) {
                    result?;
                    *slot = None;
                    left -= 1;
                }
            }
        }
        if left > 0
            && driver.turn()? == Turn::Wait
            && !tasks.iter().any(|(_, _, flag)| flag.0.load(Ordering::Acquire))
        {
            let mut fds = PollFd { fd: driver.as_raw_fd(), events: POLLIN, revents: 0 };
            // SAFETY: it is one descriptor, which is the driver's.
            unsafe { poll(&mut fds, 1, -1) };
        }
    }
    Ok(())
}

/// One task's operations, of one key, until the time has passed.
async fn work<B>(
    db: &AsyncClient,
    job: (&str, B, bool),
    goes_on: &Cell<bool>,
    count: &Cell<usize>,
) -> kvd::Result<()>
where
    B: Buffer + BufferMut + Send + 'static,
{
    let (key, mut value, is_get) = job;
    let args = PutArgs::default();
    while goes_on.get() {
        if is_get {
            let (result, back) = db.get_into(key, value).await;
            result?;
            value = back;
        } else {
            let (result, back) = db.put_from(key, value, &args)?.await;
            result?;
            value = back;
        }
        count.set(count.get() + 1);
    }
    Ok(())
}

fn futures(job: Job, time: Duration) -> kvd::Result<f64> {
    let Job { db, keys, memory, is_get } = job;
    let (db, mut driver) = db.into_async()?;
    let (begin, count) = (Instant::now(), Cell::new(0));
    let goes_on = Cell::new(true);
    let (db, count, on) = (&db, &count, &goes_on);
    let tasks = match memory {
        Memory::Short(values) => keys
            .iter()
            .zip(values)
            .map(|(key, value)| -> Task<'_> { Box::pin(work(db, (key, value, is_get), on, count)) })
            .collect(),
        Memory::Long(pieces) => keys
            .iter()
            .zip(pieces)
            .map(|(key, value)| -> Task<'_> { Box::pin(work(db, (key, value, is_get), on, count)) })
            .collect(),
    };
    run(&mut driver, tasks, begin + time, on)?;
    Ok(count.get() as f64 / begin.elapsed().as_secs_f64())
}

fn main() -> kvd::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (url, way, op, bytes, ms) = match &arguments[..] {
        [url, way, op, bytes, ms] => (url, way, op, bytes, ms),
        _ => panic!("usage: bench URL sync|batch|async|alloc get|put BYTES MS"),
    };
    let bytes: usize = bytes.parse().expect("BYTES is a number");
    let time = Duration::from_millis(ms.parse().expect("MS is a number"));
    let count = if bytes < LARGE { KEYS_SMALL } else { KEYS_LARGE };
    let db = Client::open(url)?;
    let mut memory = Memory::new(&db, count, bytes)?;
    let keys: Vec<_> = (0..count).map(|i| format!("key-{i:02}")).collect();
    for (key, value) in keys.iter().zip(memory.all()) {
        db.put(key, &*value)?;
    }
    let mut job = Job { db, keys, memory, is_get: op == "get" };
    let rate = match &way[..] {
        "sync" => sync(&mut job, time)?,
        "alloc" => alloc(&mut job, time)?,
        "batch" => batch(&mut job, time)?,
        "async" => futures(job, time)?,
        other => panic!("{other}: there are sync, batch, async and alloc"),
    };
    println!("{rate:.0}");
    Ok(())
}
