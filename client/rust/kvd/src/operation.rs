// SPDX-License-Identifier: MIT
//! Submitted operations, and who owns them when.
//!
//! An operation is one allocation with all that the library uses: `struct kvd_op`, the key and the
//! value's buffer. An operation has up to two owners, each by a raw pointer:
//!
//! - from its submission until it is handed back, the client (`InFlight`);
//! - until it is dropped, a handle: the ticket of a scope, or a future.
//!
//! If the handle is dropped first, the operation is *abandoned*, and freed when it is handed back.
//! If the handle is leaked, so is the operation. So whatever safe code does, memory of an operation
//! that is under way is never freed. Borrowed memory is safe because a scope does not end before
//! its operations (scope.rs), and futures borrow none.
//!
//! Cleaning up after an operation runs arbitrary code: wakers, and the drop of a buffer. That work
//! is collected (`Leftovers`), and done when no lock is held.

use crate::buffer::{Buffer, BufferMut};
use crate::error::{Error, Result};
use crate::item::{Initial, PutArgs};
use crate::{item, sys, Client};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::task::Waker;
use std::thread;
use std::time::Duration;

/// Operations that kvd_poll() hands back in one call.
const HANDED_BACK_MAX: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only its owner has the operation.
    Idle,
    /// The operation waits for its submission, in a list of pointers.
    Queued,
    /// The library owns the operation.
    InFlight,
    /// The operation was handed back.
    Ended,
}

/// The part of an operation that does not depend on the kind of its buffer.
#[repr(C)]
pub(crate) struct Header {
    raw: sys::kvd_op, // first: the library hands back a pointer to `raw`
    state: State,
    abandoned: bool,
    error: Option<Error>, // of its submission
    waker: Option<Waker>,
    pieces: Box<[sys::iovec]>, // of the buffer, if there are several
    scope: *const Cell<usize>, // operations of its scope not yet handed back; NULL: a future's
    previous: *mut Header,
    next: *mut Header,
    release: unsafe fn(*mut Header),
}

/// An operation with a buffer.
#[repr(C)]
struct Operation<B> {
    header: Header,
    key: Key,
    buffer: B,
}

/// Keys up to this length need no memory of their own.
const KEY_INLINE_BYTES: usize = 40;

enum Key {
    Inline([u8; KEY_INLINE_BYTES]),
    Heap(Box<[u8]>),
}

impl Key {
    fn new(key: &[u8]) -> Key {
        if key.len() > KEY_INLINE_BYTES {
            return Key::Heap(key.into());
        }
        let mut inline = [0; KEY_INLINE_BYTES];
        inline[..key.len()].copy_from_slice(key);
        Key::Inline(inline)
    }

    fn as_ptr(&self) -> *const c_void {
        match self {
            Key::Inline(bytes) => bytes.as_ptr().cast(),
            Key::Heap(bytes) => bytes.as_ptr().cast(),
        }
    }
}

/// What an operation does, without key and value: the fields that it sets in `struct kvd_op`.
#[derive(Default)]
pub(crate) struct Request {
    op: sys::kvd_opcode,
    flags: u32,
    ttl_s: u32,
    mode: sys::kvd_put_mode,
    create: u32,
    pin_s: u32,
    priority: sys::kvd_priority,
    if_version: u64,
    delta: u64,
    initial: u64,
    offset: usize,
}

impl Request {
    fn new(op: sys::kvd_opcode) -> Request {
        Request { op, ..Request::default() }
    }

    pub(crate) fn get() -> Request {
        Request::new(sys::KVD_OP_GET)
    }

    pub(crate) fn get_range(offset: usize) -> Request {
        Request { offset, ..Request::new(sys::KVD_OP_GET_RANGE) }
    }

    pub(crate) fn get_by_request() -> Request {
        Request::new(sys::KVD_OP_GET_BY_REQUEST)
    }

    pub(crate) fn get_and_touch(ttl: Option<Duration>) -> Result<Request> {
        let ttl_s = item::seconds(ttl, "time to live")?;
        Ok(Request { ttl_s, ..Request::new(sys::KVD_OP_GET_AND_TOUCH) })
    }

    pub(crate) fn exists() -> Request {
        Request::new(sys::KVD_OP_EXISTS)
    }

    pub(crate) fn ping() -> Request {
        Request::new(sys::KVD_OP_PING)
    }

