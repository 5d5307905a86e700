// SPDX-License-Identifier: MIT
//! The asynchronous client: futures, and a driver that runs when a descriptor is readable.
//!
//! Any executor will do; the crate depends on none. [`Client::into_async`] returns two things:
//!
//! - an [`AsyncClient`], which may have any number of clones, in any thread. Its methods return
//!   futures, which own what the operation uses: if a future is dropped while its operation is
//!   under way, the driver frees the operation when it ends;
//! - a [`Driver`], which one task runs. The driver submits the operations of all tasks together, so
//!   that they share messages and chains of READs, and wakes the tasks whose operations have ended.
//!   It waits until [`Driver::as_raw_fd`](std::os::unix::io::AsRawFd::as_raw_fd) is readable, by
//!   the executor's own means:
//!
//! ```ignore
//! // tokio, with a runtime that has enable_io()
//! let (db, mut driver) = kvd::Client::open(&url)?.into_async()?;
//! tokio::spawn(async move {
//!     let fd = tokio::io::unix::AsyncFd::with_interest(
//!         driver.as_raw_fd(),
//!         tokio::io::Interest::READABLE,
//!     )?;
//!     driver.run(|cx| fd.poll_read_ready(cx).map_ok(|mut ready| ready.clear_ready())).await
//! });
//!
//! // async-io (smol, async-std)
//! let fd = async_io::Async::new(driver.as_fd().try_clone_to_owned()?)?;
//! smol::spawn(async move { driver.run(|cx| fd.poll_readable(cx)).await }).detach();
//! ```
//!
//! A hand-written loop calls [`Driver::turn`], as the example `async_poll` does.
//!
//! A lock keeps kvd's rule that a handle belongs to one thread at a time. It is held during calls
//! that do not block.

use crate::buffer::{Buffer, BufferMut, Room};
use crate::change::Counted;
use crate::error::{Error, Result};
use crate::item::{Initial, Item, PutArgs, Value};
use crate::operation::{Header, Leftovers, Owned, Request};
use crate::options::operation_ms;
use crate::scope::decode;
use crate::{sys, Client};
use std::fmt;
use std::future::Future;
use std::io;
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Turns of [`Driver::run`] before other tasks have theirs.
const TURNS_MAX: u32 = 16;
/// Room for the first value of [`AsyncClient::get`].
const ROOM_BYTES: usize = 1024;
/// After this many values that need less than half of the room, the room is halved.
const UNUSED_MAX: usize = 64;
/// How often a GET may find that the value has grown since the last try.
const GROWTHS_MAX: u32 = 16;

struct State {
    client: Option<Client>,  // None: the driver is gone
    queue: Vec<*mut Header>, // begun by futures, and not yet submitted
    driver: Option<Waker>,
    users: usize, // AsyncClients
}

// SAFETY: the operations' memory may be sent, as all futures demand, and is used under the lock.
unsafe impl Send for State {}

/// The room for the next value of [`AsyncClient::get`]: the length of the longest recent value.
struct NextRoom {
    bytes: AtomicUsize,
    unused: AtomicUsize, // consecutive values that used less than half of `bytes`
}

impl NextRoom {
    fn was_needed(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.unused.store(0, Ordering::Relaxed);
    }

    fn was_enough(&self, bytes: usize, used: usize) {
        if bytes / 2 < used.max(ROOM_BYTES) {
            self.unused.store(0, Ordering::Relaxed);
        } else if self.unused.fetch_add(1, Ordering::Relaxed) + 1 >= UNUSED_MAX {
            self.was_needed(bytes / 2);
        }
    }
}

