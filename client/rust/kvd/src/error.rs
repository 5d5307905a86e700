// SPDX-License-Identifier: MIT
//! Errors: one variant for each status of libkvd, with the library's text.

use crate::sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_char;

/// The errors of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! errors {
    ($($(#[$doc:meta])* $variant:ident = $status:ident,)*) => {
        /// Why a call failed: a variant for each status of libkvd.
        ///
        /// Each has a line of text: what happened, the cause and, if there is one, the remedy
        /// (`kvd_error()`). A submitted or asynchronous operation has the status' general text.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $variant(String),)*
            /// The value is longer than the buffer: `KVD_ERR_BUFFER`.
            Buffer {
                /// Bytes that are needed.
                needed: usize,
                /// What happened.
                text: String,
            },
            /// A status of a later version of libkvd that this crate does not know.
            Other {
                /// The status' number in `enum kvd_status`.
                status: u32,
                /// What happened.
                text: String,
            },
        }

        impl Error {
            /// The status in `enum kvd_status` of kvd.h.
            pub fn status(&self) -> u32 {
                match self {
                    $(Error::$variant(_) => sys::$status,)*
                    Error::Buffer { .. } => sys::KVD_ERR_BUFFER,
                    Error::Other { status, .. } => *status,
                }
            }

            /// What happened, the cause and, if there is one, the remedy.
            pub fn text(&self) -> &str {
                match self {
                    $(Error::$variant(text) => text,)*
                    Error::Buffer { text, .. } | Error::Other { text, .. } => text,
                }
            }

            /// The error of a status, which is not `KVD_OK`. `needed` is used for
            /// `KVD_ERR_BUFFER` only.
            pub(crate) fn new(status: sys::kvd_status, needed: usize, text: String) -> Error {
                match status {
                    $(sys::$status => Error::$variant(text),)*
                    sys::KVD_ERR_BUFFER => Error::Buffer { needed, text },
                    _ => Error::Other { status, text },
                }
            }
        }
    };
}

errors! {
    /// The key (or other named thing) does not exist: a verified fact, not a guess. Calls that
    /// look something up return `None` or `false` instead.
    NotFound = KVD_NOT_FOUND,
    /// An argument is out of its range; nothing was done.
    Invalid = KVD_ERR_INVALID,
    /// The value is longer than the server's limit, or than this host's device registers at once.
    TooLarge = KVD_ERR_TOO_LARGE,
    /// No room in the server's memory; the old value is unchanged.
    NoSpace = KVD_ERR_NO_SPACE,
    /// The client could not allocate or register memory.
    NoMemory = KVD_ERR_NO_MEMORY,
    /// The call took longer than its timeout. A change may have taken effect, or may do so later.
    Timeout = KVD_ERR_TIMEOUT,
    /// There was no connection until the deadline; nothing was done.
    Disconnected = KVD_ERR_DISCONNECTED,
    /// No server listens at the address, or no route leads there.
    Unreachable = KVD_ERR_UNREACHABLE,
    /// The server or its socket's permissions refused the connection.
    Refused = KVD_ERR_REFUSED,
    /// The RDMA device failed, or none that fits the address exists.
    Device = KVD_ERR_DEVICE,
    /// The server speaks another version, or broke the protocol.
    Protocol = KVD_ERR_PROTOCOL,
    /// The server can't do this now; try again later.
    Busy = KVD_ERR_BUSY,
    /// A condition on the key does not hold: nothing was changed.
    Exists = KVD_ERR_EXISTS,
    /// The value is not an unsigned decimal number of 64 bits: nothing was changed.
    NotANumber = KVD_ERR_NOT_A_NUMBER,
    /// The operation was canceled.
    Canceled = KVD_ERR_CANCELED,
    /// The connection was lost before a change was answered: its effect is unknown.
    Unknown = KVD_ERR_UNKNOWN,
    /// One end does not accept the other's identity, or the server has no user for the client.
    Auth = KVD_ERR_AUTH,
    /// The client's user lacks the right, or may not use the key; nothing was done.
    NotAllowed = KVD_ERR_NOT_ALLOWED,
    /// Beyond a limit of the client's user; nothing was done: try again later.
    Limit = KVD_ERR_LIMIT,
    /// The server has been away for a whole timeout; nothing was done, and nothing waited for.
    Away = KVD_ERR_AWAY,
    /// Another member of the fleet has the key, or none that is known; nothing was done.
    Moved = KVD_ERR_MOVED,
}

impl Error {
    /// The error of a status with the status' own text.
    pub(crate) fn of_status(status: sys::kvd_status, needed: usize) -> Error {
        // SAFETY: any number may be asked for, and the string is static.
        let text = unsafe { text_of(sys::kvd_status_text(status)) };
        Error::new(status, needed, text)
    }

    /// An argument that this crate refuses by itself.
    pub(crate) fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error {
            Error::NotFound(_) => ErrorKind::NotFound,
            Error::Invalid(_) => ErrorKind::InvalidInput,
            Error::NoMemory(_) => ErrorKind::OutOfMemory,
            Error::Timeout(_) => ErrorKind::TimedOut,
            Error::Disconnected(_) | Error::Away(_) => ErrorKind::NotConnected,
            Error::Refused(_) => ErrorKind::ConnectionRefused,
            Error::Exists(_) => ErrorKind::AlreadyExists,
            Error::Auth(_) | Error::NotAllowed(_) => ErrorKind::PermissionDenied,
            _ => ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}

/// Copies a string of libkvd; "" if it is NULL.
///
/// # Safety
///
/// `text` is NULL or NUL-terminated, and does not change during the call.
pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}
