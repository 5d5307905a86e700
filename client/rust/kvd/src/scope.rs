// SPDX-License-Identifier: MIT
//! Many operations under way at once that may borrow their memory, like std::thread::scope().

use crate::buffer::{Buffer, BufferMut};
use crate::change::Counted;
use crate::error::Result;
use crate::item::{Initial, Item, PutArgs};
use crate::operation::{FirstPanic, Header, Owned, Request};
use crate::options::operation_ms;
use crate::{sys, Client};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Operations submitted together: as many as can share a message or a chain of READs.
const TOGETHER: usize = 32;
/// How long one call waits for the next operation to end; each operation has its own deadline.
const WAIT_MS: u32 = 1000;

/// How scopes and the asynchronous client decode an operation that has succeeded.
pub(crate) mod decode {
    use super::*;

    pub(crate) fn item(op: &sys::kvd_op) -> Item {
        Item::new(&op.item)
    }

    pub(crate) fn version(op: &sys::kvd_op) -> u64 {
        op.item.version
    }

    pub(crate) fn counted(op: &sys::kvd_op) -> Counted {
        Counted { number: op.number, version: op.item.version }
    }

    pub(crate) fn nothing(_: &sys::kvd_op) {}
}

/// The part of a scope that its tickets use.
struct Inner<'env> {
    client: &'env Client,
    queue: RefCell<Vec<*mut Header>>,
    pending: Cell<usize>, // begun, and not handed back
    timeout_ms: Cell<u32>,
}

impl Inner<'_> {
    fn submit(&self) {
        let mut queue = self.queue.borrow_mut();
        if !queue.is_empty() {
            // SAFETY: the operations are queued, and their memory outlives the scope, which waits
            // for them.
            unsafe { self.client.submit(&mut queue) };
        }
    }

    fn hand_back(&self, wait_ms: u32) {
        self.submit();
        self.client.hand_back(wait_ms);
        self.client.in_flight.of_scopes().settle();
    }
}

/// Waits until all operations have ended, even after a panic. Borrows the scope only shared: the
/// drop of a buffer may use the scope, and begin further operations.
struct End<'a>(&'a Inner<'a>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let (client, mut panic) = (self.0.client, FirstPanic::default());
        loop {
            self.0.submit();
            while self.0.pending.get() > 0 {
                client.hand_back(WAIT_MS);
            }
            if !client.in_flight.of_scopes().settle_to(&mut panic) {
                break;
            }
        }
        panic.resume();
    }
}

