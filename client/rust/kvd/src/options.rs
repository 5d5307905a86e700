// SPDX-License-Identifier: MIT
//! Options of a client; [`Client::open`] uses the defaults.

use crate::error::{text_of, Error, Result};
use crate::{hooks, sys, Client};
use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// Options of a connection; [`Options::open`] opens it.
///
/// ```no_run
/// # fn main() -> kvd::Result<()> {
/// use std::time::Duration;
///
/// let db = kvd::Options::new()
///     .timeout(Duration::from_millis(500))
///     .depth(128)
///     .open("rdma://10.0.0.1:7471")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Options {
    raw: sys::kvd_options,
    names: [Option<CString>; NAMES],
    bad: Option<&'static str>,
}

const NAMES: usize = 5;
const NAME_OF: [&str; NAMES] = ["tls_ca", "tls_certificate", "tls_key", "tls_psk", "tenant"];

// SAFETY: the pointers in `raw` are NULL until open() has set them in a copy.
unsafe impl Send for Options {}
// SAFETY: as above; nothing changes through a shared reference.
unsafe impl Sync for Options {}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("timeout_ms", &self.raw.timeout_ms)
            .field("connect_timeout_ms", &self.raw.connect_timeout_ms)
            .field("cache_bytes", &self.raw.cache_bytes)
            .field("spin_us", &self.raw.spin_us)
            .field("get_tries", &self.raw.get_tries)
            .field("depth", &self.raw.depth)
            .field("reconnect", &self.raw.reconnect)
            .field("names", &NAME_OF.iter().zip(&self.names).collect::<Vec<_>>())
            .finish()
    }
}

/// Milliseconds, rounded up: a short time does not become 0. libkvd refuses a time that is too
/// long.
fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().saturating_add(999_999) / 1_000_000).unwrap_or(u32::MAX)
}

/// The time that an operation may take, in milliseconds; 0: as long as the client's calls.
pub(crate) fn operation_ms(time: Option<Duration>) -> u32 {
    time.map_or(0, |time| milliseconds(time).max(1))
}

impl Options {
    /// The defaults of libkvd.
    pub fn new() -> Options {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: all of it is filled.
        let raw = unsafe {
            sys::kvd_options_init(raw.as_mut_ptr());
            raw.assume_init()
        };
        Options { raw, names: Default::default(), bad: None }
    }

    /// Longest time that one call may take: 1 ms to 1 hour. Default 2 s.
    pub fn timeout(&mut self, time: Duration) -> &mut Self {
        self.raw.timeout_ms = milliseconds(time);
        self
    }

    /// Longest time that [`Options::open`] may take: 1 ms to 1 hour. Default 5 s.
    pub fn connect_timeout(&mut self, time: Duration) -> &mut Self {
        self.raw.connect_timeout_ms = milliseconds(time);
        self
    }

    /// Size of the bucket cache, which saves a GET one of two READs: 20 bytes for each key in the
    /// store. 0 disables it. All clients of a process with one server share a cache. Default
    /// 32 MiB.
    pub fn cache_bytes(&mut self, bytes: usize) -> &mut Self {
        self.raw.cache_bytes = bytes;
        self
    }

    /// How long a call polls for its completion before it sleeps, rounded up to microseconds; at
    /// most 1 s. Default 200 us.
    pub fn spin(&mut self, time: Duration) -> &mut Self {
        let micros = time.as_nanos().saturating_add(999) / 1000;
        self.raw.spin_us = u32::try_from(micros).unwrap_or(u32::MAX);
        self
    }

    /// How often a GET reads an item that keeps changing before it asks the server: 1 to 1,000.
    /// Default 16.
    pub fn get_tries(&mut self, tries: u32) -> &mut Self {
        self.raw.get_tries = tries;
        self
    }

    /// Submitted operations that are in flight together: 1 to 1,024; more wait. Default 64.
    pub fn depth(&mut self, operations: u32) -> &mut Self {
        self.raw.depth = operations;
        self
    }

    /// Whether the client connects again by itself when its connection is lost. Default true.
    pub fn reconnect(&mut self, reconnect: bool) -> &mut Self {
        self.raw.reconnect = reconnect.into();
        self
    }

    fn name(&mut self, which: usize, name: &OsStr) -> &mut Self {
        match CString::new(name.as_bytes()) {
            Ok(name) => self.names[which] = Some(name),
            Err(_) => self.bad = Some(NAME_OF[which]),
        }
        self
    }

