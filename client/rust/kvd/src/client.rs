// SPDX-License-Identifier: MIT
//! A connection to one server: its lifetime and properties.

use crate::error::{text_of, Error, Result};
use crate::hooks::{LibraryUser, Tracer};
use crate::item::Item;
use crate::operation::{FirstPanic, InFlight};
use crate::{sys, Options};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Values up to this length are read at the first try.
pub(crate) const SCRATCH_BYTES: usize = 4096;

/// A connection to one server.
///
/// A client belongs to one thread at a time: it is [`Send`] but not [`Sync`]. Open one for each
/// thread, which is many times faster than sharing one; clients of a process with the same URL
/// share what they can.
///
/// Each call blocks until it is done or the timeout of the [`Options`] has passed.
/// [`Client::scope`] runs many operations at once, and [`Client::into_async`] turns operations into
/// futures. A client whose connection is lost connects again by itself; libkvd(3), Connections,
/// says what happens to calls meanwhile.
///
/// ```no_run
/// # fn main() -> kvd::Result<()> {
/// let db = kvd::Client::open(&kvd::default_url())?;
/// db.put("name", "Ada")?;
/// if let Some(value) = db.get("name")? {
///     println!("{}", String::from_utf8_lossy(&value));
/// }
/// # Ok(())
/// # }
/// ```
///
/// A client may move to another thread, but two threads can't share it:
///
/// ```compile_fail,E0277
/// # fn main() -> kvd::Result<()> {
/// let db = kvd::Client::open(&kvd::default_url())?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| db.get("name")); // error: kvd::Client can't be shared between threads
/// });
/// # Ok(())
/// # }
/// ```
pub struct Client {
    handle: NonNull<sys::kvd>,
    is_open: bool,
    process: u32,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) in_flight: InFlight,
    pub(crate) tracer: Cell<Option<NonNull<Tracer>>>,
    _user: LibraryUser,
}

// SAFETY: kvd.h, Threads: a handle may move between threads, if one uses it at a time. What the
// client keeps for the library (operations in flight, the tracer) may be sent, too.
unsafe impl Send for Client {}

impl Client {
    /// Connects to the server at `url`, with the defaults of [`Options`].
    ///
    /// # Errors
    ///
    /// As [`Options::open`].
    pub fn open(url: &str) -> Result<Client> {
        Options::new().open(url)
    }

    pub(crate) fn new(handle: NonNull<sys::kvd>, user: LibraryUser) -> Client {
        Client {
            handle,
            is_open: true,
            process: std::process::id(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            in_flight: InFlight::default(),
            tracer: Cell::new(None),
            _user: user,
        }
    }

    /// A client without a connection, for tests that do not call the library.
    #[cfg(test)]
    pub(crate) fn unconnected() -> Client {
        let mut client = Client::new(NonNull::dangling(), LibraryUser::new());
        client.is_open = false;
        client
    }

    /// The handle, for calls of [`crate::sys`]. The client still owns the handle, and closes it.
    ///
    /// Follow the rules of `kvd.h`. Operations that you submit through the handle must have a
    /// function `done`: this crate takes all others for its own.
    pub fn as_raw(&self) -> *mut sys::kvd {
        self.handle.as_ptr()
    }

    /// Whether this is a child of the process that opened the client: there all calls fail, and
    /// nothing is in flight.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// The error of the call that returned this status just now.
    #[cold]
    pub(crate) fn fail(&self, status: sys::kvd_status, needed: usize) -> Error {
        // SAFETY: the string is valid until the next call on the handle. After a call that was
        // refused, the thread has the text, and the handle's may be that of an older call. After
        // KVD_NOT_FOUND, which is no failure to libkvd, the text is always that of an older call.
        let text = unsafe { text_of(sys::kvd_error(self.as_raw())) };
        if text.is_empty() || status == sys::KVD_NOT_FOUND {
            return Error::of_status(status, needed);
        }
        Error::new(status, needed, text)
    }

    pub(crate) fn check(&self, status: sys::kvd_status) -> Result<()> {
        if status == sys::KVD_OK {
            Ok(())
        } else {
            Err(self.fail(status, 0))
        }
    }

    /// The result of a call that looks up a key.
    pub(crate) fn looked_up(
        &self,
        status: sys::kvd_status,
        item: &sys::kvd_item,
    ) -> Result<Option<Item>> {
        match status {
            sys::KVD_OK => Ok(Some(Item::new(item))),
            sys::KVD_NOT_FOUND => Ok(None),
            _ => Err(self.fail(status, item.value_len)),
        }
    }

    /// Sends an empty request to the server's worker and waits for the response.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`], [`Error::Disconnected`], [`Error::Device`], [`Error::Protocol`].
    pub fn ping(&self) -> Result<()> {
        // SAFETY: the handle is open, and this thread's.
        self.check(unsafe { sys::kvd_ping(self.as_raw()) })
    }

    /// The properties of the connection. Does not block; works on a lost connection, too.
    pub fn info(&self) -> Info {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: all of it is filled; the strings are valid until the next call, and copied.
        unsafe {
            sys::kvd_info(self.as_raw(), raw.as_mut_ptr());
            Info::new(&raw.assume_init())
        }
    }

    /// The server's clock now, in nanoseconds since 1970, by which keys expire; precise after a
    /// [`ping`](Client::ping). `None` if the client does not know it, as after its host was
    /// suspended. Does not block; works on a lost connection too.
    pub fn clock_ns(&self) -> Option<u64> {
        // SAFETY: the handle is open.
        Some(unsafe { sys::kvd_clock_ns(self.as_raw()) }).filter(|&clock_ns| clock_ns != 0)
    }
}

impl Client {
    /// Closes the handle. Operations that were in flight end; their `Leftovers` are not settled.
    pub(crate) fn close(&mut self) {
        if !std::mem::replace(&mut self.is_open, false) {
            return;
        }
        // SAFETY: the handle is open, and nobody uses it afterwards. After the call operations
        // that were in flight belong to the caller.
        unsafe {
            sys::kvd_close(self.as_raw());
            self.in_flight.release_all();
        }
    }
}

impl Drop for Client {
    /// Disconnects. Waits for the server only if access records are left to report, for at most
    /// 50 ms.
    fn drop(&mut self) {
        self.close();
        let mut panic = FirstPanic::default();
        // SAFETY: Client::trace() made the tracer, and the library no longer calls it.
        let tracer = self.tracer.take().map(|tracer| unsafe { Box::from_raw(tracer.as_ptr()) });
        panic.call(|| drop(tracer));
        self.in_flight.of_futures().settle_to(&mut panic);
        panic.resume();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info();
        f.debug_struct("Client")
            .field("device", &info.device_name)
            .field("connection", &info.connection)
            .finish_non_exhaustive()
    }
}

/// The properties of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Info {
    /// "rdma", "rdma+tcp", "rdma+tls" or "softnic".
    pub device_kind: String,
    /// The device's name, like "mlx5_0".
    pub device_name: String,
    /// One line: why this device was chosen.
    pub device_why: String,
    /// One line: the path of the connection's queue pair; "" on softnic.
    pub device_link: String,
    /// Random number that the server drew when it started.
    pub incarnation: u64,
    /// Size of the server's memory region, in bytes.
    pub region_bytes: u64,
    /// Longest value that the server takes, in bytes.
    pub value_max: u64,
    /// Requests that may be outstanding now.
    pub window: u32,
    /// Longest message that the server takes, in bytes; the server READs longer values.
    pub request_bytes: u32,
    /// Size of the bucket cache in use, in bytes; 0: no cache.
    pub cache_bytes: usize,
    /// Buckets of the server's index, as far as this client knows.
    pub buckets: u64,
    /// How exactly this client knows the server's clock now, in nanoseconds.
    pub clock_error_ns: u64,
    /// At most one hit in this many is reported to the server; 0: none.
    pub access_rate: u32,
    /// "up", "waiting" (for its next try), "connecting" or "closed".
    pub connection: String,
    /// Times that the client connected again.
    pub reconnects: u64,
    /// The tenant that the client asked for; "" if the server chose one.
    pub tenant: String,
}