/// Operations that are under way together; made by [`Client::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    inner: Inner<'env>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Client {
    /// Calls `work` with a scope, in which any number of operations may be under way at once, and
    /// waits until all of them have ended. So an operation may borrow memory from outside: the
    /// memory stays borrowed until [`Ticket::wait`] gives it back or the scope has ended, even if
    /// the ticket is leaked.
    ///
    /// Operations are submitted when 32 have been begun, or when you wait for one: so small changes
    /// share messages, and GETs share chains of READs. Changes take effect in the order in which
    /// they were begun; a GET sees the changes begun before it.
    ///
    /// ```no_run
    /// # fn main() -> kvd::Result<()> {
    /// # let db = kvd::Client::open("softnic:///run/kvd/kvd.sock")?;
    /// let (mut first, mut second) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    /// db.scope(|scope| -> kvd::Result<()> {
    ///     let one = scope.get("first", &mut first);
    ///     let two = scope.get("second", &mut second);
    ///     let (item, bytes) = one.wait();
    ///     println!("{:?}: {:?}", item?, bytes.first());
    ///     let (item, _) = two.wait();
    ///     println!("{:?}", item?);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The buffer of an operation that is under way can't be used:
    ///
    /// ```compile_fail,E0503
    /// # let db = kvd::Client::open("softnic:///run/kvd/kvd.sock").unwrap();
    /// let mut buffer = [0; 100];
    /// db.scope(|scope| {
    ///     let ticket = scope.get("name", &mut buffer[..]);
    ///     buffer[0] = 1; // error: it is borrowed
    ///     let _ = ticket.wait();
    /// });
    /// ```
    ///
    /// The value of a PUT can't be changed, even if the ticket is leaked:
    ///
    /// ```compile_fail,E0506
    /// # let db = kvd::Client::open("softnic:///run/kvd/kvd.sock").unwrap();
    /// let mut value = [0; 100];
    /// db.scope(|scope| {
    ///     std::mem::forget(scope.put("name", &value));
    ///     value[0] = 1; // error: it is borrowed
    /// });
    /// ```
    ///
    /// A buffer must outlive the scope:
    ///
    /// ```compile_fail,E0597
    /// # let db = kvd::Client::open("softnic:///run/kvd/kvd.sock").unwrap();
    /// db.scope(|scope| {
    ///     let mut buffer = [0; 100];
    ///     let ticket = scope.get("name", &mut buffer[..]); // error: it does not live long enough
    ///     let _ = ticket.wait();
    /// });
    /// ```
    ///
    /// No ticket may leave the scope:
    ///
    /// ```compile_fail,E0521
    /// # let db = kvd::Client::open("softnic:///run/kvd/kvd.sock").unwrap();
    /// let mut kept = None;
    /// db.scope(|scope| {
    ///     kept = Some(scope.ping()); // error: it escapes
    /// });
    /// ```
    pub fn scope<'env, T>(
        &'env self,
        work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    ) -> T {
        let inner = Inner {
            client: self,
            queue: RefCell::default(),
            pending: Cell::new(0),
            timeout_ms: Cell::new(0),
        };
        let scope = Scope { inner, scope: PhantomData, env: PhantomData };
        let _end = End(&scope.inner);
        work(&scope)
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    fn begin<R, B>(&'scope self, mut owned: Owned<R, B>) -> Ticket<'scope, R, B> {
        owned.set_timeout_ms(self.inner.timeout_ms.get());
        // SAFETY: the scope does not end before all operations have been handed back.
        unsafe { owned.queued_in(&self.inner.pending) };
        let full = {
            let mut queue = self.inner.queue.borrow_mut();
            queue.push(owned.header());
            queue.len() >= TOGETHER
        };
        if full {
            self.inner.submit();
        }
        Ticket { inner: &self.inner, owned }
    }

    /// A GET of `key` to `buffer`, as [`Client::get_into`]. The result is an error,
    /// [`crate::Error::NotFound`], if the key does not exist.
    pub fn get<B: BufferMut + 'scope>(
        &'scope self,
        key: impl AsRef<[u8]>,
        buffer: B,
    ) -> Ticket<'scope, Item, B> {
        self.begin(Owned::reads(Request::get(), key.as_ref(), buffer, decode::item))
    }

    /// GET to several buffers, one after another, as [`Client::get_into_vectored`].
    pub fn get_vectored<B: BufferMut + 'scope>(
        &'scope self,
        key: impl AsRef<[u8]>,
        buffers: Vec<B>,
    ) -> Ticket<'scope, Item, Vec<B>> {
        self.begin(Owned::reads_pieces(key.as_ref(), buffers, decode::item))
    }

    /// As [`Client::get_by_request`], to `buffer`; the result as of [`Scope::get`].
    pub fn get_by_request<B: BufferMut + 'scope>(
        &'scope self,
        key: impl AsRef<[u8]>,
        buffer: B,
    ) -> Ticket<'scope, Item, B> {
        self.begin(Owned::reads(Request::get_by_request(), key.as_ref(), buffer, decode::item))
    }

    /// As [`Client::get_and_touch`], to `buffer`; the result as of [`Scope::get`].
    ///
    /// # Errors
    ///
    /// [`crate::Error::Invalid`]: the time is 0 or longer than 34 years.
    pub fn get_and_touch<B: BufferMut + 'scope>(
        &'scope self,
        key: impl AsRef<[u8]>,
        ttl: Option<Duration>,
        buffer: B,
    ) -> Result<Ticket<'scope, Item, B>> {
        let request = Request::get_and_touch(ttl)?;
        Ok(self.begin(Owned::reads(request, key.as_ref(), buffer, decode::item)))
    }

    /// Whether `key` exists, as [`Client::exists`]; [`crate::Error::NotFound`] if not.
    pub fn exists(&'scope self, key: impl AsRef<[u8]>) -> Ticket<'scope, Item, ()> {
        self.begin(Owned::new(Request::exists(), key.as_ref(), (), decode::item))
    }

    /// A PUT of `value`, as [`Client::put`]. The result is the key's new version.
    pub fn put<B: Buffer + 'scope>(
        &'scope self,
        key: impl AsRef<[u8]>,
        value: B,
    ) -> Ticket<'scope, u64, B> {
        match self.put_with(key, value, &PutArgs::default()) {
            Ok(ticket) => ticket,
            Err(_) => unreachable!("the defaults are allowed"),
        }
    }

    /// A PUT of `value`, as [`Client::put_with`]. The result is the key's new version.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Invalid`]: a time is 0 or longer than 34 years.
    pub fn put_with<B: Buffer + 'scope>(
        &'scope self,
        key: impl AsRef<[u8]>,
        value: B,
        args: &PutArgs,
    ) -> Result<Ticket<'scope, u64, B>> {
        let request = Request::put(args)?;
        Ok(self.begin(Owned::stores(request, key.as_ref(), value, decode::version)))
    }

    /// PUT of a value in several buffers, one after another, as [`Client::put_vectored`].
    ///
    /// # Errors
    ///
    /// As [`Scope::put_with`].
    pub fn put_vectored<B: Buffer + 'scope>(
        &'scope self,
        key: impl AsRef<[u8]>,
        buffers: Vec<B>,
        args: &PutArgs,
    ) -> Result<Ticket<'scope, u64, Vec<B>>> {
        let request = Request::put(args)?;
        Ok(self.begin(Owned::stores_pieces(request, key.as_ref(), buffers, decode::version)))
    }

    /// Removes `key`, as [`Client::delete`] or, if `version` is not `None`, [`Client::delete_if`];
    /// [`crate::Error::NotFound`] if it does not exist.
    pub fn delete(
        &'scope self,
        key: impl AsRef<[u8]>,
        version: Option<u64>,
    ) -> Ticket<'scope, (), ()> {
        self.begin(Owned::new(Request::delete(version), key.as_ref(), (), decode::nothing))
    }

    /// As [`Client::incr`].
    ///
    /// # Errors
    ///
    /// [`crate::Error::Invalid`]: the time to live is 0 or longer than 34 years.
    pub fn incr(
        &'scope self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: Option<&Initial>,
    ) -> Result<Ticket<'scope, Counted, ()>> {
        let request = Request::arith(true, delta, initial)?;
        Ok(self.begin(Owned::new(request, key.as_ref(), (), decode::counted)))
    }

    /// As [`Client::decr`].
    ///
    /// # Errors
    ///
    /// As [`Scope::incr`].
    pub fn decr(
        &'scope self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: Option<&Initial>,
    ) -> Result<Ticket<'scope, Counted, ()>> {
        let request = Request::arith(false, delta, initial)?;
        Ok(self.begin(Owned::new(request, key.as_ref(), (), decode::counted)))
    }

    /// As [`Client::touch`].
    ///
    /// # Errors
    ///
    /// [`crate::Error::Invalid`]: the time is 0 or longer than 34 years.
    pub fn touch(
        &'scope self,
        key: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<Ticket<'scope, u64, ()>> {
        let request = Request::touch(ttl)?;
        Ok(self.begin(Owned::new(request, key.as_ref(), (), decode::version)))
    }

    /// As [`Client::ping`].
    pub fn ping(&'scope self) -> Ticket<'scope, (), ()> {
        self.begin(Owned::new(Request::ping(), &[], (), decode::nothing))
    }

    /// Sets how long each operation that is begun from now on may take; `None`: the client's
    /// timeout.
    pub fn timeout(&'scope self, time: Option<Duration>) {
        self.inner.timeout_ms.set(operation_ms(time));
    }

    /// Submits the operations that were begun, and lets all proceed. Does not block.
    pub fn poll(&'scope self) {
        self.inner.client.hand_back_inherited();
        self.inner.hand_back(0);
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// An operation of a [`Scope`]. If the ticket is dropped, the operation continues.
#[must_use = "wait() for it, or its errors are lost"]
pub struct Ticket<'scope, R, B> {
    inner: &'scope Inner<'scope>,
    owned: Owned<R, B>,
}

impl<R, B> Ticket<'_, R, B> {
    /// Waits until the operation has ended; returns its result, and its buffer.
    pub fn wait(self) -> (Result<R>, B) {
        while !self.owned.has_ended() {
            self.inner.hand_back(WAIT_MS);
        }
        self.owned.finish()
    }

    /// Whether the operation has ended. Does not block; [`Scope::poll`] lets operations proceed.
    pub fn has_ended(&self) -> bool {
        self.owned.has_ended()
    }

    /// Ends the operation early if possible: with [`crate::Error::Canceled`], and no effect on the
    /// server. A change that was sent continues.
    pub fn cancel(&self) {
        self.inner.submit();
        // SAFETY: the operation is this client's.
        unsafe { self.inner.client.cancel(self.owned.header()) };
    }
}

