// SPDX-License-Identifier: MIT
//! What the tests share: the server that they need, and keys that no other test has.
#![allow(dead_code)] // each test uses some of it

use kvd::{Client, Options};
use std::time::Duration;

/// The server's URL. `tests/system/rust.sh` of kvd starts one and runs these tests.
pub fn url() -> String {
    std::env::var("KVD_TEST_URL").expect("set KVD_TEST_URL to the URL of a kvd for tests")
}

pub fn options() -> Options {
    let mut options = Options::new();
    options.timeout(Duration::from_secs(20)); // of a call, unless the test is about timeouts
    options
}

pub fn open() -> Client {
    options().open(&url()).unwrap()
}

/// Bytes that are different for each key and place.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + i / 251 + seed * 7) % 251) as u8).collect()
}

/// An executor of one thread: tasks, and the driver of one client, which waits in poll(2).
pub mod executor {
    use kvd::{Driver, Turn};
    use std::future::Future;
    use std::os::raw::{c_int, c_short, c_ulong};
    use std::os::unix::io::AsRawFd;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    #[repr(C)]
    struct PollFd {
        fd: c_int,
        events: c_short,
        revents: c_short,
    }

    extern "C" {
        fn poll(fds: *mut PollFd, count: c_ulong, timeout_ms: c_int) -> c_int;
    }

    const POLLIN: c_short = 1;

    /// Waits until the descriptor is readable. Returns whether it is.
    pub fn wait_readable(fd: &impl AsRawFd, timeout_ms: c_int) -> bool {
        let mut fds = PollFd { fd: fd.as_raw_fd(), events: POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is open.
        unsafe { poll(&mut fds, 1, timeout_ms) > 0 }
    }

    pub struct Flag(pub AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }

    pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

    /// Runs the tasks to their end.
    pub fn run_all(driver: &mut Driver, tasks: Vec<Task<'_>>) {
        let mut tasks: Vec<_> = tasks
            .into_iter()
            .map(|task| Some((task, Arc::new(Flag(AtomicBool::new(true))))))
            .collect();
        let mut left = tasks.len();
        while left > 0 {
            for slot in &mut tasks {
                let ready = match slot {
                    Some((task, flag)) if flag.0.swap(false, Ordering::AcqRel) => {
                        let waker = Waker::from(flag.clone());
                        task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
                    }
                    _ => false,
                };
                if ready {
                    *slot = None;
                    left -= 1;
                }
            }
            if left > 0 && driver.turn().unwrap() == Turn::Wait {
                let woken = |(_, flag): &(_, Arc<Flag>)| flag.0.load(Ordering::Acquire);
                if !tasks.iter().flatten().any(woken) {
                    assert!(wait_readable(driver, 30_000), "nothing happens any more");
                }
            }
        }
    }

    pub fn block_on<T>(driver: &mut Driver, future: impl Future<Output = T>) -> T {
        let mut output = None;
        run_all(driver, vec![Box::pin(async { output = Some(future.await) })]);
        output.unwrap()
    }

    /// Polls a future once, as a task that was never woken.
    pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Flag(AtomicBool::new(false))));
        Pin::new(future).poll(&mut Context::from_waker(&waker))
    }
}