    pub(crate) fn put(args: &PutArgs) -> Result<Request> {
        let args = args.raw()?;
        Ok(Request {
            flags: args.flags,
            ttl_s: args.ttl_s,
            mode: args.mode,
            pin_s: args.pin_s,
            priority: args.priority,
            if_version: args.if_version,
            ..Request::new(sys::KVD_OP_PUT)
        })
    }

    pub(crate) fn delete(if_version: Option<u64>) -> Request {
        let mode = if_version.map_or(0, |_| sys::KVD_PUT_IF_VERSION);
        let if_version = if_version.unwrap_or(0);
        Request { mode, if_version, ..Request::new(sys::KVD_OP_DELETE) }
    }

    pub(crate) fn arith(up: bool, delta: u64, initial: Option<&Initial>) -> Result<Request> {
        let args = item::arith_raw(initial)?;
        Ok(Request {
            delta,
            create: args.create,
            flags: args.flags,
            ttl_s: args.ttl_s,
            initial: args.initial,
            ..Request::new(if up { sys::KVD_OP_INCR } else { sys::KVD_OP_DECR })
        })
    }

    pub(crate) fn touch(ttl: Option<Duration>) -> Result<Request> {
        let ttl_s = item::seconds(ttl, "time to live")?;
        Ok(Request { ttl_s, ..Request::new(sys::KVD_OP_TOUCH) })
    }

    /// # Safety
    ///
    /// `raw` is memory for an operation.
    unsafe fn write(&self, raw: *mut sys::kvd_op) {
        ptr::write_bytes(raw, 0, 1); // zeros are valid: see kvd_op_zeroed()
        (*raw).op = self.op;
        (*raw).flags = self.flags;
        (*raw).ttl_s = self.ttl_s;
        (*raw).mode = self.mode;
        (*raw).create = self.create;
        (*raw).pin_s = self.pin_s;
        (*raw).priority = self.priority;
        (*raw).if_version = self.if_version;
        (*raw).delta = self.delta;
        (*raw).initial = self.initial;
        (*raw).offset = self.offset;
    }
}

/// Extracts the result of an operation that has ended.
pub(crate) type Decode<R> = fn(&sys::kvd_op) -> R;

/// The owner of an operation on the caller's side.
pub(crate) struct Owned<R, B> {
    operation: NonNull<Operation<B>>,
    decode: Decode<R>,
    owns: PhantomData<B>,
}

// SAFETY: an Owned owns the operation as a Box does. A future touches the parts that the client
// shares under the client's lock; a ticket stays in its thread.
unsafe impl<R, B: Send> Send for Owned<R, B> {}

/// # Safety
///
/// `header` begins an Operation<B> that nobody uses any more.
unsafe fn release<B>(header: *mut Header) {
    drop(Box::from_raw(header.cast::<Operation<B>>()));
}

impl<R, B> Owned<R, B> {
    /// An operation without a value, made in place: moving half a kilobyte would cost time.
    pub(crate) fn new(request: Request, key: &[u8], buffer: B, decode: Decode<R>) -> Owned<R, B> {
        let place = Box::leak(Box::<MaybeUninit<Operation<B>>>::new(MaybeUninit::uninit()));
        let operation = place.as_mut_ptr();
        // SAFETY: each field is written once.
        unsafe {
            let header = ptr::addr_of_mut!((*operation).header);
            request.write(ptr::addr_of_mut!((*header).raw));
            ptr::addr_of_mut!((*header).state).write(State::Idle);
            ptr::addr_of_mut!((*header).abandoned).write(false);
            ptr::addr_of_mut!((*header).error).write(None);
            ptr::addr_of_mut!((*header).waker).write(None);
            ptr::addr_of_mut!((*header).pieces).write(Box::default());
            ptr::addr_of_mut!((*header).scope).write(ptr::null());
            ptr::addr_of_mut!((*header).previous).write(ptr::null_mut());
            ptr::addr_of_mut!((*header).next).write(ptr::null_mut());
            ptr::addr_of_mut!((*header).release).write(release::<B>);
            ptr::addr_of_mut!((*operation).key).write(Key::new(key));
            ptr::addr_of_mut!((*operation).buffer).write(buffer);
            if !key.is_empty() {
                (*header).raw.key = (*operation).key.as_ptr();
                (*header).raw.key_len = key.len();
            }
            Owned { operation: NonNull::new_unchecked(operation), decode, owns: PhantomData }
        }
    }

