// SPDX-License-Identifier: MIT
//! What the tests share: the server that they need, and keys that no other test has.
#![allow(dead_code)] // each test uses some of it

use kvd::{Client, Options};
use std::time::Duration;

/// Nothing takes so long: a bound for what would wait for ever.
pub const HANG: Duration = Duration::from_secs(300);

/// The server's URL. `tests/system/rust.sh` of kvd starts one and runs these tests.
pub fn url() -> String {
    std::env::var("KVD_TEST_URL").expect("set KVD_TEST_URL to the URL of a kvd for tests")
}

pub fn options() -> Options {
    let mut options = Options::new();
    options.timeout(HANG).connect_timeout(HANG); // unless the test is about timeouts
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
    use super::HANG;
    use kvd::{Driver, Turn};
    use std::future::Future;
    use std::io::{self, Read, Write};
    use std::os::raw::{c_int, c_short, c_ulong};
    use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{mpsc, Arc};
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread;
    use std::time::Instant;

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

    fn wait_some(fds: [Option<BorrowedFd<'_>>; 2], timeout_ms: c_int) -> [bool; 2] {
        // poll() leaves out what is negative.
        let mut fds = fds.map(|fd| {
            let fd = fd.map_or(-1, |fd| fd.as_raw_fd());
            PollFd { fd, events: POLLIN, revents: 0 }
        });
        // SAFETY: they are open.
        unsafe { poll(fds.as_mut_ptr(), 2, timeout_ms) };
        fds.map(|fd| fd.revents != 0)
    }

    fn is_readable(fd: &impl AsFd) -> bool {
        wait_some([Some(fd.as_fd()), None], 0)[0]
    }

    /// Waits until the descriptor is readable.
    pub fn wait_readable(fd: &impl AsFd) {
        let [readable, _] = wait_some([Some(fd.as_fd()), None], HANG.as_millis() as c_int);
        assert!(readable, "the descriptor tells of nothing");
    }

    /// Waits for a driver's descriptor in a thread of its own, and wakes the task that asked for
    /// that when it is readable, and at no other time.
    pub struct Reactor {
        fd: OwnedFd,
        asked: mpsc::Sender<Waker>,
        bell: UnixStream,
        thread: Option<thread::JoinHandle<()>>,
    }

    impl Reactor {
        pub fn new(driver: &Driver) -> Reactor {
            let fd = driver.as_fd().try_clone_to_owned().unwrap();
            let watched = fd.try_clone().unwrap();
            let (bell, mut rings) = UnixStream::pair().unwrap();
            let (asked, asks) = mpsc::channel();
            let thread = thread::spawn(move || {
                let mut waker: Option<Waker> = None;
                loop {
                    let fd = waker.as_ref().map(|_| watched.as_fd());
                    let [readable, rung] = wait_some([fd, Some(rings.as_fd())], -1);
                    if readable {
                        waker.take().unwrap().wake();
                    }
                    if rung {
                        if rings.read(&mut [0; 64]).unwrap() == 0 {
                            return;
                        }
                        waker = asks.try_iter().last().or(waker);
                    }
                }
            });
            Reactor { fd, asked, bell, thread: Some(thread) }
        }

        /// For `Driver::run()`.
        pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            if is_readable(&self.fd) {
                return Poll::Ready(Ok(()));
            }
            self.asked.send(cx.waker().clone()).unwrap();
            (&self.bell).write_all(&[0]).unwrap();
            Poll::Pending
        }
    }

    impl Drop for Reactor {
        fn drop(&mut self) {
            self.bell.shutdown(std::net::Shutdown::Both).unwrap();
            self.thread.take().unwrap().join().unwrap();
        }
    }

    /// A task of its own thread.
    struct Unpark(thread::Thread, AtomicBool);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::Release);
            self.0.unpark();
        }
    }

    /// Runs a future to its end, in this thread. It is polled when it was woken, and only then.
    pub fn park_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        let task = Arc::new(Unpark(thread::current(), AtomicBool::new(true)));
        let waker = Waker::from(task.clone());
        let end = Instant::now() + HANG;
        loop {
            if task.1.swap(false, Ordering::Acquire) {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(output) = polled {
                    return output;
                }
            } else {
                let left = end.saturating_duration_since(Instant::now());
                assert!(!left.is_zero(), "the task was not woken");
                thread::park_timeout(left);
            }
        }
    }

    /// A task that counts how often it is woken.
    #[derive(Default)]
    pub struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        /// How often it was, since the last call.
        pub fn take(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    pub fn poll_as<F: Future + Unpin>(future: &mut F, task: &Arc<Woken>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&Waker::from(task.clone())))
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
                    wait_readable(driver);
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