struct Shared {
    state: Mutex<State>,
    room: NextRoom,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> Error {
    Error::Disconnected("the driver of this client was dropped".into())
}

impl Client {
    /// Makes an asynchronous client, and the driver that runs its operations.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]: no descriptor is left (RLIMIT_NOFILE).
    pub fn into_async(self) -> Result<(AsyncClient, Driver)> {
        // SAFETY: the handle is this thread's.
        let fd = unsafe { sys::kvd_fd(self.as_raw()) };
        if fd < 0 {
            return Err(self.fail(sys::KVD_ERR_NO_MEMORY, 0));
        }
        let state = State { client: Some(self), queue: Vec::new(), driver: None, users: 1 };
        let room = NextRoom { bytes: AtomicUsize::new(ROOM_BYTES), unused: AtomicUsize::new(0) };
        let shared = Arc::new(Shared { state: Mutex::new(state), room });
        Ok((AsyncClient { shared: shared.clone() }, Driver { shared, fd }))
    }
}

/// Runs the operations of [`AsyncClient`]s. Dropping the driver closes the connection; operations
/// under way end with [`Error::Disconnected`].
#[must_use = "nothing happens unless the driver runs"]
pub struct Driver {
    shared: Arc<Shared>,
    fd: RawFd,
}

/// What [`Driver::turn`] waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Turn {
    /// Another turn, at once.
    Again,
    /// A turn when the descriptor is readable, or the waker of [`Driver::set_waker`] was called.
    /// This turn may have woken tasks: a loop that runs tasks itself must run them first.
    Wait,
    /// No turn: no clients and no operations are left.
    Done,
}

impl Driver {
    /// Calls `waker` when there is something to submit, instead of the previous waker.
    pub fn set_waker(&mut self, waker: &Waker) {
        let mut state = self.shared.lock();
        let old = match &state.driver {
            Some(old) if old.will_wake(waker) => None,
            _ => state.driver.replace(waker.clone()),
        };
        drop(state);
        drop(old); // may call anything
    }

    /// Submits operations that futures have begun, wakes the tasks of operations that have ended,
    /// and prepares the descriptor for a wait. Does not block.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`]: the connection was lost, and [`crate::Options::reconnect`] is
    /// false; or it belongs to this process' parent. All futures end.
    pub fn turn(&mut self) -> Result<Turn> {
        let mut state = self.shared.lock();
        let (turn, leftovers) = state.turn();
        drop(state);
        leftovers.settle();
        turn
    }

    /// Turns until no client is left. Calls `readable` when there is nothing to do: it must return
    /// `Ready` if the descriptor is readable (or might be), or else arrange that the task is woken
    /// when it is. The module's page has examples for tokio and async-io.
    ///
    /// # Errors
    ///
    /// The errors of [`Driver::turn`] and of `readable`.
    pub fn run<F>(&mut self, readable: F) -> Run<'_, F>
    where
        F: FnMut(&mut Context<'_>) -> Poll<io::Result<()>> + Unpin,
    {
        Run { driver: self, readable }
    }
}

/// The future of [`Driver::run`].
#[must_use = "nothing happens unless the driver runs"]
pub struct Run<'a, F> {
    driver: &'a mut Driver,
    readable: F,
}