    /// Takes the operation apart.
    ///
    /// # Safety
    ///
    /// Nobody else has it.
    unsafe fn take(self) -> (Option<Error>, B) {
        let operation = self.operation.as_ptr();
        std::mem::forget(self);
        let buffer = ptr::addr_of!((*operation).buffer).read();
        let error = (*operation).header.error.take();
        drop((*operation).header.waker.take());
        drop(std::mem::take(&mut (*operation).header.pieces));
        ptr::drop_in_place(ptr::addr_of_mut!((*operation).key));
        // All parts that need a drop have been taken or dropped.
        drop(Box::from_raw(operation.cast::<MaybeUninit<Operation<B>>>()));
        (error, buffer)
    }

    pub(crate) fn header(&self) -> *mut Header {
        self.operation.as_ptr().cast()
    }

    pub(crate) fn has_ended(&self) -> bool {
        // SAFETY: the operation lives as long as self.
        unsafe { (*self.header()).state == State::Ended }
    }

    /// Notes that the operation was put into a list of operations that wait for their submission.
    pub(crate) fn queued(&self) {
        // SAFETY: as above.
        unsafe { (*self.header()).state = State::Queued };
    }

    /// As queued(), in a scope: raises `count` until the operation is handed back.
    ///
    /// # Safety
    ///
    /// `count` is valid until the operation is handed back.
    pub(crate) unsafe fn queued_in(&self, count: &Cell<usize>) {
        count.set(count.get() + 1);
        (*self.header()).scope = count;
        self.queued();
    }

    /// Sets how long the operation may take after its submission; 0: the client's timeout.
    pub(crate) fn set_timeout_ms(&mut self, timeout_ms: u32) {
        // SAFETY: as above.
        unsafe { (*self.header()).raw.timeout_ms = timeout_ms };
    }

    /// Sets the waker to call when the operation ends. Returns the previous one, whose drop may
    /// call anything.
    #[must_use]
    pub(crate) fn wake(&self, waker: &Waker) -> Option<Waker> {
        // SAFETY: as above.
        let slot = unsafe { &mut (*self.header()).waker };
        match slot {
            Some(old) if old.will_wake(waker) => None,
            _ => slot.replace(waker.clone()),
        }
    }

    /// The buffer of an operation that is not under way.
    pub(crate) fn into_buffer(self) -> B {
        // SAFETY: an idle operation has no other owner.
        unsafe {
            assert_eq!((*self.header()).state, State::Idle, "the operation is under way");
            self.take().1
        }
    }

    /// The result and the buffer of an operation that has ended.
    pub(crate) fn finish(self) -> (Result<R>, B) {
        assert!(self.has_ended(), "the operation is under way");
        // SAFETY: the client has handed it back.
        unsafe {
            let raw = &(*self.header()).raw;
            let result = match raw.status {
                sys::KVD_OK => Ok((self.decode)(raw)),
                status => Err(Error::of_status(status, raw.item.value_len)),
            };
            match self.take() {
                (Some(error), buffer) => (Err(error), buffer),
                (None, buffer) => (result, buffer),
            }
        }
    }

    /// Gives up the operation. Frees it now, or returns it if the client frees it when it is
    /// handed back. Drop the waker when no lock is held.
    pub(crate) fn abandon(self) -> Option<(*mut Header, Option<Waker>)> {
        let header = self.header();
        std::mem::forget(self);
        // SAFETY: as in finish(), or the client frees it.
        unsafe {
            if matches!((*header).state, State::Queued | State::InFlight) {
                (*header).abandoned = true;
                return Some((header, (*header).waker.take()));
            }
            ((*header).release)(header);
        }
        None
    }
}

impl<R, B: BufferMut> Owned<R, B> {
    /// A GET to the buffer.
    pub(crate) fn reads(request: Request, key: &[u8], buffer: B, decode: Decode<R>) -> Self {
        let owned = Owned::new(request, key, buffer, decode);
        // SAFETY: nobody else has it yet. The buffer does not move any more.
        unsafe {
            let operation = &mut *owned.operation.as_ptr();
            let (value, bytes) = operation.buffer.bytes_mut();
            operation.header.raw.value = value.cast();
            operation.header.raw.value_len = bytes;
        }
        owned
    }
}