impl Info {
    /// # Safety
    ///
    /// The strings of `raw` are valid.
    unsafe fn new(raw: &sys::kvd_info) -> Info {
        Info {
            device_kind: text_of(raw.device_kind),
            device_name: text_of(raw.device_name),
            device_why: text_of(raw.device_why),
            device_link: text_of(raw.device_link),
            incarnation: raw.incarnation,
            region_bytes: raw.region_bytes,
            value_max: raw.value_max,
            window: raw.window,
            request_bytes: raw.request_bytes,
            cache_bytes: raw.cache_bytes,
            buckets: raw.buckets,
            clock_error_ns: raw.clock_error_ns,
            access_rate: raw.access_rate,
            connection: text_of(raw.connection),
            reconnects: raw.reconnects,
            tenant: text_of(raw.tenant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Tracer;
    use std::os::raw::c_char;
    use std::sync::Arc;

    #[test]
    fn info_has_all_that_the_library_says() {
        let text = |text: &'static [u8]| text.as_ptr().cast::<c_char>();
        let raw = sys::kvd_info {
            device_kind: text(b"kind\0"),
            device_name: text(b"name\0"),
            device_why: text(b"why\0"),
            device_link: text(b"link\0"),
            incarnation: 1,
            region_bytes: 2,
            value_max: 3,
            window: 4,
            request_bytes: 5,
            cache_bytes: 6,
            buckets: 7,
            clock_error_ns: 8,
            access_rate: 9,
            connection: text(b"up\0"),
            reconnects: 10,
            tenant: text(b"tenant\0"),
        };
        let info = Info {
            device_kind: "kind".into(),
            device_name: "name".into(),
            device_why: "why".into(),
            device_link: "link".into(),
            incarnation: 1,
            region_bytes: 2,
            value_max: 3,
            window: 4,
            request_bytes: 5,
            cache_bytes: 6,
            buckets: 7,
            clock_error_ns: 8,
            access_rate: 9,
            connection: "up".into(),
            reconnects: 10,
            tenant: "tenant".into(),
        };
        // SAFETY: the strings are static.
        assert_eq!(unsafe { Info::new(&raw) }, info);
    }

    #[test]
    fn a_client_takes_its_tracer_with_it() {
        let (client, traced) = (Client::unconnected(), Arc::new(()));
        let inside = traced.clone();
        let tracer = Box::new(Tracer::new(move |_| drop(inside.clone())));
        client.tracer.set(Some(NonNull::from(Box::leak(tracer))));
        drop(client);
        assert_eq!(Arc::strong_count(&traced), 1);
    }
}