    /// `rdma+tls://`: the file with the certificates of the authorities that sign the server's.
    /// Unless set, `KVD_TLS_CA` names the file.
    pub fn tls_ca(&mut self, file: impl AsRef<OsStr>) -> &mut Self {
        self.name(0, file.as_ref())
    }

    /// `rdma+tls://`: the files with this client's certificate, and with its private key. Unless
    /// set, `KVD_TLS_CERTIFICATE` and `KVD_TLS_KEY` name the files.
    pub fn tls_identity(
        &mut self,
        certificate: impl AsRef<OsStr>,
        key: impl AsRef<OsStr>,
    ) -> &mut Self {
        self.name(1, certificate.as_ref()).name(2, key.as_ref())
    }

    /// `rdma+tls://`: the file with the key that client and server share. Unless set,
    /// `KVD_TLS_PSK` names the file.
    pub fn tls_psk(&mut self, file: impl AsRef<OsStr>) -> &mut Self {
        self.name(3, file.as_ref())
    }

    /// The tenant whose store is used: 1 to 24 letters, digits, '-', '_' and '.'. Unless set,
    /// `KVD_TENANT` names the tenant, or the server chooses.
    pub fn tenant(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.name(4, name.as_ref())
    }

    /// The result points into `self`.
    fn as_raw(&self) -> sys::kvd_options {
        let name = |which: usize| -> *const c_char {
            self.names[which].as_ref().map_or(ptr::null(), |name| name.as_ptr())
        };
        let mut raw = self.raw;
        (raw.tls_ca, raw.tls_certificate, raw.tls_key) = (name(0), name(1), name(2));
        (raw.tls_psk, raw.tenant) = (name(3), name(4));
        raw
    }

    /// Connects to the server at `url`. `kvd.h` (`kvd_open()`) has the forms of a URL and what
    /// each error means. Blocks for at most the connect timeout, plus the time to resolve a name.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Unreachable`], [`Error::Refused`], [`Error::Limit`],
    /// [`Error::Auth`], [`Error::Protocol`], [`Error::Device`], [`Error::NoMemory`],
    /// [`Error::Timeout`], [`Error::Disconnected`].
    pub fn open(&self, url: &str) -> Result<Client> {
        if let Some(name) = self.bad {
            return Err(Error::invalid(format!("{name} has a zero byte in it")));
        }
        let url = CString::new(url).map_err(|_| Error::invalid("the URL has a zero byte in it"))?;
        let raw = self.as_raw();
        let user = hooks::LibraryUser::new();
        let mut handle = ptr::null_mut();
        // SAFETY: the strings live until the call returns, which copies them.
        let status = unsafe { sys::kvd_open(&mut handle, url.as_ptr(), &raw) };
        match NonNull::new(handle) {
            Some(handle) if status == sys::KVD_OK => Ok(Client::new(handle, user)),
            // SAFETY: the string is valid until this thread's next kvd_open().
            _ => Err(Error::new(status, 0, unsafe { text_of(sys::kvd_error(ptr::null())) })),
        }
    }
}

/// The URL to connect to if the user names none: `$KVD_URL`, or the socket of this user's own
/// server, or of the system's. No other thread may change the environment meanwhile.
pub fn default_url() -> String {
    let mut buffer = [0; sys::KVD_URL_MAX as usize];
    // SAFETY: the call writes at most KVD_URL_MAX bytes; the result is in the buffer, static, or
    // in the environment.
    unsafe { text_of(sys::kvd_default_url(buffer.as_mut_ptr())) }
}