impl<R, B: Buffer> Owned<R, B> {
    /// A PUT from the buffer.
    pub(crate) fn stores(request: Request, key: &[u8], buffer: B, decode: Decode<R>) -> Self {
        let owned = Owned::new(request, key, buffer, decode);
        // SAFETY: as above; it is only read.
        unsafe {
            let operation = &mut *owned.operation.as_ptr();
            let (value, bytes) = operation.buffer.bytes();
            operation.header.raw.value = value as *mut c_void;
            operation.header.raw.value_len = bytes;
        }
        owned
    }
}

impl<R, B> Owned<R, Vec<B>> {
    /// Sets the pieces of the buffer; `piece` returns the address and length of each.
    fn set_pieces(&mut self, piece: impl Fn(&mut B) -> (*mut u8, usize)) {
        // SAFETY: nobody else has it yet. The buffers do not move any more.
        unsafe {
            let operation = &mut *self.operation.as_ptr();
            let found = operation.buffer.iter_mut().map(|buffer| {
                let (base, bytes) = piece(buffer);
                sys::iovec { iov_base: base.cast(), iov_len: bytes }
            });
            operation.header.pieces = found.collect();
            operation.header.raw.iov = operation.header.pieces.as_ptr();
            // libkvd refuses a number above its limit.
            operation.header.raw.iov_count =
                operation.header.pieces.len().try_into().unwrap_or(u32::MAX);
        }
    }
}

impl<R, B: BufferMut> Owned<R, Vec<B>> {
    /// A GET to the buffers, one after another.
    pub(crate) fn reads_pieces(key: &[u8], buffers: Vec<B>, decode: Decode<R>) -> Self {
        let mut owned = Owned::new(Request::get(), key, buffers, decode);
        owned.set_pieces(|buffer| buffer.bytes_mut());
        owned
    }
}

impl<R, B: Buffer> Owned<R, Vec<B>> {
    /// A PUT from the buffers, one after another.
    pub(crate) fn stores_pieces(
        request: Request,
        key: &[u8],
        buffers: Vec<B>,
        decode: Decode<R>,
    ) -> Self {
        let mut owned = Owned::new(request, key, buffers, decode);
        owned.set_pieces(|buffer| {
            let (base, bytes) = buffer.bytes();
            (base as *mut u8, bytes) // only read
        });
        // SAFETY: nobody else has it yet.
        unsafe {
            let header = &mut (*owned.operation.as_ptr()).header;
            let bytes = header.pieces.iter().map(|piece| piece.iov_len);
            header.raw.value_len = bytes.fold(0, usize::saturating_add);
        }
        owned
    }
}

impl<R, B> Drop for Owned<R, B> {
    fn drop(&mut self) {
        let owned = Owned { operation: self.operation, decode: self.decode, owns: PhantomData };
        owned.abandon();
    }
}

/// The first panic of several calls, all of which must be made.
#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    pub(crate) fn call(&mut self, call: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            match self.0 {
                None => self.0 = Some(panic),
                Some(_) => std::mem::forget(panic), // its drop could panic, too
            }
        }
    }

    /// Resumes the panic, unless the thread is already unwinding.
    pub(crate) fn resume(self) {
        match self.0 {
            Some(panic) if thread::panicking() => std::mem::forget(panic),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
    }
}

/// Cleanup after operations that have ended. May call anything, so settle when no lock is held.
#[derive(Default)]
pub(crate) struct Leftovers {
    wakers: Vec<Waker>,
    abandoned: Vec<*mut Header>,
}

impl Leftovers {
    /// Does all of the cleanup even if a part panics; then resumes the first panic.
    pub(crate) fn settle(self) {
        let mut panic = FirstPanic::default();
        self.settle_to(&mut panic);
        panic.resume();
    }

    /// Does the cleanup, and keeps the first panic. Returns whether there was anything to do.
    pub(crate) fn settle_to(self, panic: &mut FirstPanic) -> bool {
        let is_empty = self.abandoned.is_empty() && self.wakers.is_empty();
        for header in self.abandoned {
            // SAFETY: the operation was handed back, and its owner is gone.
            panic.call(|| unsafe { ((*header).release)(header) });
        }
        for waker in self.wakers {
            panic.call(|| waker.wake());
        }
        !is_empty
    }
}

