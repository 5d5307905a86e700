// SPDX-License-Identifier: MIT
//! Statistics of clients: counters, and times of operations by kind and path.

use crate::error::{text_of, Error, Result};
use crate::hooks::LibraryUser;
use crate::{sys, Client};
use std::mem::{size_of, MaybeUninit};
use std::ptr;
use std::time::Duration;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a client has done since it was opened. No counter ever decreases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            fn of_raw(raw: &sys::kvd_stats) -> Stats {
                Stats { $($name: raw.$name,)* }
            }

            /// Names and values, in the order of kvd.h.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

stats! {
    /// GETs done, with any status.
    gets,
    /// GETs that found their key.
    hits,
    /// GETs that did not find their key.
    misses,
    /// Keys looked up for existence alone, with any status.
    exists,
    /// Keys looked up for existence alone, and found.
    exists_found,
    /// PUTs and other changes except DELETEs done, with any status.
    puts,
    /// DELETEs done, with any status.
    deletes,
    /// RDMA READs posted.
    reads,
    /// Bytes requested by RDMA READs.
    read_bytes,
    /// RDMA READs of index buckets, included in reads.
    bucket_reads,
    /// Times the client waited for the network: chains of READs, and requests.
    round_trips,
    /// GETs whose key was where the bucket cache said.
    cache_hits,
    /// Cached slots that no longer led to their key and were dropped.
    cache_stale,
    /// Times a GET read again because the data was being changed.
    retries,
    /// GETs that asked the server: after get_tries, for a colliding tag, or for a key that is about
    /// to expire.
    fallbacks,
    /// RDMA READs of the index's geometry, after the index grew.
    geometry_reads,
    /// Items that a GET found to be expired.
    expired,
    /// Requests for the server's clock, before an expiry time was judged.
    clock_asks,
    /// Times a host's clock was found to have stood still.
    clock_jumps,
    /// Access records sent to the server.
    access_records,
    /// Messages with reports of GETs alone, included in requests.
    access_messages,
    /// Messages sent to the server.
    requests,
    /// Bytes in messages to the server, without the values that the server READs.
    sent_bytes,
    /// Bytes of values that the server fetched with RDMA READs.
    pulled_bytes,
    /// Bytes of values READ to or from registered memory, without a copy.
    direct_bytes,
    /// Times a call slept in the kernel until its completion.
    sleeps,
    /// Times the handle connected again.
    reconnects,
    /// Requests sent again on another connection.
    resent,
    /// Changes sent again that the server had executed before, and answered.
    repeated,
    /// Changes that ended with KVD_ERR_UNKNOWN.
    unknown,
    /// Operations that ended at once, with KVD_ERR_AWAY.
    away,
    /// Times an operation began again, since a member of the fleet lost its key.
    moved,
    /// Newer maps that the handle of a fleet got.
    maps,
}

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($(#[$row:meta])* $variant:ident = $raw:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$row])* $variant,)*
            /// A value of a later version of libkvd: its number.
            Other(u32),
        }

        impl $name {
            pub(crate) fn of_raw(number: u32) -> Self {
                match number {
                    $(sys::$raw => Self::$variant,)*
                    number => Self::Other(number),
                }
            }

            fn raw(self) -> u32 {
                match self {
                    $(Self::$variant => sys::$raw,)*
                    Self::Other(number) => number,
                }
            }
        }
    };
}

numbers! {
    /// What an operation does.
    OpCode {
        /// [`Client::get`] and the like.
        Get = KVD_OP_GET,
        /// [`Client::put`] and the like.
        Put = KVD_OP_PUT,
        /// [`Client::delete`], [`Client::delete_if`].
        Delete = KVD_OP_DELETE,
        /// A request of [`Client::scan`].
        Scan = KVD_OP_SCAN,
        /// [`Client::incr`].
        Incr = KVD_OP_INCR,
        /// [`Client::decr`].
        Decr = KVD_OP_DECR,
        /// [`Client::touch`].
        Touch = KVD_OP_TOUCH,
        /// [`Client::get_by_request`].
        GetByRequest = KVD_OP_GET_BY_REQUEST,
        /// [`Client::get_and_touch`].
        GetAndTouch = KVD_OP_GET_AND_TOUCH,
        /// [`Client::ping`].
        Ping = KVD_OP_PING,
        /// A key of [`Client::exists_many`] and the like.
        Exists = KVD_OP_EXISTS,
        /// [`Client::get_range`] and the like.
        GetRange = KVD_OP_GET_RANGE,
    }
}