impl<F> Future for Run<'_, F>
where
    F: FnMut(&mut Context<'_>) -> Poll<io::Result<()>> + Unpin,
{
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        for _ in 0..TURNS_MAX {
            self.driver.set_waker(cx.waker());
            match self.driver.turn()? {
                Turn::Again => continue,
                Turn::Done => return Poll::Ready(Ok(())),
                Turn::Wait => match (self.readable)(cx) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<F> fmt::Debug for Run<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("driver", &self.driver).finish_non_exhaustive()
    }
}

impl State {
    fn turn(&mut self) -> (Result<Turn>, Leftovers) {
        let State { client, queue, users, .. } = self;
        let client = match client {
            Some(client) => client,
            None => return (Err(gone()), Leftovers::default()),
        };
        if !queue.is_empty() {
            // SAFETY: the operations are queued, and own their memory.
            unsafe {
                client.in_flight.drop_abandoned(queue);
                client.submit(queue);
            }
        }
        client.hand_back(0);
        let turn = if *users == 0 && client.in_flight.is_empty() {
            Ok(Turn::Done)
        } else {
            // SAFETY: the handle is this thread's while it holds the lock.
            match unsafe { sys::kvd_arm(client.as_raw()) } {
                sys::KVD_OK => Ok(Turn::Wait),
                sys::KVD_ERR_BUSY => Ok(Turn::Again),
                status => {
                    let error = client.fail(status, 0);
                    client.hand_back(0);
                    client.hand_back_inherited();
                    Err(error)
                }
            }
        };
        (turn, client.in_flight.of_futures())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let State { client, queue, .. } = &mut *state;
        if let Some(client) = client {
            // SAFETY: they are queued.
            unsafe { client.in_flight.refuse(queue, &gone()) };
            client.close();
        }
        let (client, waker) = (state.client.take(), state.driver.take());
        drop(state);
        drop(client); // calls the wakers
        drop(waker);
    }
}

impl AsRawFd for Driver {
    /// For poll(2), epoll(7) and the like: the descriptor is readable when [`Driver::turn`] has
    /// something to do. Never read from it. The driver owns it; it stays the same when the client
    /// reconnects.
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open until the driver is dropped.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// The future of an operation of an [`AsyncClient`]; its output is the result and the buffer. The
/// operation is submitted at the driver's next turn after the first poll.
///
/// Dropping the future before the operation has ended cancels the operation if possible; a change
/// that was sent takes effect.
#[must_use = "futures do nothing unless they are polled"]
pub struct Submitted<'a, R, B> {
    shared: &'a Shared,
    owned: Option<Owned<R, B>>, // None: it has ended
    is_begun: bool,
}

// Moving the future moves only a pointer to the operation and its buffer.
impl<R, B> Unpin for Submitted<'_, R, B> {}

impl<'a, R, B: Send + 'static> Submitted<'a, R, B> {
    fn new(shared: &'a Shared, owned: Owned<R, B>) -> Self {
        Submitted { shared, owned: Some(owned), is_begun: false }
    }

    /// Sets the timeout, instead of the client's. Has no effect after the first poll.
    pub fn timeout(mut self, time: Duration) -> Self {
        if let (false, Some(owned)) = (self.is_begun, &mut self.owned) {
            owned.set_timeout_ms(operation_ms(Some(time)));
        }
        self
    }

    /// Queues the operation. Returns the driver's waker, if it has to be called.
    fn begin(state: &mut State, owned: &Owned<R, B>) -> Option<Waker> {
        owned.queued();
        state.queue.push(owned.header());
        // The driver was woken for the queue's first operation, and finds the others, too.
        if state.queue.len() == 1 {
            state.driver.clone()
        } else {
            None
        }
    }
}

impl<R, B: Send + 'static> Future for Submitted<'_, R, B> {
    type Output = (Result<R>, B);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let owned = this.owned.as_ref().expect("polled after it has ended");
        let mut state = this.shared.lock();
        if this.is_begun && owned.has_ended() || !this.is_begun && state.client.is_none() {
            drop(state);
            return Poll::Ready(match this.owned.take() {
                Some(owned) if this.is_begun => owned.finish(),
                Some(owned) => (Err(gone()), owned.into_buffer()),
                None => unreachable!(),
            });
        }
        let old = owned.wake(cx.waker());
        let mut driver = None;
        if !std::mem::replace(&mut this.is_begun, true) {
            driver = Self::begin(&mut state, owned);
        }
        drop(state);
        drop(old); // may call anything
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Pending
    }
}

impl<R, B> Drop for Submitted<'_, R, B> {
    fn drop(&mut self) {
        let owned = match self.owned.take() {
            Some(owned) => owned,
            None => return,
        };
        if !self.is_begun {
            return; // the operation was never queued: freed now
        }
        let state = self.shared.lock();
        if owned.has_ended() {
            drop(state); // its buffer may call anything
            return;
        }
        let mut driver = None;
        let abandoned = owned.abandon();
        if let (Some((header, _)), Some(client)) = (&abandoned, &state.client) {
            // SAFETY: the operation is this client's, which frees it when it is handed back.
            unsafe { client.cancel(*header) };
            driver = state.driver.clone();
        }
        drop(state);
        drop(abandoned); // its waker may call anything
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl<R, B> fmt::Debug for Submitted<'_, R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitted").field("is_begun", &self.is_begun).finish_non_exhaustive()
    }
}