/// A list of the client's operations that the library has. Leftovers of scopes and of futures are
/// kept apart: settling those of a future may need the lock under which a scope of the same client
/// runs.
pub(crate) struct InFlight {
    first: Cell<*mut Header>,
    of_scopes: RefCell<Leftovers>,
    of_futures: RefCell<Leftovers>,
}

impl Default for InFlight {
    fn default() -> Self {
        InFlight {
            first: Cell::new(ptr::null_mut()),
            of_scopes: RefCell::default(),
            of_futures: RefCell::default(),
        }
    }
}

impl InFlight {
    /// Whether the library has no operation.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    /// # Safety
    ///
    /// `header` is valid, and in no list.
    unsafe fn add(&self, header: *mut Header) {
        let next = self.first.get();
        (*header).previous = ptr::null_mut();
        (*header).next = next;
        if !next.is_null() {
            (*next).previous = header;
        }
        self.first.set(header);
    }

    /// Takes an operation back from the library, or from a submission that failed.
    ///
    /// # Safety
    ///
    /// `header` is in this list, and the library does not have it any more.
    unsafe fn hand_back(&self, header: *mut Header) {
        let (previous, next) = ((*header).previous, (*header).next);
        if previous.is_null() {
            self.first.set(next);
        } else {
            (*previous).next = next;
        }
        if !next.is_null() {
            (*next).previous = previous;
        }
        (*header).state = State::Ended;
        let mut leftovers = if (*header).scope.is_null() {
            self.of_futures.borrow_mut()
        } else {
            (*(*header).scope).set((*(*header).scope).get() - 1);
            self.of_scopes.borrow_mut()
        };
        if (*header).abandoned {
            leftovers.abandoned.push(header);
        } else if let Some(waker) = (*header).waker.take() {
            leftovers.wakers.push(waker);
        }
    }

    /// Takes the leftovers of scopes.
    pub(crate) fn of_scopes(&self) -> Leftovers {
        self.of_scopes.take()
    }

    /// Takes the leftovers of futures.
    pub(crate) fn of_futures(&self) -> Leftovers {
        self.of_futures.take()
    }

    /// Ends operations that were not submitted.
    ///
    /// # Safety
    ///
    /// Each is queued, and valid.
    pub(crate) unsafe fn refuse(&self, headers: &mut Vec<*mut Header>, error: &Error) {
        for header in headers.drain(..) {
            self.add(header);
            (*header).error = Some(error.clone());
            self.hand_back(header);
        }
    }

    /// Takes abandoned operations of futures out of `headers`, before they are submitted.
    ///
    /// # Safety
    ///
    /// Each is queued, and valid.
    pub(crate) unsafe fn drop_abandoned(&self, headers: &mut Vec<*mut Header>) {
        headers.retain(|&header| {
            if (*header).abandoned {
                self.of_futures.borrow_mut().abandoned.push(header);
            }
            !(*header).abandoned
        });
    }

    /// Hands back all operations, as ended by the loss of the connection.
    ///
    /// # Safety
    ///
    /// The library no longer has any of them: the handle is closed, or the parent's.
    pub(crate) unsafe fn release_all(&self) {
        while !self.is_empty() {
            let header = self.first.get();
            (*header).raw.status = sys::KVD_ERR_DISCONNECTED;
            self.hand_back(header);
        }
    }
}

impl Client {
    /// Submits operations; the library owns them until they are handed back. An operation that the
    /// library refuses ends with its error, and the others go on. Empties `headers`.
    ///
    /// # Safety
    ///
    /// Each is an operation that was not submitted. Its memory stays valid until it is handed
    /// back.
    pub(crate) unsafe fn submit(&self, headers: &mut Vec<*mut Header>) {
        for &header in headers.iter() {
            (*header).state = State::InFlight;
            self.in_flight.add(header);
        }
        // A header begins with the operation that the library knows.
        let ops: *const *mut sys::kvd_op = headers.as_ptr().cast();
        if sys::kvd_submit(self.as_raw(), ops, headers.len()) == sys::KVD_OK {
            headers.clear();
            return;
        }
        // The library refused one, so it submitted none: submit each alone.
        for header in headers.drain(..) {
            let op: *mut sys::kvd_op = header.cast();
            let status = sys::kvd_submit(self.as_raw(), &op, 1);
            if status != sys::KVD_OK {
                (*header).error = Some(self.fail(status, 0));
                self.in_flight.hand_back(header);
            }
        }
    }

