// SPDX-License-Identifier: MIT
//! The program's functions that the library calls: for log lines, and for each operation.

use crate::error::{text_of, Error, Result};
use crate::observe::{OpCode, Path};
use crate::{sys, Client};
use std::mem;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How severe a log line is, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// A failure of the device, with cause and remedy.
    Error,
    /// A connection was lost, or could not be opened.
    Warn,
    /// Information for users.
    Notice,
    /// Connections are opened, reopened and closed.
    Info,
    /// Registration of memory, and the device's steps.
    Debug,
}

impl LogLevel {
    fn of_raw(level: sys::kvd_log_level) -> LogLevel {
        match level {
            sys::KVD_LOG_ERROR => LogLevel::Error,
            sys::KVD_LOG_WARN => LogLevel::Warn,
            sys::KVD_LOG_NOTICE => LogLevel::Notice,
            sys::KVD_LOG_INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        }
    }

    fn raw(self) -> sys::kvd_log_level {
        match self {
            LogLevel::Error => sys::KVD_LOG_ERROR,
            LogLevel::Warn => sys::KVD_LOG_WARN,
            LogLevel::Notice => sys::KVD_LOG_NOTICE,
            LogLevel::Info => sys::KVD_LOG_INFO,
            LogLevel::Debug => sys::KVD_LOG_DEBUG,
        }
    }
}

type Logger = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// How many owners use the library now, and the function that gets its log lines. The function may
/// change only while `count` is 0: kvd_set_log().
struct Users {
    count: usize,
    logger: *mut Logger,
}

// SAFETY: a Logger may be sent and shared.
unsafe impl Send for Users {}

static USERS: Mutex<Users> = Mutex::new(Users { count: 0, logger: ptr::null_mut() });

fn users() -> MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While a LibraryUser exists, the library may log.
#[derive(Debug)]
pub(crate) struct LibraryUser(());

impl LibraryUser {
    pub(crate) fn new() -> LibraryUser {
        users().count += 1;
        LibraryUser(())
    }
}

impl Drop for LibraryUser {
    fn drop(&mut self) {
        users().count -= 1;
    }
}

/// Calls a function of the program from a callback of the library. A panic must not unwind through
/// the library; the panic hook has printed it. The panic's payload is leaked: its drop could panic.
fn call(function: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(function)) {
        mem::forget(panic);
    }
}

/// # Safety
///
/// `user` is a Logger, and `text` a string.
unsafe extern "C" fn log_line(user: *mut c_void, level: sys::kvd_log_level, text: *const c_char) {
    let logger = &*user.cast::<Logger>();
    let text = text_of(text);
    call(|| logger(LogLevel::of_raw(level), &text));
}

/// Sets `log` as the function that gets each line of this level or more severe, from all clients of
/// the process. The library writes nothing by itself.
///
/// Any thread that uses the library calls `log`, with the library's locks held: `log` must not
/// block for long, and a call on a client from it is refused or deadlocks. A panic in `log` is
/// printed, and then ignored.
///
/// # Errors
///
/// [`Error::Busy`]: a [`Client`], or registered memory, exists in this process. Nothing was
/// changed.
pub fn set_log(
    level: LogLevel,
    log: impl Fn(LogLevel, &str) + Send + Sync + 'static,
) -> Result<()> {
    log_change(level.raw(), Some(log_line), Box::into_raw(Box::new(Box::new(log))))
}

/// Removes the function that gets log lines.
///
/// # Errors
///
/// As [`set_log`].
pub fn unset_log() -> Result<()> {
    log_change(sys::KVD_LOG_OFF, None, ptr::null_mut())
}

fn log_change(level: sys::kvd_log_level, call: sys::kvd_log_fn, logger: *mut Logger) -> Result<()> {
    let mut users = users();
    let status = if users.count > 0 {
        sys::KVD_ERR_BUSY
    } else {
        // SAFETY: no thread is in a call that logs, and none starts one while this thread holds the
        // lock.
        unsafe { sys::kvd_set_log(level, call, logger.cast()) }
    };
    let unused =
        if status == sys::KVD_OK { mem::replace(&mut users.logger, logger) } else { logger };
    drop(users); // dropping a logger may open clients
    if !unused.is_null() {
        // SAFETY: set_log() made the logger, and the library no longer calls it.
        drop(unsafe { Box::from_raw(unused) });
    }
    match status {
        sys::KVD_OK => Ok(()),
        sys::KVD_ERR_BUSY => Err(Error::Busy(
            "a client or registered memory exists: set the log before the first is made".into(),
        )),
        status => Err(Error::of_status(status, 0)),
    }
}