/// A client whose methods return futures. Clones share one connection. The module's page,
/// [`crate::aio`], says how to drive it.
///
/// An operation under way owns its buffer, so a borrowed buffer is not enough:
///
/// ```compile_fail,E0597
/// # fn example(db: &kvd::AsyncClient) {
/// let mut bytes = vec![0; 100];
/// let future = db.get_into("name", &mut bytes[..]); // error: it must live as long as the program
/// # }
/// ```
pub struct AsyncClient {
    shared: Arc<Shared>,
}

impl AsyncClient {
    fn submit<R, B: Send + 'static>(&self, owned: Owned<R, B>) -> Submitted<'_, R, B> {
        Submitted::new(&self.shared, owned)
    }

    /// As [`Client::get`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let mut bytes = self.shared.room.bytes.load(Ordering::Relaxed);
        for _ in 0..GROWTHS_MAX {
            let mut room = Vec::new();
            room.try_reserve_exact(bytes)
                .map_err(|_| Error::NoMemory(format!("no memory for a value of {bytes} bytes")))?;
            let read = Owned::reads(Request::get(), key.as_ref(), Room(room), decode::item);
            let (result, Room(mut data)) = self.submit(read).await;
            match result {
                Ok(item) => {
                    // SAFETY: that many bytes were written.
                    unsafe { data.set_len(item.value_len) };
                    data.shrink_to(item.value_len);
                    self.shared.room.was_enough(bytes, item.value_len);
                    return Ok(Some(Value { data, item }));
                }
                Err(Error::NotFound(_)) => return Ok(None),
                Err(Error::Buffer { needed, .. }) => {
                    bytes = needed;
                    self.shared.room.was_needed(needed);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Buffer { needed: bytes, text: "the value keeps getting longer".into() })
    }

    /// As [`Client::get_into`], with a buffer that is given back. The result is an error,
    /// [`Error::NotFound`], if the key does not exist.
    pub fn get_into<B: BufferMut + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        buffer: B,
    ) -> Submitted<'_, Item, B> {
        self.submit(Owned::reads(Request::get(), key.as_ref(), buffer, decode::item))
    }

    /// As [`Client::get_range_into`], to a buffer that is given back: it has
    /// [`Item::range_len`] bytes. The result is as of [`AsyncClient::get_into`].
    pub fn get_range_into<B: BufferMut + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        offset: usize,
        buffer: B,
    ) -> Submitted<'_, Item, B> {
        self.submit(Owned::reads(Request::get_range(offset), key.as_ref(), buffer, decode::item))
    }

    /// GET to several buffers, one after another, as [`Client::get_into_vectored`].
    pub fn get_into_vectored<B: BufferMut + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        buffers: Vec<B>,
    ) -> Submitted<'_, Item, Vec<B>> {
        self.submit(Owned::reads_pieces(key.as_ref(), buffers, decode::item))
    }

    /// As [`Client::get_by_request`], to a buffer that is given back; the result as of
    /// [`AsyncClient::get_into`].
    pub fn get_by_request<B: BufferMut + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        buffer: B,
    ) -> Submitted<'_, Item, B> {
        self.submit(Owned::reads(Request::get_by_request(), key.as_ref(), buffer, decode::item))
    }

    /// As [`Client::get_and_touch`], to a buffer that is given back; the result as of
    /// [`AsyncClient::get_into`].
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the time is 0 or longer than 34 years.
    pub fn get_and_touch<B: BufferMut + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        ttl: Option<Duration>,
        buffer: B,
    ) -> Result<Submitted<'_, Item, B>> {
        let request = Request::get_and_touch(ttl)?;
        Ok(self.submit(Owned::reads(request, key.as_ref(), buffer, decode::item)))
    }

    /// As [`Client::exists`].
    ///
    /// # Errors
    ///
    /// As [`Client::exists`].
    pub async fn exists(&self, key: impl AsRef<[u8]>) -> Result<Option<Item>> {
        let owned = Owned::new(Request::exists(), key.as_ref(), (), decode::item);
        match self.submit(owned).await.0 {
            Ok(item) => Ok(Some(item)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Client::put`].
    ///
    /// # Errors
    ///
    /// As [`Client::put`].
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Buffer + Send + 'static,
    ) -> Result<u64> {
        self.put_from(key, value, &PutArgs::default())?.await.0
    }

    /// As [`Client::put_with`], with a buffer that is given back.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: a time is 0 or longer than 34 years.
    pub fn put_from<B: Buffer + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        value: B,
        args: &PutArgs,
    ) -> Result<Submitted<'_, u64, B>> {
        let request = Request::put(args)?;
        Ok(self.submit(Owned::stores(request, key.as_ref(), value, decode::version)))
    }

    /// PUT of a value in several buffers, one after another, as [`Client::put_vectored`].
    ///
    /// # Errors
    ///
    /// As [`AsyncClient::put_from`].
    pub fn put_vectored<B: Buffer + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        buffers: Vec<B>,
        args: &PutArgs,
    ) -> Result<Submitted<'_, u64, Vec<B>>> {
        let request = Request::put(args)?;
        Ok(self.submit(Owned::stores_pieces(request, key.as_ref(), buffers, decode::version)))
    }

    /// As [`Client::delete`] and, unless `version` is `None`, [`Client::delete_if`].
    ///
    /// # Errors
    ///
    /// As [`Client::delete_if`].
    pub async fn delete(&self, key: impl AsRef<[u8]>, version: Option<u64>) -> Result<bool> {
        let request = Request::delete(version);
        match self.submit(Owned::new(request, key.as_ref(), (), decode::nothing)).await.0 {
            Ok(()) => Ok(true),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// As [`Client::incr`].
    ///
    /// # Errors
    ///
    /// As [`Client::incr`].
    pub async fn incr(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: Option<&Initial>,
    ) -> Result<Counted> {
        let request = Request::arith(true, delta, initial)?;
        self.submit(Owned::new(request, key.as_ref(), (), decode::counted)).await.0
    }

    /// As [`Client::decr`].
    ///
    /// # Errors
    ///
    /// As [`Client::decr`].
    pub async fn decr(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: Option<&Initial>,
    ) -> Result<Counted> {
        let request = Request::arith(false, delta, initial)?;
        self.submit(Owned::new(request, key.as_ref(), (), decode::counted)).await.0
    }

    /// As [`Client::touch`].
    ///
    /// # Errors
    ///
    /// As [`Client::touch`].
    pub async fn touch(&self, key: impl AsRef<[u8]>, ttl: Option<Duration>) -> Result<u64> {
        let request = Request::touch(ttl)?;
        self.submit(Owned::new(request, key.as_ref(), (), decode::version)).await.0
    }

    /// As [`Client::ping`].
    ///
    /// # Errors
    ///
    /// As [`Client::ping`].
    pub async fn ping(&self) -> Result<()> {
        self.submit(Owned::new(Request::ping(), &[], (), decode::nothing)).await.0
    }

    /// Calls `work` with the client, for calls that have no future. Meanwhile all operations of
    /// this client wait. `work` must neither use nor drop an [`AsyncClient`] of this connection or
    /// one of its futures: that deadlocks.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`]: the driver was dropped.
    pub fn with_client<T>(&self, work: impl FnOnce(&Client) -> T) -> Result<T> {
        let lent = Lent(Some(self.shared.lock()));
        let client = lent.0.as_ref().and_then(|state| state.client.as_ref()).ok_or_else(gone)?;
        Ok(work(client))
    }
}

/// The client, lent by its driver. The driver gets a turn afterwards: the client's calls may have
/// polled completions of which the descriptor then does not tell.
struct Lent<'a>(Option<MutexGuard<'a, State>>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let driver = self.0.take().and_then(|state| state.driver.clone());
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl Clone for AsyncClient {
    fn clone(&self) -> Self {
        self.shared.lock().users += 1;
        AsyncClient { shared: self.shared.clone() }
    }
}

impl Drop for AsyncClient {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.users -= 1;
        let driver = if state.users == 0 { state.driver.clone() } else { None };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl fmt::Debug for AsyncClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncClient").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::task::Wake;
    use std::thread;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn take(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    fn poll<F: Future + Unpin>(future: &mut F, task: &Arc<Woken>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&Waker::from(task.clone())))
    }

    /// A client and driver without a connection: the driver must not turn.
    fn unconnected() -> (AsyncClient, Driver) {
        let state = State {
            client: Some(Client::unconnected()),
            queue: Vec::new(),
            driver: None,
            users: 1,
        };
        let room = NextRoom { bytes: AtomicUsize::new(ROOM_BYTES), unused: AtomicUsize::new(0) };
        let shared = Arc::new(Shared { state: Mutex::new(state), room });
        (AsyncClient { shared: shared.clone() }, Driver { shared, fd: -1 })
    }

    #[test]
    fn the_last_waker_of_the_driver_is_woken_by_each_queue_that_begins() {
        let (db, mut driver) = unconnected();
        let (first, last, task) = <(Arc<Woken>, Arc<Woken>, Arc<Woken>)>::default();
        driver.set_waker(&Waker::from(first.clone()));
        driver.set_waker(&Waker::from(last.clone()));
        assert_eq!(Arc::strong_count(&first), 1, "the previous waker is kept");
        for _ in 0..2 {
            let mut future = db.get_into("key", vec![0; 1]);
            assert_eq!(last.take(), 0, "before it is polled");
            assert!(poll(&mut future, &task).is_pending());
            assert_eq!((first.take(), last.take()), (0, 1));
            assert!(poll(&mut future, &task).is_pending());
            assert_eq!(db.shared.lock().queue.len(), 1, "it was begun twice");
            drop(future);
            assert_eq!(last.take(), 1, "there is one to free");
            let (mut queue, leftovers) = {
                let mut state = db.shared.lock();
                let mut queue = std::mem::take(&mut state.queue);
                let in_flight = &state.client.as_ref().unwrap().in_flight;
                // SAFETY: it is queued.
                unsafe { in_flight.drop_abandoned(&mut queue) };
                (queue, in_flight.of_futures())
            };
            leftovers.settle();
            assert_eq!(queue.pop(), None);
        }
        let other = db.clone();
        drop(other);
        assert_eq!(last.take(), 0);
        drop(db);
        assert_eq!(last.take(), 1, "the last client has gone");
        drop(driver);
        assert_eq!(Arc::strong_count(&last), 1, "the waker is kept");
    }

    #[test]
    fn a_client_that_was_lent_wakes_the_driver() {
        let (db, mut driver) = unconnected();
        let woken = Arc::new(Woken::default());
        driver.set_waker(&Waker::from(woken.clone()));
        assert_eq!(db.with_client(|_| 7).unwrap(), 7);
        assert_eq!(woken.take(), 1);
    }

    #[test]
    fn all_tasks_are_woken_when_the_driver_is_dropped() {
        let (db, driver) = unconnected();
        let (first, last) = <(Arc<Woken>, Arc<Woken>)>::default();
        let mut futures = [db.get_into("one", vec![1; 1]), db.get_into("two", vec![2; 1])];
        for future in &mut futures {
            assert!(poll(future, &first).is_pending());
            assert!(poll(future, &last).is_pending());
        }
        assert_eq!(Arc::strong_count(&first), 1, "the previous waker is kept");
        drop(driver);
        assert_eq!((first.take(), last.take()), (0, 2));
        assert_eq!(Arc::strong_count(&last), 1, "the waker is kept");
        for (future, byte) in futures.iter_mut().zip([1, 2]) {
            match poll(future, &last) {
                Poll::Ready((Err(Error::Disconnected(_)), bytes)) => assert_eq!(bytes, [byte]),
                other => panic!("{other:?}"),
            }
        }
        let mut late = db.get_into("three", vec![3; 1]);
        assert!(poll(&mut late, &last).is_ready());
        assert!(matches!(db.with_client(|_| ()), Err(Error::Disconnected(_))));
    }

    #[test]
    fn operations_have_the_timeout_that_was_set_before_they_began() {
        let (db, driver) = unconnected();
        let timeout_ms = |future: &Submitted<'_, Item, Vec<u8>>| {
            let header = future.owned.as_ref().unwrap().header();
            // SAFETY: nobody else uses it; a header begins with the operation.
            unsafe { (*header.cast::<sys::kvd_op>()).timeout_ms }
        };
        let get = || db.get_into("key", vec![0; 1]);
        assert_eq!(timeout_ms(&get()), 0, "as the client's");
        for (time, ms) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(7), 7),
            (Duration::from_millis((1 << 32) + 1), u32::MAX),
        ] {
            assert_eq!(timeout_ms(&get().timeout(time)), ms, "{time:?}");
        }
        let mut begun = get().timeout(Duration::from_millis(7));
        assert!(poll(&mut begun, &Arc::default()).is_pending());
        let begun = begun.timeout(Duration::from_millis(8));
        assert_eq!(timeout_ms(&begun), 7);
        drop(driver);
    }

    #[test]
    fn room_shrinks_when_it_was_not_needed_for_long() {
        let room = NextRoom { bytes: AtomicUsize::new(ROOM_BYTES), unused: AtomicUsize::new(0) };
        let bytes = || room.bytes.load(Ordering::Relaxed);
        let used = |used, times| (0..times).for_each(|_| room.was_enough(bytes(), used));
        room.was_needed(5000);
        used(2501, UNUSED_MAX + 1);
        assert_eq!(bytes(), 5000, "half of it is used");
        used(0, UNUSED_MAX - 1);
        used(2501, 1);
        used(2500, UNUSED_MAX - 1);
        assert_eq!(bytes(), 5000);
        used(2500, 1);
        assert_eq!(bytes(), 2500);
        room.was_needed(5000);
        used(0, UNUSED_MAX - 1);
        assert_eq!(bytes(), 5000);
        used(0, 10 * UNUSED_MAX);
        assert_eq!(bytes(), 1250, "it is less than the first room");
    }

    /// A waker that takes the lock when it is woken, and when it is dropped.
    struct Locks(Arc<Shared>);

    impl Wake for Locks {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock());
        }
    }

    impl Drop for Locks {
        fn drop(&mut self) {
            drop(self.0.lock());
        }
    }

    #[test]
    fn no_lock_is_held_when_wakers_are_woken_or_dropped() {
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let (db, mut driver) = unconnected();
            let shared = db.shared.clone();
            let locks = || Waker::from(Arc::new(Locks(shared.clone())));
            let poll = |future: &mut Submitted<'_, Item, Vec<u8>>| {
                let is_pending =
                    Pin::new(future).poll(&mut Context::from_waker(&locks())).is_pending();
                assert!(is_pending);
            };
            driver.set_waker(&locks());
            driver.set_waker(&locks());
            let mut future = db.get_into("key", vec![0; 1]);
            poll(&mut future);
            poll(&mut future);
            drop(future);
            assert_eq!(db.with_client(|_| ()), Ok(()));
            drop(db);
            drop(driver);
            ended.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(300)).expect("it waits for its own lock, or panicked");
    }

    /// The driver does not turn: its connection is gone.
    #[test]
    fn a_driver_without_a_client_says_so() {
        let (_db, mut driver) = unconnected();
        driver.shared.lock().client = None;
        assert!(matches!(driver.turn(), Err(Error::Disconnected(_))));
        let mut run = driver.run(|_| panic!("there is nothing to wait for"));
        assert!(matches!(poll(&mut run, &Arc::default()), Poll::Ready(Err(_))));
    }
}