    /// Hands back operations that have ended; waits at most `wait_ms` for the first.
    pub(crate) fn hand_back(&self, wait_ms: u32) {
        let mut done = [ptr::null_mut(); HANDED_BACK_MAX];
        let mut n = if wait_ms == 0 {
            // SAFETY: the handle is this thread's, and the array has that much room.
            unsafe { sys::kvd_poll(self.as_raw(), done.as_mut_ptr(), done.len()) }
        } else {
            // SAFETY: as above.
            unsafe { sys::kvd_wait(self.as_raw(), done.as_mut_ptr(), done.len(), 1, wait_ms) }
        };
        loop {
            for &op in &done[..n] {
                // SAFETY: all operations without a function `done` are this crate's.
                unsafe { self.in_flight.hand_back(op.cast()) };
            }
            if n < done.len() {
                break;
            }
            // SAFETY: as above.
            n = unsafe { sys::kvd_poll(self.as_raw(), done.as_mut_ptr(), done.len()) };
        }
        if n == 0 && wait_ms > 0 {
            self.hand_back_inherited();
        }
    }

    /// In a child of fork(2): hands back all operations, which the library no longer uses.
    pub(crate) fn hand_back_inherited(&self) {
        if !self.in_flight.is_empty() && self.is_inherited() {
            // SAFETY: the handle is the parent's.
            unsafe { self.in_flight.release_all() };
        }
    }