numbers! {
    /// The path that an operation took.
    Path {
        /// The operation ended before anything was posted for it.
        None = KVD_PATH_NONE,
        /// By READ, from where the bucket cache said.
        Warm = KVD_PATH_WARM,
        /// By READs, of the index first.
        Cold = KVD_PATH_COLD,
        /// By requests to the server; perhaps after READs.
        Request = KVD_PATH_REQUEST,
        /// By a request, and the server READ the value from this host.
        Pull = KVD_PATH_PULL,
        /// Registered memory: READ to it, or by the server from it; no copy.
        Direct = KVD_PATH_DIRECT,
    }
}

/// Times of operations, in nanoseconds. Quantiles are exact to 1.6 %, all else is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Times {
    /// How many operations there are.
    pub count: u64,
    /// The sum of their times.
    pub sum_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// 50 % of the operations took no longer.
    pub p50_ns: u64,
    /// 90 % of the operations took no longer.
    pub p90_ns: u64,
    /// 99 % of the operations took no longer.
    pub p99_ns: u64,
    /// 99.9 % of the operations took no longer.
    pub p999_ns: u64,
}

impl Times {
    fn of_raw(raw: &sys::kvd_times) -> Times {
        Times {
            count: raw.count,
            sum_ns: raw.sum_ns,
            min_ns: raw.min_ns,
            max_ns: raw.max_ns,
            p50_ns: raw.p50_ns,
            p90_ns: raw.p90_ns,
            p99_ns: raw.p99_ns,
            p999_ns: raw.p999_ns,
        }
    }
}

/// Operations of one kind that took one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OpStats {
    /// Operations that have ended, with any result.
    pub count: u64,
    /// Operations that failed; a key that does not exist is no failure.
    pub errors: u64,
    /// From the start to the first post.
    pub queue: Times,
    /// From the first post to the end.
    pub service: Times,
}

/// The form of [`Client::stats_text`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StatsFormat {
    /// Lines of "name value".
    Lines,
    /// Prometheus' text format 0.0.4.
    Prometheus,
}

/// Enough for any text of kvd_stats_text().
const STATS_TEXT_BYTES: usize = 256 << 10;

/// The error of the thread's last call without a handle, or of a call that takes a const handle.
fn thread_error(status: sys::kvd_status) -> Error {
    // SAFETY: the string is valid until this thread's next such call.
    Error::new(status, 0, unsafe { text_of(sys::kvd_error(ptr::null())) })
}

fn op_stats_of(handle: *const sys::kvd, op: OpCode, path: Path) -> Result<OpStats> {
    let mut raw = MaybeUninit::<sys::kvd_op_stats>::zeroed();
    let size = size_of::<sys::kvd_op_stats>();
    // SAFETY: the handle is NULL or this thread's; zeros are valid, and at most `size` is written.
    let (status, raw) = unsafe {
        let status = sys::kvd_op_stats(handle, op.raw(), path.raw(), raw.as_mut_ptr(), size);
        (status, raw.assume_init())
    };
    if status != sys::KVD_OK {
        return Err(thread_error(status));
    }
    Ok(OpStats {
        count: raw.count,
        errors: raw.errors,
        queue: Times::of_raw(&raw.queue),
        service: Times::of_raw(&raw.service),
    })
}

