// SPDX-License-Identifier: MIT
//! The asynchronous client on an executor of 60 lines: tasks, and poll(2) on the driver's
//! descriptor. On tokio, async-io and the like use `Driver::run` instead (see `kvd::aio`).
//!
//! Usage: `cargo run --example async_poll [URL]`

use kvd::{AsyncClient, Client, Driver, Turn};
use std::future::Future;
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

const TASKS: usize = 100;

/// struct pollfd of <poll.h>; the crate libc has it, too.
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

/// Whether a task has something to do.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

type Task = Pin<Box<dyn Future<Output = kvd::Result<()>>>>;

/// Runs all tasks. The order matters: tasks, a turn of the driver, and only then a wait.
fn run(driver: &mut Driver, tasks: Vec<Task>) -> kvd::Result<()> {
    let mut tasks: Vec<_> =
        tasks.into_iter().map(|task| (task, Arc::new(Flag(AtomicBool::new(true))))).collect();
    while !tasks.is_empty() {
        let mut i = 0;
        while i < tasks.len() {
            let (task, flag) = &mut tasks[i];
            let waker = Waker::from(flag.clone());
            if flag.0.swap(false, Ordering::Acquire) {
                let state = task.as_mut().poll(&mut Context::from_waker(&waker));
                if let std::task::Poll::Ready(result) = state {
                    result?;
                    tasks.swap_remove(i);
                    continue;
                }
            }
            i += 1;
        }
        if !tasks.is_empty()
            && driver.turn()? == Turn::Wait
            && !tasks.iter().any(|(_, flag)| flag.0.load(Ordering::Acquire))
        {
            let mut fds = PollFd { fd: driver.as_raw_fd(), events: POLLIN, revents: 0 };
            // SAFETY: it is one descriptor, which is the driver's.
            unsafe { poll(&mut fds, 1, -1) };
        }
    }
    Ok(())
}

async fn work(db: AsyncClient, number: usize) -> kvd::Result<()> {
    let key = format!("task-{number}");
    db.put(&key, format!("value of {number}")).await?;
    let value = db.get(&key).await?.expect("it was stored just now");
    assert_eq!(*value, *format!("value of {number}").as_bytes());
    Ok(())
}

fn main() -> kvd::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(kvd::default_url);
    let (db, mut driver) = Client::open(&url)?.into_async()?;
    let tasks = (0..TASKS).map(|number| -> Task { Box::pin(work(db.clone(), number)) }).collect();
    run(&mut driver, tasks)?;
    let requests = db.with_client(|db| db.stats().requests)?;
    println!("{TASKS} tasks have stored and read a value each, by {requests} messages");
    Ok(())
}