    /// Ends an operation early, if possible.
    ///
    /// # Safety
    ///
    /// `header` is valid, and this client's.
    pub(crate) unsafe fn cancel(&self, header: *mut Header) {
        if (*header).state == State::InFlight {
            // The operation is handed back in any case, at the latest at its deadline.
            let _ = sys::kvd_cancel(self.as_raw(), header.cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Priority, PutMode};
    use crate::scope::decode;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;
    use std::task::Wake;

    /// Counts wakes, or drops.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Dropped(Arc<Count>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            (self.0).0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn owned<B>(buffer: B) -> Owned<(), B> {
        Owned::new(Request::ping(), b"key", buffer, decode::nothing)
    }

    fn raw_of(request: Request) -> sys::kvd_op {
        let mut raw = MaybeUninit::<sys::kvd_op>::uninit();
        // SAFETY: all of it is written.
        unsafe {
            raw.as_mut_ptr().write_bytes(0xff, 1);
            request.write(raw.as_mut_ptr());
            raw.assume_init()
        }
    }

    #[test]
    fn requests_have_all_that_they_are_made_of() {
        let args = PutArgs {
            flags: 1,
            ttl: Some(Duration::from_secs(2)),
            mode: PutMode::IfVersion(3),
            pin: Some(Duration::from_secs(4)),
            priority: Priority::Low,
        };
        let put = raw_of(Request::put(&args).unwrap());
        assert_eq!((put.op, put.flags, put.ttl_s), (sys::KVD_OP_PUT, 1, 2));
        assert_eq!((put.mode, put.if_version), (sys::KVD_PUT_IF_VERSION, 3));
        assert_eq!((put.pin_s, put.priority), (4, sys::KVD_PRIORITY_LOW));
        assert_eq!((put.create, put.delta, put.initial, put.timeout_ms), (0, 0, 0, 0));
        assert!(put.done.is_none() && put.iov.is_null() && put.value.is_null());

        let range = raw_of(Request::get_range(9));
        assert_eq!((range.op, range.offset, put.offset), (sys::KVD_OP_GET_RANGE, 9, 0));

        let initial = Initial { number: 5, flags: 6, ttl: Some(Duration::from_secs(7)) };
        let incr = raw_of(Request::arith(true, 8, Some(&initial)).unwrap());
        assert_eq!((incr.op, incr.delta, incr.create), (sys::KVD_OP_INCR, 8, 1));
        assert_eq!((incr.initial, incr.flags, incr.ttl_s), (5, 6, 7));
        let decr = raw_of(Request::arith(false, 8, None).unwrap());
        assert_eq!((decr.op, decr.delta, decr.create), (sys::KVD_OP_DECR, 8, 0));

        let delete = raw_of(Request::delete(None));
        assert_eq!((delete.op, delete.mode, delete.if_version), (sys::KVD_OP_DELETE, 0, 0));
        let delete = raw_of(Request::delete(Some(9)));
        assert_eq!((delete.mode, delete.if_version), (sys::KVD_PUT_IF_VERSION, 9));

        let touch = raw_of(Request::touch(Some(Duration::from_nanos(1))).unwrap());
        assert_eq!((touch.op, touch.ttl_s), (sys::KVD_OP_TOUCH, 1));
        let get = raw_of(Request::get_and_touch(Some(Duration::from_secs(2))).unwrap());
        assert_eq!((get.op, get.ttl_s), (sys::KVD_OP_GET_AND_TOUCH, 2));
        for zero in
            [Request::touch(Some(Duration::ZERO)), Request::get_and_touch(Some(Duration::ZERO))]
        {
            assert!(matches!(zero, Err(Error::Invalid(_))));
        }
        for (request, op) in [
            (Request::get(), sys::KVD_OP_GET),
            (Request::get_by_request(), sys::KVD_OP_GET_BY_REQUEST),
            (Request::exists(), sys::KVD_OP_EXISTS),
            (Request::ping(), sys::KVD_OP_PING),
        ] {
            assert_eq!(raw_of(request).op, op);
        }
    }

    #[test]
    fn keys_of_any_length_are_the_operations() {
        for len in [0, 1, KEY_INLINE_BYTES, KEY_INLINE_BYTES + 1, 1024] {
            let mut key: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let owned = Owned::new(Request::get(), &key, (), decode::nothing);
            let wanted = key.clone();
            key.fill(0xff);
            // SAFETY: nobody else has it.
            let raw = unsafe { &(*owned.header()).raw };
            assert_eq!((raw.key_len, raw.key.is_null()), (len, len == 0));
            if len > 0 {
                // SAFETY: it is the operation's key.
                let key = unsafe { std::slice::from_raw_parts(raw.key.cast::<u8>(), len) };
                assert_eq!(key, wanted);
            }
        }
    }

    #[test]
    fn values_are_those_of_the_buffers() {
        let stores = Owned::stores(Request::get(), b"key", vec![1u8; 3], decode::nothing);
        let pieces = vec![vec![1u8; 3], vec![2; 4]];
        let pieces = Owned::stores_pieces(Request::get(), b"key", pieces, decode::nothing);
        let room = Owned::reads(Request::get(), b"key", vec![0u8; 5], decode::nothing);
        let rooms = Owned::reads_pieces(b"key", vec![vec![0u8; 5], vec![0; 6]], decode::nothing);
        // SAFETY: nobody else has them, and the pieces live as long as they do.
        unsafe {
            let raw = |header: *mut Header| &(*header).raw;
            assert_eq!(raw(stores.header()).value_len, 3);
            assert_eq!(*raw(stores.header()).value.cast::<u8>(), 1);
            assert_eq!(raw(room.header()).value_len, 5);
            assert_eq!(raw(pieces.header()).value_len, 7);
            for (header, lens) in [(pieces.header(), [3, 4]), (rooms.header(), [5, 6])] {
                let iov =
                    std::slice::from_raw_parts(raw(header).iov, raw(header).iov_count as usize);
                assert_eq!(iov.iter().map(|piece| piece.iov_len).collect::<Vec<_>>(), lens);
            }
        }
        assert_eq!(stores.into_buffer(), [1; 3]);
    }

    #[test]
    fn an_operation_wakes_the_last_waker_and_keeps_none() {
        let (first, last) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let in_flight = InFlight::default();
        let owned = owned(());
        assert!(owned.wake(&Waker::from(first.clone())).is_none());
        assert!(owned.wake(&Waker::from(first.clone())).is_none());
        drop(owned.wake(&Waker::from(last.clone())));
        assert_eq!(Arc::strong_count(&first), 1, "the previous waker is kept");
        owned.queued();
        // SAFETY: it is queued.
        unsafe { in_flight.refuse(&mut vec![owned.header()], &Error::invalid("text")) };
        assert!(owned.has_ended() && in_flight.is_empty());
        in_flight.of_scopes().settle();
        assert_eq!(last.get(), 0);
        in_flight.of_futures().settle();
        assert_eq!((first.get(), last.get()), (0, 1));
        assert_eq!(Arc::strong_count(&last), 1, "the waker is kept");
        assert_eq!(owned.finish().0, Err(Error::invalid("text")));
    }

    #[test]
    fn what_ends_leaves_the_list_wherever_it_is() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let in_flight = InFlight::default();
            let pending = Cell::new(0);
            let all = [owned(()), owned(()), owned(())];
            for owned in &all {
                // SAFETY: the count lives as long as the test, and they are in no list.
                unsafe {
                    owned.queued_in(&pending);
                    in_flight.add(owned.header());
                }
            }
            assert_eq!(pending.get(), 3);
            for (n, which) in order.into_iter().enumerate() {
                assert!(!in_flight.is_empty() && !all[which].has_ended());
                // SAFETY: it is in the list.
                unsafe { in_flight.hand_back(all[which].header()) };
                assert!(all[which].has_ended());
                assert_eq!(pending.get(), 2 - n);
            }
            assert!(in_flight.is_empty());
            let all = all.map(|owned| owned.finish().0);
            assert_eq!(all, [Ok(()), Ok(()), Ok(())]);
        }
    }

    #[test]
    fn operations_of_a_lost_connection_end_so() {
        let in_flight = InFlight::default();
        let all = [owned(()), owned(())];
        for owned in &all {
            owned.queued();
            // SAFETY: it is in no list, and the library has none.
            unsafe { in_flight.add(owned.header()) };
        }
        // SAFETY: as above.
        unsafe { in_flight.release_all() };
        assert!(in_flight.is_empty());
        for owned in all {
            assert!(matches!(owned.finish().0, Err(Error::Disconnected(_))));
        }
    }

    #[test]
    fn buffers_are_freed_once_and_not_before_the_end() {
        let (count, waker) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let in_flight = InFlight::default();
        drop(owned(Dropped(count.clone())));
        assert_eq!(count.get(), 1, "one that was never queued");
        drop(owned(Dropped(count.clone())).into_buffer());
        assert_eq!(count.get(), 2, "one that is given back");

        let (kept, gone) = (owned(Dropped(count.clone())), owned(Dropped(count.clone())));
        let mut queue = vec![gone.header(), kept.header()];
        kept.queued();
        gone.queued();
        drop(gone.wake(&Waker::from(waker.clone())));
        drop(gone);
        assert_eq!(Arc::strong_count(&waker), 1, "the waker is kept");
        assert_eq!(count.get(), 2, "one that is queued");
        // SAFETY: they are queued.
        unsafe { in_flight.drop_abandoned(&mut queue) };
        assert_eq!((queue.as_slice(), count.get()), (&[kept.header()][..], 2));
        in_flight.of_futures().settle();
        assert_eq!(count.get(), 3, "one that was abandoned in the queue");

        // SAFETY: it is in no list, and then handed back as the library does it.
        unsafe {
            let header = kept.header();
            in_flight.add(header);
            (*header).state = State::InFlight;
            drop(kept);
            assert_eq!(count.get(), 3, "one that is in flight");
            in_flight.hand_back(header);
        }
        assert_eq!(count.get(), 3, "freed too early");
        in_flight.of_futures().settle();
        assert_eq!((count.get(), waker.get()), (4, 0));

        let ended = owned(Dropped(count.clone()));
        ended.queued();
        // SAFETY: it is queued.
        unsafe { in_flight.refuse(&mut vec![ended.header()], &Error::invalid("")) };
        drop(ended);
        assert_eq!(count.get(), 5, "one that has ended");
    }

    #[test]
    fn the_first_panic_goes_on_and_no_call_is_left_out() {
        let mut calls = 0;
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let mut first = FirstPanic::default();
            for i in 0..3 {
                first.call(|| {
                    calls += 1;
                    if i > 0 {
                        resume_unwind(Box::new(i)); // prints nothing
                    }
                });
            }
            first.resume();
        }));
        assert_eq!((calls, panic.unwrap_err().downcast_ref()), (3, Some(&1)));
        FirstPanic::default().resume();
        let mut nothing = FirstPanic::default();
        assert!(!Leftovers::default().settle_to(&mut nothing));
        let waker = Waker::from(Arc::new(Count::default()));
        let one = Leftovers { wakers: vec![waker], abandoned: Vec::new() };
        assert!(one.settle_to(&mut nothing));
    }

    #[test]
    #[should_panic(expected = "the operation is under way")]
    fn what_is_under_way_has_its_buffer() {
        let owned = owned(());
        owned.queued();
        owned.into_buffer();
    }

    #[test]
    #[should_panic(expected = "the operation is under way")]
    fn what_is_under_way_has_no_result() {
        let _ = owned(()).finish();
    }
}