impl<R, B> fmt::Debug for Ticket<'_, R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operations are begun, and never submitted.
    #[test]
    fn timeouts_are_those_of_the_operations_that_follow() {
        let client = Client::unconnected();
        let inner = Inner {
            client: &client,
            queue: RefCell::default(),
            pending: Cell::new(0),
            timeout_ms: Cell::new(0),
        };
        let scope = Scope { inner, scope: PhantomData, env: PhantomData };
        let begin = |time| {
            scope.timeout(time);
            let ticket = scope.ping();
            assert!(!ticket.has_ended());
        };
        drop(scope.ping());
        begin(Some(Duration::ZERO));
        begin(Some(Duration::from_millis(7)));
        drop(scope.ping());
        begin(None);
        begin(Some(Duration::MAX));
        let mut queue = scope.inner.queue.take();
        assert_eq!((queue.len(), scope.inner.pending.get()), (6, 6));
        let timeouts: Vec<_> = queue
            .iter()
            // SAFETY: they are queued, and a header begins with the operation.
            .map(|header| unsafe { (*header.cast::<sys::kvd_op>()).timeout_ms })
            .collect();
        assert_eq!(timeouts, [0, 1, 7, 7, 0, u32::MAX]);
        // SAFETY: as above.
        unsafe { client.in_flight.refuse(&mut queue, &crate::Error::invalid("")) };
        client.in_flight.of_scopes().settle();
        assert_eq!(scope.inner.pending.get(), 0);
    }

    #[test]
    fn results_are_those_of_the_operation() {
        let mut op = sys::kvd_op_zeroed();
        op.item = sys::kvd_item { value_len: 1, version: 2, flags: 3, expires_s: 4 };
        op.number = 5;
        assert_eq!(decode::item(&op), Item::new(&op.item));
        assert_eq!(decode::version(&op), 2);
        assert_eq!(decode::counted(&op), Counted { number: 5, version: 2 });
    }
}