/// The version of libkvd that is linked, "MAJOR.MINOR.PATCH".
pub fn version() -> &'static str {
    // SAFETY: the string is static.
    unsafe { CStr::from_ptr(sys::kvd_version()) }.to_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const BEYOND_U32: Duration = Duration::from_millis((1 << 32) + 1);

    #[test]
    fn milliseconds_are_rounded_up_and_end_at_the_largest() {
        for (time, ms) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(1000), 1),
            (Duration::from_nanos(1_000_001), 2),
            (Duration::from_secs(2), 2000),
            (Duration::from_millis(u64::from(u32::MAX)), u32::MAX),
            (BEYOND_U32, u32::MAX),
            (Duration::MAX, u32::MAX),
        ] {
            assert_eq!(milliseconds(time), ms, "of {time:?}");
        }
    }

    /// 0 would be the client's own timeout.
    #[test]
    fn an_operation_of_no_time_has_a_deadline_of_its_own() {
        assert_eq!(operation_ms(None), 0);
        assert_eq!(operation_ms(Some(Duration::ZERO)), 1);
        assert_eq!(operation_ms(Some(Duration::from_nanos(1))), 1);
        assert_eq!(operation_ms(Some(Duration::from_millis(7))), 7);
        assert_eq!(operation_ms(Some(BEYOND_U32)), u32::MAX);
    }

    /// All options that are no names.
    fn numbers(options: &Options) -> [usize; 7] {
        let raw = options.as_raw();
        [
            raw.timeout_ms as usize,
            raw.connect_timeout_ms as usize,
            raw.cache_bytes,
            raw.spin_us as usize,
            raw.get_tries as usize,
            raw.depth as usize,
            raw.reconnect as usize,
        ]
    }

    fn names(options: &Options) -> [String; NAMES] {
        let raw = options.as_raw();
        // SAFETY: they are NULL, or strings of the options.
        [raw.tls_ca, raw.tls_certificate, raw.tls_key, raw.tls_psk, raw.tenant]
            .map(|name| unsafe { text_of(name) })
    }

    #[test]
    fn each_option_has_an_effect_alone() {
        const DEFAULTS: [usize; 7] = [2000, 5000, 32 << 20, 200, 16, 64, 1];
        type Set = fn(&mut Options);
        let cases: [(usize, usize, Set); 11] = [
            (0, 3, |options| _ = options.timeout(Duration::from_millis(3))),
            (0, 0, |options| _ = options.timeout(Duration::ZERO)),
            (1, 3, |options| _ = options.connect_timeout(Duration::from_millis(3))),
            (1, 0, |options| _ = options.connect_timeout(Duration::ZERO)),
            (2, 0, |options| _ = options.cache_bytes(0)),
            (3, 1, |options| _ = options.spin(Duration::from_nanos(1))),
            (3, 0, |options| _ = options.spin(Duration::ZERO)),
            (3, u32::MAX as usize, |options| _ = options.spin(BEYOND_U32)),
            (4, 3, |options| _ = options.get_tries(3)),
            (5, 3, |options| _ = options.depth(3)),
            (6, 0, |options| _ = options.reconnect(false)),
        ];
        assert_eq!(numbers(&Options::default()), DEFAULTS);
        for (which, number, set) in cases {
            let mut options = Options::new();
            set(&mut options);
            let mut wanted = DEFAULTS;
            wanted[which] = number;
            assert_eq!(numbers(&options), wanted);
            assert_eq!(names(&options), [""; NAMES]);
        }
    }

    #[test]
    fn each_name_has_an_effect_alone() {
        assert_eq!(names(Options::new().tls_ca("a")), ["a", "", "", "", ""]);
        assert_eq!(names(Options::new().tls_identity("b", "c")), ["", "b", "c", "", ""]);
        assert_eq!(names(Options::new().tls_psk("d")), ["", "", "", "d", ""]);
        assert_eq!(names(Options::new().tenant("e")), ["", "", "", "", "e"]);
        for name in NAME_OF {
            let text = format!("{:?}", Options::new().tls_identity("b", "c"));
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_before_a_server_is_looked_for() {
        let refused = |options: &Options| matches!(options.open("softnic:///nowhere"), Err(Error::Invalid(text)) if !text.is_empty());
        assert!(!refused(&Options::new()));
        for time in [Duration::ZERO, Duration::from_secs(3601), BEYOND_U32, Duration::MAX] {
            assert!(refused(Options::new().timeout(time)), "{time:?}");
            assert!(refused(Options::new().connect_timeout(time)), "{time:?}");
        }
        assert!(!refused(Options::new().timeout(Duration::from_nanos(1))));
        assert!(!refused(Options::new().spin(Duration::ZERO)));
        assert!(refused(Options::new().spin(Duration::from_nanos(1_000_000_001))));
        const ZERO_BYTE: &str = "a\0b";
        assert!(refused(Options::new().tls_ca(ZERO_BYTE)));
        assert!(refused(Options::new().tls_identity(ZERO_BYTE, "key")));
        assert!(refused(Options::new().tls_identity("certificate", ZERO_BYTE)));
        assert!(refused(Options::new().tls_psk(ZERO_BYTE)));
        assert!(refused(Options::new().tenant(ZERO_BYTE)));
    }
}