/// What an operation did, known at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEnd {
    /// When the first READ or request was posted; `None`: nothing was posted.
    pub posted_ns: Option<u64>,
    /// When the operation ended.
    pub end_ns: u64,
    /// `Err` with [`Error::NotFound`] if the key does not exist.
    pub result: Result<()>,
    /// The path that the operation took.
    pub path: Path,
    /// Number of the operation's RDMA READs.
    pub reads: u32,
    /// Number of the operation's requests.
    pub messages: u32,
}

/// The start or the end of an operation. Times are CLOCK_MONOTONIC, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEvent<'a> {
    /// What the operation does.
    pub op: OpCode,
    /// The operation's key; `None`: a PING or a SCAN.
    pub key: Option<&'a [u8]>,
    /// Whether the operation was submitted, in a scope or by a future.
    pub submitted: bool,
    /// When the operation started; equal in both events.
    pub start_ns: u64,
    /// `None`: the operation starts.
    pub end: Option<TraceEnd>,
}

/// The function that gets the events of a client.
pub(crate) struct Tracer(Box<dyn FnMut(&TraceEvent<'_>) + Send>);

impl Tracer {
    pub(crate) fn new(trace: impl FnMut(&TraceEvent<'_>) + Send + 'static) -> Tracer {
        Tracer(Box::new(trace))
    }
}

/// # Safety
///
/// `user` is a Tracer, which nobody else uses meanwhile, and `event` is valid.
unsafe extern "C" fn trace_event(user: *mut c_void, event: *const sys::kvd_trace_event) {
    let (tracer, event) = (&mut *user.cast::<Tracer>(), &*event);
    let key = (!event.key.is_null())
        .then(|| slice::from_raw_parts(event.key.cast::<u8>(), event.key_len));
    let end = (event.ended != 0).then(|| TraceEnd {
        posted_ns: Some(event.posted_ns).filter(|&at| at != 0),
        end_ns: event.end_ns,
        result: match event.status {
            sys::KVD_OK => Ok(()),
            status => Err(Error::of_status(status, 0)),
        },
        path: Path::of_raw(event.path),
        reads: event.reads,
        messages: event.messages,
    });
    let event = TraceEvent {
        op: OpCode::of_raw(event.op),
        key,
        submitted: !event.submitted.is_null(),
        start_ns: event.start_ns,
        end,
    };
    call(|| (tracer.0)(&event));
}

impl Client {
    /// Calls `trace` at the start and the end of each operation of this client, from within the
    /// client's calls. `trace` must be short. Its calls on the same client are refused; on an
    /// [`AsyncClient`](crate::AsyncClient) of that connection they deadlock. A panic in `trace` is
    /// printed, and then ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: operations are outstanding. [`Error::NoMemory`]. Nothing was changed.
    pub fn trace(&self, trace: impl FnMut(&TraceEvent<'_>) + Send + 'static) -> Result<()> {
        self.tracer_change(Some(Box::new(Tracer::new(trace))))
    }

    /// Stops tracing.
    ///
    /// # Errors
    ///
    /// As [`Client::trace`].
    pub fn untrace(&self) -> Result<()> {
        self.tracer_change(None)
    }

    fn tracer_change(&self, tracer: Option<Box<Tracer>>) -> Result<()> {
        let call: sys::kvd_trace_fn = tracer.as_ref().and(Some(trace_event));
        let tracer = tracer.map(|tracer| NonNull::from(Box::leak(tracer)));
        let user = tracer.map_or(ptr::null_mut(), |tracer| tracer.as_ptr().cast());
        // SAFETY: the tracer lives until another one is set, or the handle is closed.
        let result = self.check(unsafe { sys::kvd_trace(self.as_raw(), call, user) });
        let unused = if result.is_ok() { self.tracer.replace(tracer) } else { tracer };
        if let Some(unused) = unused {
            // SAFETY: this function made the tracer, now or earlier; the library no longer has it.
            drop(unsafe { Box::from_raw(unused.as_ptr()) });
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::panic::resume_unwind;
    use std::rc::Rc;

    #[test]
    fn levels_are_the_librarys() {
        for (level, raw) in [
            (LogLevel::Error, sys::KVD_LOG_ERROR),
            (LogLevel::Warn, sys::KVD_LOG_WARN),
            (LogLevel::Notice, sys::KVD_LOG_NOTICE),
            (LogLevel::Info, sys::KVD_LOG_INFO),
            (LogLevel::Debug, sys::KVD_LOG_DEBUG),
        ] {
            assert_eq!((LogLevel::of_raw(raw), level.raw()), (level, raw));
        }
        assert_eq!(LogLevel::of_raw(99), LogLevel::Debug);
    }

    #[test]
    fn a_logger_gets_level_and_text_and_may_panic() {
        static LINES: Mutex<Vec<(LogLevel, String)>> = Mutex::new(Vec::new());
        let mut logger: Logger = Box::new(|level, text| {
            LINES.lock().unwrap_or_else(PoisonError::into_inner).push((level, text.to_string()));
            resume_unwind(Box::new("in the logger")); // prints nothing
        });
        let user = (&mut logger as *mut Logger).cast();
        // SAFETY: it is a Logger, and the text a string.
        unsafe { log_line(user, sys::KVD_LOG_NOTICE, b"text\0".as_ptr().cast()) };
        let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*lines, [(LogLevel::Notice, "text".to_string())]);
    }

    /// A Tracer's function must be Send; these events stay in the test's thread.
    struct Kept(Rc<RefCell<Vec<Seen>>>);

    /// An event with an owned key.
    type Seen = (OpCode, Option<Vec<u8>>, bool, u64, Option<TraceEnd>);

    // SAFETY: the test has one thread.
    unsafe impl Send for Kept {}

    #[test]
    fn a_tracer_gets_all_that_is_known() {
        let events = Kept(Rc::default());
        let kept = Kept(events.0.clone());
        let mut tracer = Tracer::new(move |event| {
            let kept = &kept;
            let key = event.key.map(<[u8]>::to_vec);
            let end = event.end.clone();
            kept.0.borrow_mut().push((event.op, key, event.submitted, event.start_ns, end));
        });
        let op = sys::kvd_op_zeroed();
        let mut raw = sys::kvd_trace_event {
            ended: 0,
            op: sys::KVD_OP_GET,
            key: b"key".as_ptr().cast(),
            key_len: 3,
            submitted: &op,
            start_ns: 1,
            posted_ns: 2,
            end_ns: 3,
            status: sys::KVD_OK,
            path: sys::KVD_PATH_COLD,
            reads: 4,
            messages: 5,
        };
        let mut say = |raw: &sys::kvd_trace_event| {
            let user = (&mut tracer as *mut Tracer).cast();
            // SAFETY: it is a Tracer, and the event is valid.
            unsafe { trace_event(user, raw) };
            events.0.borrow_mut().pop().unwrap()
        };
        assert_eq!(say(&raw), (OpCode::Get, Some(b"key".to_vec()), true, 1, None));
        (raw.ended, raw.submitted) = (1, ptr::null());
        let end = TraceEnd {
            posted_ns: Some(2),
            end_ns: 3,
            result: Ok(()),
            path: Path::Cold,
            reads: 4,
            messages: 5,
        };
        assert_eq!(say(&raw), (OpCode::Get, Some(b"key".to_vec()), false, 1, Some(end.clone())));
        (raw.key, raw.posted_ns, raw.status) = (ptr::null(), 0, sys::KVD_ERR_CANCELED);
        let result = Err(Error::of_status(sys::KVD_ERR_CANCELED, 0));
        let end = TraceEnd { posted_ns: None, result, ..end };
        assert_eq!(say(&raw), (OpCode::Get, None, false, 1, Some(end)));
    }
}