fn stats_text_of(handle: *const sys::kvd, format: StatsFormat) -> Result<String> {
    let format = match format {
        StatsFormat::Lines => sys::KVD_STATS_LINES,
        StatsFormat::Prometheus => sys::KVD_STATS_PROMETHEUS,
    };
    let (mut text, mut len) = (vec![0u8; STATS_TEXT_BYTES], 0);
    // SAFETY: the handle is NULL or this thread's.
    let status = unsafe {
        sys::kvd_stats_text(handle, format, text.as_mut_ptr().cast(), text.len(), &mut len)
    };
    if status != sys::KVD_OK {
        return Err(thread_error(status));
    }
    text.truncate(len);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl Client {
    /// This client's counters. Does not block; works on a lost connection, too.
    pub fn stats(&self) -> Stats {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: all of it is filled.
        unsafe {
            sys::kvd_stats(self.as_raw(), raw.as_mut_ptr());
            Stats::of_raw(&raw.assume_init())
        }
    }

    /// The latency that the fraction `quantile` (0 to 1) of the operations did not exceed, exact to
    /// 1.6 %; 0 if there were none. GET, PUT, DELETE and SCAN are measured; every other change
    /// counts as a PUT.
    pub fn latency(&self, op: OpCode, quantile: f64) -> Duration {
        // SAFETY: the handle is this thread's; any number may be asked for.
        Duration::from_nanos(unsafe { sys::kvd_latency_ns(self.as_raw(), op.raw(), quantile) })
    }

    /// Turns on or off whether operations of this client are counted and timed, for
    /// [`Client::op_stats`]. Off at first.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: operations are outstanding. [`Error::NoMemory`]. Nothing was changed.
    pub fn observe(&self, on: bool) -> Result<()> {
        let flags = if on { sys::KVD_OBSERVE_OPS } else { sys::KVD_OBSERVE_OFF };
        // SAFETY: the handle is this thread's.
        self.check(unsafe { sys::kvd_observe(self.as_raw(), flags) })
    }

    /// What was recorded for operations of one kind that took one path.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: there is no such operation or path. [`Error::NoMemory`].
    pub fn op_stats(&self, op: OpCode, path: Path) -> Result<OpStats> {
        op_stats_of(self.as_raw(), op, path)
    }

    /// The statistics of this client as text.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn stats_text(&self, format: StatsFormat) -> Result<String> {
        stats_text_of(self.as_raw(), format)
    }
}

/// The sum of [`Client::stats`] over all clients of the process that are or were observed, and how
/// many of them are open. Any thread may call this at any time.
pub fn process_stats() -> (Stats, usize) {
    let _user = LibraryUser::new();
    let mut raw = MaybeUninit::<sys::kvd_stats>::zeroed();
    // SAFETY: zeros are valid, and at most the size is written.
    unsafe {
        let open = sys::kvd_process_stats(raw.as_mut_ptr(), size_of::<sys::kvd_stats>());
        (Stats::of_raw(&raw.assume_init()), open)
    }
}

/// As [`Client::op_stats`], summed over the clients of the process.
///
/// # Errors
///
/// As [`Client::op_stats`].
pub fn process_op_stats(op: OpCode, path: Path) -> Result<OpStats> {
    let _user = LibraryUser::new();
    op_stats_of(ptr::null(), op, path)
}

/// As [`Client::stats_text`], summed over the clients of the process.
///
/// # Errors
///
/// As [`Client::stats_text`].
pub fn process_stats_text(format: StatsFormat) -> Result<String> {
    let _user = LibraryUser::new();
    stats_text_of(ptr::null(), format)
}

/// Forgets what was recorded for clients that are closed, which the figures of the process
/// otherwise include.
///
/// # Errors
///
/// None at present.
pub fn process_stats_forget() -> Result<()> {
    let _user = LibraryUser::new();
    // SAFETY: the handle may be NULL if no flag is set.
    match unsafe { sys::kvd_observe(ptr::null_mut(), sys::KVD_OBSERVE_OFF) } {
        sys::KVD_OK => Ok(()),
        status => Err(thread_error(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_paths_keep_their_numbers() {
        for number in 0..20 {
            assert_eq!(OpCode::of_raw(number).raw(), number);
            assert_eq!(Path::of_raw(number).raw(), number);
        }
        assert_eq!(OpCode::of_raw(99), OpCode::Other(99));
        assert_eq!(OpCode::of_raw(sys::KVD_OP_DELETE), OpCode::Delete);
        assert_eq!(Path::of_raw(sys::KVD_PATH_PULL), Path::Pull);
    }

    #[test]
    fn times_have_all_that_the_library_says() {
        let raw = sys::kvd_times {
            count: 1,
            sum_ns: 2,
            min_ns: 3,
            max_ns: 4,
            p50_ns: 5,
            p90_ns: 6,
            p99_ns: 7,
            p999_ns: 8,
        };
        let times = Times {
            count: 1,
            sum_ns: 2,
            min_ns: 3,
            max_ns: 4,
            p50_ns: 5,
            p90_ns: 6,
            p99_ns: 7,
            p999_ns: 8,
        };
        assert_eq!(Times::of_raw(&raw), times);
    }
}
